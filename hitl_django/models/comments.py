"""Model for comments of reviewers on interrupts."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar
from uuid import UUID

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.engine.ids import new_id
from hitl_django.json_text.sanitize import escape_invisible

from .fields import EncryptedTextField, JSONTextField
from .functions import Now
from .review import Interrupt


class Comment(models.Model):
    """A comment on an interrupt. Comments can't be edited, and the graph doesn't receive them."""

    #: The id of the comment.
    id: models.UUIDField[UUID, UUID] = models.UUIDField(
        primary_key=True, default=new_id, editable=False
    )
    #: The interrupt with the comment.
    interrupt: models.ForeignKey[Interrupt, Interrupt] = models.ForeignKey(
        Interrupt,
        on_delete=models.CASCADE,
        related_name="comments",
        verbose_name=_("request"),
        db_index=False,
    )
    interrupt_id: UUID
    #: The user who wrote the comment.
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("by"),
    )
    #: The name of this user, also after the user was deleted.
    by_label: models.CharField[str, str] = models.CharField(_("by"), max_length=255)
    #: The interface: admin, api or code.
    via: models.CharField[str, str] = models.CharField(_("via"), max_length=20)
    #: The text of the comment.
    text = EncryptedTextField(_("comment"))
    #: Usernames mentioned in the text. Only users who may see the interrupt are included. They are
    #: notified.
    mentions = JSONTextField(null=True, blank=True, db_default=None, editable=False)
    #: The time at which the comment was written.
    created_at: models.DateTimeField[datetime, datetime] = models.DateTimeField(
        _("created"), db_default=Now(), editable=False
    )

    class Meta:
        verbose_name = _("comment")
        verbose_name_plural = _("comments")
        ordering: ClassVar = ["created_at", "id"]
        indexes: ClassVar = [
            models.Index(fields=["interrupt", "created_at", "id"], name="hitl_comment_interrupt"),
        ]

    def __str__(self) -> str:
        return f"{escape_invisible(self.by_label)}, {self.created_at}"
