"""Second looks: approvals of which a sample is judged by another reviewer."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.engine.ids import new_id

from .fields import EncryptedTextField
from .functions import Now
from .review import Decision, Interrupt


class SecondLook(models.Model):
    """An approval that another reviewer is to judge; the run doesn't wait for it.

    Written in the transaction of the decision. An empty ``verdict`` is one that nobody has given
    yet; it is given once.
    """

    class Verdict(models.TextChoices):
        """Whether the other reviewer would have approved as well."""

        AGREE = "agree", _("agrees")
        DISAGREE = "disagree", _("disagrees")

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    interrupt = models.ForeignKey(
        Interrupt,
        on_delete=models.CASCADE,
        related_name="second_looks",
        verbose_name=_("question"),
    )
    decision = models.OneToOneField(
        Decision,
        on_delete=models.CASCADE,
        related_name="second_look",
        verbose_name=_("decision"),
    )
    created_at = models.DateTimeField(_("drawn"), db_default=Now(), editable=False)
    verdict = models.CharField(
        _("verdict"), max_length=20, choices=Verdict.choices, blank=True, db_default=""
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
    judged_at = models.DateTimeField(_("judged"), null=True, blank=True, db_default=None)

    class Meta:
        verbose_name = _("second look")
        verbose_name_plural = _("second looks")
        ordering: ClassVar = ["-created_at", "-id"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(verdict__in=["", "agree", "disagree"]),
                name="hitl_second_look_verdict",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["-created_at", "-id"], name="hitl_second_look_newest"),
            models.Index(
                fields=["created_at", "id"],
                condition=models.Q(verdict=""),
                name="hitl_second_look_open",
            ),
            models.Index(
                fields=["by"],
                condition=models.Q(by__isnull=False),
                name="hitl_second_look_by",
            ),
        ]

    def __str__(self) -> str:
        return str(self.interrupt)
