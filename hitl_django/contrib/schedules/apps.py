"""App configuration, which registers the extension of schedules."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class SchedulesConfig(AppConfig):
    """App for schedules, which start runs by cron expressions."""

    name = "hitl_django.contrib.schedules"
    label = "hitl_schedules"
    verbose_name = _("Schedules")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from hitl_django.extensions import Extension, Table, register

        from . import checks  # noqa: F401  (registers them)
        from .doctor import report_failing
        from .models import Schedule
        from .overview import list_next_runs
        from .start_due import find_overdue_since, start_due

        register(
            Extension(
                name=self.label,
                verbs={"schedules": f"{self.name}.list_schedules"},
                api_urls=f"{self.name}.api.urls",
                tables=[
                    Table(
                        model=Schedule,
                        user_labels={"owner_label": "owner"},
                        exported=[
                            "id",
                            "graph",
                            "description",
                            "expression",
                            "timezone",
                            "owner_label",
                            "created_at",
                        ],
                    )
                ],
                overview=[list_next_runs],
                sweep=[start_due],
                overdue=[find_overdue_since],
                doctor=[report_failing],
            )
        )
