"""Model for idempotency records."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from .functions import Now


class IdempotencyRecord(models.Model):
    """The digest of an API request with an idempotency key, and the id of the result.

    The result is the object that the API request has created or changed. The record is stored
    in the transaction of the API request, so the record exists if and only if the API request
    succeeded.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="+",
        verbose_name=_("user"),
        db_index=False,
    )
    key = models.CharField(_("idempotency key"), max_length=255)
    #: Digest of the request. A repeated request has the same digest.
    digest = models.CharField(max_length=32)
    outcome = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False, db_index=True)

    class Meta:
        verbose_name = _("idempotency record")
        verbose_name_plural = _("idempotency records")
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "key"], name="hitl_keyed_request"),
        ]

    def __str__(self) -> str:
        return self.key
