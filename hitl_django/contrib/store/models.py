"""The model of store items."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from hitl_django.extensions import require_app
from hitl_django.json_text.sanitize import escape_invisible
from hitl_django.models.fields import JSONTextField, NamespaceField
from hitl_django.models.functions import Now

require_app("hitl_django.contrib.store")


class StoreItem(models.Model):
    """A JSON object, stored under a namespace and a key.

    The item is invisible from ``expires_at`` on, i.e. when ``ttl`` has passed since the item was
    stored or last read. ``vectors`` are the item's embeddings, if the store has an index.
    """

    #: The path of the item, a tuple of strings.
    namespace = NamespaceField(_("namespace"))
    #: The name of the item in its namespace.
    key = models.TextField(_("key"))
    #: The JSON object.
    value = JSONTextField(_("value"))
    #: The embeddings of the item, if the store has an index.
    vectors = models.BinaryField(default=bytes)
    #: The duration for which the item remains after it was stored or last read.
    ttl = models.DurationField(_("time to live"), null=True, blank=True)
    #: The time from which the item is invisible.
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    #: The time at which the item was first stored.
    created_at = models.DateTimeField(_("created"), db_default=Now(), editable=False)
    #: The time at which the item was last stored.
    updated_at = models.DateTimeField(_("updated"), db_default=Now(), editable=False)

    class Meta:
        verbose_name = _("store item")
        verbose_name_plural = _("store items")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["namespace", "key"], name="hitl_store_key"),
        ]
        indexes: ClassVar = [
            # A search reads a namespace and the namespaces below it in the order in which items
            # were stored.
            models.Index(fields=["namespace", "id"], name="hitl_store_order"),
            models.Index(
                condition=models.Q(expires_at__isnull=False),
                fields=["expires_at"],
                name="hitl_store_expiry",
            ),
        ]

    def __str__(self) -> str:
        return escape_invisible("/".join([*self.namespace, self.key]))
