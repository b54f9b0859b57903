"""Form fields for dates, times and datetimes, with the browser's own widgets."""

from __future__ import annotations

import datetime
import re
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.forms.utils import from_current_timezone
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime, parse_time
from django.utils.formats import date_format, time_format
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from .fields import AnswerField
from .local_time import to_local
from .schema_tree import JSON, SchemaNode


class MomentField(AnswerField):
    """The base class of date and time fields. It parses ISO text."""

    input_type: ClassVar[str]
    pattern: ClassVar[re.Pattern[str]]

    def __init__(self, shape: SchemaNode, original: JSON, *, wanted: bool, **kwargs: Any) -> None:
        widget = forms.TextInput(attrs={"step": "1", "class": "hitl-moment"})
        widget.input_type = self.input_type
        super().__init__(shape, original, wanted=wanted, widget=widget, **kwargs)

    @classmethod
    def fits(cls, shape: SchemaNode, original: JSON) -> bool:
        # A value that the widget can't show completely is edited as text.
        if isinstance(original, str):
            return cls.read(original) is not None
        return super().fits(shape, original)

    @classmethod
    def read(cls, text: str) -> Any:
        """Parse an ISO text. Return None if the text is invalid."""
        if not cls.pattern.fullmatch(text):
            return None
        try:
            return cls.parse_iso(text)
        except (ValueError, OverflowError):
            return None

    @staticmethod
    def parse_iso(text: str) -> Any:
        raise NotImplementedError

    def is_unchanged(self, raw: Any) -> bool:
        # Values are compared instead of texts, because browsers write 12:00:00 as 12:00.
        if not raw or not self.initial:
            return bool(raw) == bool(self.initial)
        return self.read(raw) == self.read(self.initial)

    def format_value(self, raw: Any) -> str:
        moment = self.read(raw) if isinstance(raw, str) else None
        return super().format_value(raw) if moment is None else self.show(moment)

    @staticmethod
    def show(moment: Any) -> str:
        """Return the value formatted in the language of the current user."""
        raise NotImplementedError

    def parse(self, raw: str) -> str:
        moment = self.read(raw)
        if moment is None:
            raise ValueError(raw)
        return self.write(moment)

    def write(self, moment: Any) -> str:
        """Return the ISO text for the response."""
        return str(moment.isoformat())


class DateField(MomentField):
    """A field for a date."""

    input_type = "date"
    pattern = re.compile(r"[1-9]\d{3}-\d\d-\d\d", re.ASCII)
    default_error_messages: ClassVar[dict[str, Any]] = {
        "invalid": _("Enter a date as YYYY-MM-DD, for example 2026-01-31."),
    }

    @staticmethod
    def parse_iso(text: str) -> datetime.date | None:
        return parse_date(text)

    @staticmethod
    def show(moment: datetime.date) -> str:
        return date_format(moment, "DATE_FORMAT")


class TimeField(MomentField):
    """A field for a time of day."""

    input_type = "time"
    pattern = re.compile(r"\d\d:\d\d(:\d\d)?", re.ASCII)
    default_error_messages: ClassVar[dict[str, Any]] = {
        "invalid": _("Enter a time as HH:MM, for example 14:30."),
    }

    @staticmethod
    def parse_iso(text: str) -> datetime.time | None:
        return parse_time(text)

    @staticmethod
    def show(moment: datetime.time) -> str:
        return time_format(moment, "TIME_FORMAT")


class DateTimeField(MomentField):
    """A field for a datetime in the reviewer's time zone, to the second."""

    input_type = "datetime-local"
    pattern = re.compile(
        r"[1-9]\d{3}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?", re.ASCII
    )
    default_error_messages: ClassVar[dict[str, Any]] = {
        "invalid": _("Enter a date and time, for example 2026-01-31T14:30."),
    }

    @staticmethod
    def parse_iso(text: str) -> datetime.datetime | None:
        moment = parse_datetime(text)
        # The first and last days of the calendar have no local time in some time zones.
        return moment if moment and _local(moment).year >= 1000 else None

    @staticmethod
    def show(moment: datetime.datetime) -> str:
        return date_format(_local(moment), "DATETIME_FORMAT")

    def initial_value(self) -> str:
        moment = self.read(self.original) if isinstance(self.original, str) else None
        return _local(moment).isoformat() if moment else ""

    def help(self) -> Any:
        if self.is_naive():
            return ""
        return gettext("Time zone: %(zone)s.") % {"zone": timezone.get_current_timezone_name()}

    def is_naive(self) -> bool:
        """Return whether the field's datetimes have no time zone.

        The result is true if the schema declares datetimes without a time zone, or if the original
        value has no time zone.
        """
        if self.shape.is_naive:
            return True
        moment = self.read(self.original) if isinstance(self.original, str) else None
        return moment is not None and timezone.is_naive(moment)

    def write(self, moment: datetime.datetime) -> str:
        if timezone.is_naive(moment) and not self.is_naive():
            # The function raises ValidationError for a time that is skipped or repeated by daylight
            # saving time.
            moment = from_current_timezone(moment)
            if not settings.USE_TZ:
                moment = timezone.make_aware(moment)
        elif timezone.is_aware(moment) and self.shape.is_naive:
            moment = timezone.make_naive(moment)
        return moment.isoformat()


def _local(moment: datetime.datetime) -> datetime.datetime:
    return to_local(moment).replace(tzinfo=None, microsecond=0)
