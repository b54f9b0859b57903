"""Models for spot checks: a random sample of approvals that other reviewers check later."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.engine.ids import new_id
from hitl_django.extensions import require_app
from hitl_django.models import Decision, Interrupt
from hitl_django.models.fields import EncryptedTextField
from hitl_django.models.functions import Now

require_app("hitl_django.contrib.insights")


class SpotCheck(models.Model):
    """An approval that another reviewer checks later. The run doesn't wait for the check.

    The row is stored in the transaction of the decision. ``result`` is empty while the check is
    pending, and is set once.
    """

    class Result(models.TextChoices):
        """The result of a spot check: whether the other reviewer would also have approved."""

        AGREE = "agree", _("agrees")
        DISAGREE = "disagree", _("disagrees")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    interrupt = models.ForeignKey(
        Interrupt,
        on_delete=models.CASCADE,
        related_name="spot_checks",
        verbose_name=_("request"),
    )
    decision = models.OneToOneField(
        Decision,
        on_delete=models.CASCADE,
        related_name="spot_check",
        verbose_name=_("decision"),
    )
    created_at = models.DateTimeField(_("sampled"), db_default=Now(), editable=False)
    result = models.CharField(
        _("result"), max_length=20, choices=Result.choices, blank=True, db_default=""
    )
    reason = EncryptedTextField(_("reason"), blank=True, db_default="")
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("by"),
        db_index=False,
        db_default=None,
    )
    by_label = models.CharField(_("by"), max_length=255, blank=True, db_default="")
    checked_at = models.DateTimeField(_("checked"), null=True, blank=True, db_default=None)

    class Meta:
        verbose_name = _("spot check")
        verbose_name_plural = _("spot checks")
        ordering: ClassVar = ["-created_at", "-id"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(result__in=["", "agree", "disagree"]),
                name="hitl_spot_check_result",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["-created_at", "-id"], name="hitl_spot_check_newest"),
            models.Index(
                fields=["created_at", "id"],
                condition=models.Q(result=""),
                name="hitl_spot_check_open",
            ),
            models.Index(
                fields=["by"],
                condition=models.Q(by__isnull=False),
                name="hitl_spot_check_by",
            ),
        ]

    def __str__(self) -> str:
        return str(self.interrupt)
