"""App configuration, which registers the removal of expired items."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class StoreConfig(AppConfig):
    """App for the store of items that threads share."""

    name = "hitl_django.contrib.store"
    label = "hitl_store"
    verbose_name = _("Store")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from hitl_django.conf import hitl
        from hitl_django.extensions import Extension, register

        from . import expiry

        register(
            Extension(name=self.label, sweep=[lambda: expiry.delete_expired(hitl.SWEEP_BATCH)])
        )
