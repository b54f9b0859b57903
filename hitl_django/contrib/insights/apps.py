"""App configuration, which registers the extension of insights."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class InsightsConfig(AppConfig):
    """Statistics on reviews, and spot checks of decisions."""

    name = "hitl_django.contrib.insights"
    label = "hitl_insights"
    verbose_name = _("Insights")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from hitl_django.extensions import AdminLink, Extension, Table, register

        from . import checks  # noqa: F401  (registers them)
        from .models import SpotCheck
        from .spot_checks import sample_decision

        register(
            Extension(
                name=self.label,
                admin_links=[
                    AdminLink(_("Spot checks"), SpotCheck, "changelist"),
                    AdminLink(_("Insights"), SpotCheck, "reports"),
                ],
                audit_verbs={"spot_check": _("Spot-checked an approval")},
                tables=[
                    Table(
                        model=SpotCheck,
                        thread="interrupt__thread",
                        user_labels={"by_label": "by"},
                        erased={"reason": ""},
                    )
                ],
                subscribers=[sample_decision],
            )
        )
