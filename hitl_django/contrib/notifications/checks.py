"""System checks of what the app needs of a project: settings, and addresses of its users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.contrib.auth import get_user_model
from django.core import checks

from hitl_django.conf import hitl

from .models import NotificationPreferences


def check_notifications(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Reports values that say nothing about when people are told, and users without addresses."""
    found: list[checks.CheckMessage] = []
    if hitl.NOTIFICATION_DEFAULT not in NotificationPreferences.When.values:
        found.append(
            checks.Error(
                "HITL['NOTIFICATION_DEFAULT'] is none of 'now', 'daily' and 'off'.",
                id="hitl_django.E003",
            )
        )
    if type(hitl.DIGEST_HOUR) is not int or hitl.DIGEST_HOUR not in range(24):
        found.append(
            checks.Error("HITL['DIGEST_HOUR'] is no hour from 0 to 23.", id="hitl_django.E003")
        )
    name = get_user_model().get_email_field_name()
    if name not in {field.name for field in get_user_model()._meta.fields}:
        found.append(
            checks.Error(
                f"The user model has no field {name!r} to send mails to.",
                hint="Set EMAIL_FIELD of the model.",
                id="hitl_django.E035",
            )
        )
    return found
