"""Serializer fields that take a value for what it is, and never for something similar."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.utils.timezone import is_naive
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail


class Text(serializers.CharField):
    """Text as given: a number or a boolean isn't text, and spaces at the ends stay."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("trim_whitespace", False)
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))


class Choice(serializers.ChoiceField):
    """One of a few words; the refusal names them instead of repeating what was sent."""

    default_error_messages = {"invalid_choice": _("Has to be one of: {known}.")}  # noqa: RUF012

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str) or data not in self.choices:
            self.fail("invalid_choice", known=", ".join(map(str, self.choices)))
        return data


class AnyJSON(serializers.Field):
    """Any JSON value, null included, exactly as it was parsed."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_null=True, **kwargs)

    def to_internal_value(self, data: Any) -> Any:
        return data

    def to_representation(self, value: Any) -> Any:
        return value


class JSONObject(serializers.Field):
    """A JSON object, exactly as it was parsed."""

    default_error_messages = {"invalid": _("Has to be a JSON object.")}  # noqa: RUF012

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.fail("invalid")
        return data

    def to_representation(self, value: Any) -> Any:
        return value


class Moment(serializers.Field):
    """A moment in ISO 8601 and UTC, whatever format and time zone the host's own API has."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(read_only=True, **kwargs)

    def to_representation(self, value: datetime) -> str:
        if is_naive(value):  # USE_TZ = False
            return value.isoformat()
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


class Body(serializers.Serializer):
    """What a request may hold; a field it doesn't declare is a fault, not ignored.

    Ignoring would hide a misspelt ``reson`` and invite ``state`` and ``user``.
    """

    def to_internal_value(self, data: Any) -> Any:
        unknown = [key for key in data if key not in self.fields]
        if unknown:
            raise serializers.ValidationError(
                {
                    key: [ErrorDetail(gettext("There is no such field."), "unknown_field")]
                    for key in unknown
                }
            )
        return super().to_internal_value(data)
