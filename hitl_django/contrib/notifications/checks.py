"""System check of the user model's email field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.contrib.auth import get_user_model
from django.core import checks


def check_email_field(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Report a user model without an email field."""
    name = get_user_model().get_email_field_name()
    if name in {field.name for field in get_user_model()._meta.fields}:
        return []
    return [
        checks.Error(
            f"The user model has no email field {name!r}.",
            hint="Set EMAIL_FIELD on the model.",
            id="hitl_django.E035",
        )
    ]
