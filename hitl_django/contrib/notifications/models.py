"""Models for notification preferences, notification progress and Slack channels."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.conf import hitl
from hitl_django.contrib.webhooks.models import WebhookEndpoint
from hitl_django.extensions import require_app

from .topics import NotificationTopic

require_app("hitl_django.contrib.notifications")


class NotificationPreferences(models.Model):
    """Notification settings of a user.

    An empty field means that NOTIFICATION_DEFAULT applies. The fields have the names of the topics.
    """

    class When(models.TextChoices):
        """How often a user is notified."""

        NOW = "now", _("immediately")
        DAILY = "daily", _("daily")
        OFF = "off", _("never")

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="hitl_notifications",
        verbose_name=_("user"),
    )
    requested = models.CharField(
        NotificationTopic.REQUESTED.label, max_length=10, choices=When.choices, blank=True
    )
    assigned = models.CharField(
        NotificationTopic.ASSIGNED.label, max_length=10, choices=When.choices, blank=True
    )
    mentioned = models.CharField(
        NotificationTopic.MENTIONED.label, max_length=10, choices=When.choices, blank=True
    )
    due = models.CharField(
        NotificationTopic.DUE.label, max_length=10, choices=When.choices, blank=True
    )
    overdue = models.CharField(
        NotificationTopic.OVERDUE.label, max_length=10, choices=When.choices, blank=True
    )
    #: Language of notifications. Empty for the language of the site.
    language = models.CharField(_("language"), max_length=20, blank=True)

    class Meta:
        verbose_name = _("notification settings")
        verbose_name_plural = _("Notification settings")
        default_permissions: ClassVar = ()

    def __str__(self) -> str:
        return str(self.user_id)

    def get(self, topic: str) -> str:
        """Return the frequency of notifications on a topic: the user's choice, or the default."""
        return str(getattr(self, topic)) or str(hitl.NOTIFICATION_DEFAULT)


class NotificationCursor(models.Model):
    """The progress of a sweep step: the time up to which due reminders, or digests, were sent."""

    name = models.CharField(max_length=20, primary_key=True)
    until = models.DateTimeField()

    class Meta:
        default_permissions: ClassVar = ()

    def __str__(self) -> str:
        return f"{self.name} {self.until}"


class SlackChannels(models.Manager["SlackChannel"]):
    """Manager of the endpoints that are Slack channels."""

    def get_queryset(self) -> models.QuerySet[Any]:
        return super().get_queryset().filter(channel=SlackChannel.CHANNEL)


class SlackChannel(WebhookEndpoint):
    """A Slack channel to which notifications are posted.

    The address is the id of the Slack channel, or the URL of an incoming webhook. This URL is
    secret.
    """

    CHANNEL = "slack"

    objects: ClassVar = SlackChannels()

    class Meta:
        proxy = True
        verbose_name = _("Slack channel")
        verbose_name_plural = _("Slack channels")
        ordering: ClassVar = ["-created_at", "-id"]
        default_permissions: ClassVar = ()
