"""Strict serializer fields and base serializers.

The fields don't convert types. For example, ``"7"`` is not a number, and ``1`` is not true.
"""

from __future__ import annotations

import re
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from typing import Any, ClassVar, cast
from uuid import UUID

from django.core.exceptions import ValidationError
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail
from rest_framework.request import Request

from hitl_django.conf import hitl
from hitl_django.db.clock import to_stored, to_utc
from hitl_django.page_urls import ANY_ID, RequestPages

from ..invalid_params import MAX_FAULTS

#: Databases can't search for NUL, so queries refuse it. Bodies refuse text with NUL in any field.
WITHOUT_NUL = r"^[^\x00]*$"
#: Maximum duration in a request: ten years.
MAX_SECONDS = 10 * 366 * 86_400
_DIGITS = re.compile("0|[1-9][0-9]{0,17}")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_NO_TIME = _(
    "Must be an ISO 8601 date and time with a UTC offset, for example 2030-01-31T12:00:00Z."
)


class StrictCharField(serializers.CharField):
    """Text.

    Numbers and booleans are errors, and spaces are not stripped.
    """

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("trim_whitespace", False)
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))

    def json_schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "string"}
        if not (self.read_only or self.allow_blank):
            schema["minLength"] = 1
        if self.max_length is not None:
            schema["maxLength"] = self.max_length
        if isinstance(self.parent, Query):
            schema["pattern"] = WITHOUT_NUL
        return schema


class StrictChoiceField(serializers.ChoiceField):
    """One of several words.

    The error message lists the words instead of repeating the input.
    """

    default_error_messages = {"invalid_choice": _("Must be one of: {known}.")}  # noqa: RUF012

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str) or data not in self.choices:
            self.fail("invalid_choice", known=", ".join(map(str, self.choices)))
        return data

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": [str(choice) for choice in self.choices]}


class StrictIntegerField(serializers.Field):
    """An integer as in JSON Schema: ``7.0`` is valid, but ``true`` and ``"7"`` are not.

    In a query, digits are valid because all values are text.
    """

    default_error_messages = {  # noqa: RUF012
        "invalid": _("Must be an integer from {least} to {most}.")
    }

    def __init__(self, *, least: int = 0, most: int = 2**31 - 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.least, self.most = least, most

    def to_internal_value(self, data: Any) -> int:
        written = isinstance(self.parent, Query) and isinstance(data, str)
        if _DIGITS.fullmatch(data) if written else isinstance(data, float) and data.is_integer():
            data = int(data)
        fits = isinstance(data, int) and not isinstance(data, bool)
        if not fits or not self.least <= data <= self.most:
            self.fail("invalid", least=self.least, most=self.most)
        return int(data)

    def to_representation(self, value: Any) -> int:
        return int(value)

    def json_schema(self) -> dict[str, Any]:
        if self.read_only:
            return {"type": "integer"}
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


class RowLimitField(StrictIntegerField):
    """The page size that a client requests, at most ``MAX_PAGE_SIZE``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(least=1, most=int(hitl.MAX_PAGE_SIZE), **kwargs)


class StrictFloatField(serializers.Field):
    """Field for a finite number."""

    default_error_messages = {  # noqa: RUF012
        "invalid": _("Must be a number from {least} to {most}.")
    }

    def __init__(self, *, least: float, most: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.least, self.most = least, most

    def to_internal_value(self, data: Any) -> float:
        is_number = isinstance(data, int | float) and not isinstance(data, bool)
        if not is_number or not self.least <= data <= self.most:
            self.fail("invalid", least=self.least, most=self.most)
        return float(data)

    def to_representation(self, value: Any) -> float:
        return float(value)

    def json_schema(self) -> dict[str, Any]:
        return {"type": "number", "minimum": self.least, "maximum": self.most}


class StrictBooleanField(serializers.BooleanField):
    """True or false.

    Other values are not converted. In a query, the values are ``true`` and ``false``.
    """

    def to_internal_value(self, data: Any) -> bool:
        if isinstance(self.parent, Query):
            data = {"true": True, "false": False}.get(data)
        if not isinstance(data, bool):
            self.fail("invalid", input="")
        return data

    def json_schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


class StrictUUIDField(serializers.Field):
    """A UUID in canonical form."""

    default_error_messages = {"invalid": _("Must be a UUID.")}  # noqa: RUF012

    def to_internal_value(self, data: Any) -> UUID:
        try:
            found = UUID(data)
        except (ValueError, AttributeError, TypeError):
            self.fail("invalid")
        if str(found) != data:
            self.fail("invalid")
        return found

    def to_representation(self, value: Any) -> str:
        return str(value)

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string", "format": "uuid"}


class JSONValueField(serializers.Field):
    """Any JSON value, including null, unchanged."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_null=True, **kwargs)

    def to_internal_value(self, data: Any) -> Any:
        return data

    def to_representation(self, value: Any) -> Any:
        return value

    def json_schema(self) -> dict[str, Any]:
        return {}


class ContextField(JSONValueField):
    """The context of a run.

    Annotate the field as Any, because serializers already have a property named ``context``.
    """

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("required", False)
        kwargs.setdefault("help_text", "An object that matches the graph's context_schema.")
        super().__init__(**kwargs)


class JSONObjectField(serializers.Field):
    """Field for a JSON object, whose content is not changed."""

    default_error_messages = {"invalid": _("Must be a JSON object.")}  # noqa: RUF012

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.fail("invalid")
        return data

    def to_representation(self, value: Any) -> Any:
        return value

    def json_schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": True}


def parse_time(text: Any) -> datetime:
    """Parse an ISO 8601 time with a UTC offset.

    The result is an aware time, or a naive local time if ``USE_TZ`` is off.

    Raises:
        ValidationError: if the text is not such a time or not in the supported years.
    """
    if not isinstance(text, str) or _MOMENT.fullmatch(text) is None:
        raise ValidationError(_NO_TIME, "invalid")
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        raise ValidationError(_NO_TIME, "invalid") from None
    # The time must be a valid datetime in every time zone.
    if not MINYEAR < moment.year < MAXYEAR:
        raise ValidationError(_("Must be between the years 2 and 9998."), "out_of_range")
    return to_stored(moment.astimezone(UTC))


class OffsetDateTimeField(serializers.Field):
    """An ISO 8601 time, independent of the project's DRF settings.

    Input must have a UTC offset. Output is in UTC.
    """

    def to_internal_value(self, data: Any) -> datetime:
        return parse_time(data)

    def to_representation(self, value: datetime) -> str:
        return to_utc(value).isoformat().replace("+00:00", "Z")

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string", "format": "date-time"}


class TimeOrSecondsField(OffsetDateTimeField):
    """A time as in OffsetDateTimeField, or a positive number of seconds from now."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, str):
            return super().to_internal_value(data)
        seconds = StrictFloatField(least=1, most=MAX_SECONDS).run_validation(data)
        return timedelta(seconds=seconds)

    def json_schema(self) -> dict[str, Any]:
        seconds = StrictFloatField(least=1, most=MAX_SECONDS).json_schema()
        return {"anyOf": [super().json_schema(), seconds]}


class MethodField(serializers.SerializerMethodField):
    """Field for the return value of a serializer's method.

    ``shape`` is a field whose JSON Schema describes the return value.
    """

    def __init__(self, shape: serializers.Field, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shape = shape


class HyperlinkField(serializers.Field):
    """The absolute URL of the object whose id is in ``source``.

    ``view`` is the name of the view. The URLs of all rows of a response differ only in the id, so
    only one URL is reversed per response.
    """

    def __init__(self, view: str, *, source: str) -> None:
        super().__init__(source=source, read_only=True)
        self.view = view

    def to_representation(self, value: Any) -> str:
        context = cast(dict[Any, Any], self.context)
        if type(value) is not UUID:
            return build_url(context["request"], self.view, value)
        url = context.get(self.view)
        if url is None:
            url = context[self.view] = build_url(context["request"], self.view, ANY_ID)
        return str(url.replace(str(ANY_ID), str(value)))

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string", "format": "uri"}


class ReviewURLField(serializers.Field):
    """The absolute URL of the page on which the user decides an interrupt."""

    def __init__(self) -> None:
        super().__init__(
            source="*",
            read_only=True,
            help_text="Page on which you decide the interrupt (setting REQUEST_URL, or the "
            "admin); empty if there is no page.",
        )

    def to_representation(self, value: Any) -> str:
        context = cast(dict[Any, Any], self.context)
        request, pages = context["request"], context.get(RequestPages)
        if pages is None:
            pages = context[RequestPages] = RequestPages(request.user, request)
        page = pages.find(value)
        return str(request.build_absolute_uri(page)) if page else ""

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string"}


class ProblemField(JSONObjectField):
    """A problem document as part of a response."""

    def json_schema(self) -> dict[str, Any]:
        members = {"status": {"type": "integer"}, "code": {"type": "string"}}
        return {"type": "object", "properties": members, "additionalProperties": True}


def build_url(request: Request, view: str, *args: Any) -> str:
    """Return the absolute URL of one of this API's views."""
    return str(request.build_absolute_uri(reverse(f"hitl_django:{view}", args=args)))


class StrictSerializer(serializers.Serializer):
    """The input of a request. Unknown fields are errors.

    If unknown fields were ignored, a client wouldn't notice a misspelt name such as ``reson``.
    """

    #: Groups of fields of which a request may use only one. The first field of the used group is
    #: required. Fields that belong to no group are always allowed.
    either: ClassVar[tuple[tuple[str, ...], ...]] = ()

    def to_internal_value(self, data: Any) -> Any:
        known = self.fields
        unknown = [key for key in data if key not in known] if isinstance(data, dict) else []
        if unknown:
            raise serializers.ValidationError(
                {
                    key: [ErrorDetail(gettext("Unknown field."), "unknown_field")]
                    for key in unknown[:MAX_FAULTS]
                }
            )
        taken = super().to_internal_value(data)
        if self.either:
            self._refuse_unless_one(taken)
        return taken

    def _refuse_unless_one(self, taken: Any) -> None:
        chosen = next((group for group in self.either if group[0] in taken), None)
        if chosen is None:
            first, *rest = (group[0] for group in self.either)
            detail = gettext("Required unless {names} is given.")
            detail = detail.format(names=", ".join(rest))
            raise serializers.ValidationError({first: [ErrorDetail(detail, "required")]})
        others = {name for group in self.either for name in group}.difference(chosen)
        detail = gettext("Can't be combined with {name}.").format(name=chosen[0])
        faults = {name: [ErrorDetail(detail, "conflict")] for name in taken if name in others}
        if faults:
            raise serializers.ValidationError(faults)


class Query(StrictSerializer):
    """The query parameters of an operation."""


class WaitQuery(Query):
    """The query parameter ``wait``: the seconds that an operation may wait for a result."""

    wait = StrictIntegerField(
        most=3600,
        required=False,
        help_text="Maximum seconds to wait, at most EVENT_WAIT_SECONDS.",
    )


class EmptyBody(StrictSerializer):
    """The empty body of an operation without input."""
