"""Models of webhook endpoints and their deliveries."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.engine.ids import new_id
from hitl_django.extensions import require_app
from hitl_django.json_text.sanitize import escape_invisible
from hitl_django.models.fields import JSONTextField
from hitl_django.models.functions import Now

from .event_labels import list_choices

require_app("hitl_django.contrib.webhooks")


class WebhookEndpoint(models.Model):
    """A URL that receives events, with the secret that signs its deliveries.

    A ``channel`` other than the default belongs to another app, such as notifications.

    Only one worker at a time sends to an endpoint. This worker has the lease in ``lease_until`` and
    ``epoch``. After failures, the endpoint is paused until ``paused_until``. The pause becomes
    longer with the number of ``failures``. Secrets are stored in clear text, because signing needs
    them. Secrets are shown only once.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    #: The name of the endpoint's channel (channels.py).
    channel = models.CharField(
        max_length=20, default="webhook", db_default="webhook", editable=False
    )
    url = models.CharField(_("URL"), max_length=2000)
    description = models.CharField(_("description"), max_length=255, blank=True)
    #: The events and graphs for which the endpoint gets deliveries. An empty list means all.
    events = JSONTextField(_("events"), default=list, blank=True)
    graphs = JSONTextField(_("graphs"), default=list, blank=True)
    #: If set, the endpoint gets only interrupts that are assigned to this group.
    group_label = models.CharField(max_length=150, blank=True, db_default="", editable=False)
    #: Whether deliveries include the content of interrupts.
    with_interrupt = models.BooleanField(_("include request content"), default=False)
    #: The secret that signs deliveries, or a URL that is itself a secret.
    secret = models.CharField(max_length=2000, editable=False)
    #: The previous secret, which also signs deliveries until ``old_secret_until``.
    old_secret = models.CharField(max_length=100, blank=True, editable=False)
    old_secret_until = models.DateTimeField(null=True, blank=True, editable=False)

    is_active = models.BooleanField(_("active"), default=True)
    #: The reason of an automatic deactivation.
    stopped = models.CharField(_("stopped"), max_length=255, blank=True, editable=False)
    failures = models.PositiveIntegerField(_("consecutive failures"), default=0, editable=False)
    paused_until = models.DateTimeField(_("paused until"), null=True, blank=True, editable=False)
    lease_until = models.DateTimeField(null=True, blank=True, editable=False)
    epoch = models.BigIntegerField(default=0, editable=False)
    #: The time of the last message about the endpoint. The sweep sends another message after a
    #: while.
    last_message_at = models.DateTimeField(db_default=Now(), editable=False)

    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        editable=False,
    )
    created_by_label = models.CharField(_("created by"), max_length=255, editable=False)
    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("webhook")
        verbose_name_plural = _("webhooks")
        ordering: ClassVar = ["-created_at", "-id"]
        permissions: ClassVar = [
            ("manage_webhooks", _("Can create, edit and test webhooks, and redeliver"))
        ]

    def __str__(self) -> str:
        return escape_invisible(self.description or self.url)


class Delivery(models.Model):
    """A delivery to an endpoint, stored in the transaction of its event.

    ``attempts`` is the number of claims by workers, so it includes attempts of workers that were
    killed before a response. A claim sets ``due_at`` to the time at which the claim expires.
    """

    class State(models.TextChoices):
        """The state of a delivery."""

        PENDING = "pending", _("pending")
        DELIVERED = "delivered", _("delivered")
        DEAD = "dead", _("failed")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    #: The foreign key has no constraint. A process may not know yet that the endpoint was deleted,
    #: and the transaction of the event must not fail. The sweep deletes the delivery.
    endpoint = models.ForeignKey(
        WebhookEndpoint,
        on_delete=models.CASCADE,
        related_name="deliveries",
        verbose_name=_("webhook"),
        db_constraint=False,
        db_index=False,
    )
    event = models.CharField(_("event"), max_length=50, choices=list_choices)
    #: Contains only ids, without content from graphs or people.
    data = JSONTextField(_("data"))
    state = models.CharField(
        _("state"), max_length=20, choices=State.choices, default=State.PENDING
    )
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    #: The result of the last attempt: the status of the response, and the reason of a failure.
    status = models.PositiveIntegerField(_("response"), null=True, blank=True)
    fault = models.CharField(_("error"), max_length=255, blank=True)
    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)
    due_at = models.DateTimeField(_("due"), db_default=Now(), editable=False)
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("delivery")
        verbose_name_plural = _("deliveries")
        ordering: ClassVar = ["-created_at", "-id"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(state__in=["pending", "delivered", "dead"]),
                name="hitl_delivery_state",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["endpoint", "due_at"],
                condition=models.Q(state="pending"),
                name="hitl_delivery_due",
            ),
            models.Index(fields=["endpoint", "-created_at", "-id"], name="hitl_delivery_newest"),
            models.Index(
                fields=["finished_at"],
                condition=models.Q(finished_at__isnull=False),
                name="hitl_delivery_finished",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.id}"
