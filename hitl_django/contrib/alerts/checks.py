"""System checks of the app's settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core import checks

from hitl_django.conf import hitl

from .models import AlertPreferences


@checks.register("hitl_django")
def check_alerts(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Reports values that say nothing about when people are told."""
    found: list[checks.CheckMessage] = []
    if hitl.ALERT_DEFAULT not in AlertPreferences.When.values:
        found.append(
            checks.Error(
                "HITL['ALERT_DEFAULT'] is none of 'now', 'daily' and 'off'.", id="hitl_django.E003"
            )
        )
    if type(hitl.ALERT_HOUR) is not int or hitl.ALERT_HOUR not in range(24):
        found.append(
            checks.Error("HITL['ALERT_HOUR'] is no hour from 0 to 23.", id="hitl_django.E003")
        )
    return found
