"""The model of review links."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.engine.ids import new_id
from hitl_django.extensions import require_app
from hitl_django.json_text.sanitize import escape_invisible
from hitl_django.models import Interrupt
from hitl_django.models.fields import JSONTextField
from hitl_django.models.functions import Now

require_app("hitl_django.contrib.links")


class ReviewLink(models.Model):
    """A link with which one named person can decide one version of an interrupt, once.

    Only a digest of the link's secret is stored, so the table doesn't reveal usable links.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    interrupt = models.ForeignKey(
        Interrupt, on_delete=models.CASCADE, related_name="links", verbose_name=_("request")
    )
    secret_digest = models.CharField(max_length=64)
    name = models.CharField(_("recipient"), max_length=255)
    email = models.EmailField(_("email"), blank=True)
    #: Decision types that the link allows. The interrupt may allow further types.
    decisions = JSONTextField(_("decisions"), default=list)
    #: Digest of the payload at the creation of the link, which identifies the version of the
    #: interrupt.
    payload_digest = models.CharField(max_length=32)
    version = models.PositiveIntegerField()
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_by_label = models.CharField(_("created by"), max_length=255)
    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)
    expires_at = models.DateTimeField(_("expires"))
    used_at = models.DateTimeField(_("used"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)

    class Meta:
        verbose_name = _("review link")
        verbose_name_plural = _("review links")
        ordering: ClassVar = ["-created_at", "-id"]
        permissions: ClassVar = [("link_interrupt", _("Can create review links"))]

    def __str__(self) -> str:
        return escape_invisible(self.name)
