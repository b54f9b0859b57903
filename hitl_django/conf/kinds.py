"""Declaration of settings, and checks of their values.

A check is a function of a value. For an invalid value, the check raises ValueError with the error
message and, optionally, a hint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.module_loading import import_string

Check = Callable[[Any], object]


def setting(default: Any, doc: str, check: Check | None = None) -> Any:
    """Declare a setting of HITL, as a field of a frozen dataclass.

    Args:
        default: the value if HITL doesn't have the key.
        doc: the setting's text in the reference.
        check: raises ValueError for an invalid value. ``manage.py check`` reports the error.
    """
    return field(default=default, metadata={"doc": doc, "check": check})


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate limit: a number of requests within a number of seconds."""

    count: int
    seconds: int

    @classmethod
    def parse(cls, text: Any) -> Rate:
        """Parse a rate limit written as ``"1200/min"``.

        Raises:
            ValueError: if the text is not a rate limit.
        """
        found = _RATE.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError(
                f"{text!r} is not a rate. Use number/period, with sec, min, hour or day."
            )
        return cls(int(found["count"]), _SECONDS[found["period"]])


_SECONDS = {"sec": 1, "min": 60, "hour": 3600, "day": 86_400}
_RATE = re.compile(r"(?P<count>[1-9][0-9]{0,8})/(?P<period>sec|min|hour|day)")


def positive(value: Any) -> None:
    """Check that the value is a number greater than 0."""
    if not _is_number(value) or not value > 0:
        raise ValueError("must be a positive number.")


def positive_or_none(value: Any) -> None:
    """Check that the value is a number greater than 0, or None."""
    if value is not None and (not _is_number(value) or not value > 0):
        raise ValueError("must be None or a positive number.")


def count(value: Any) -> None:
    """Check that the value is an integer greater than 0."""
    positive(value)
    if not isinstance(value, int):
        raise ValueError("must be an integer.")


def slots(value: Any) -> None:
    """Check that the value is a valid maximum number of waiting HTTP requests."""
    if not _is_number(value) or not isinstance(value, int) or value < 0:
        raise ValueError(
            "must be an integer of 0 or more.",
            "Set it to 0 to disable waiting: requests are then answered immediately.",
        )


def share(value: Any) -> None:
    """Check that the value is a number greater than 0 and at most 1."""
    if not _is_number(value) or not 0 < value <= 1:
        raise ValueError("must be greater than 0 and at most 1.")


def text(value: Any) -> None:
    """Check that the value is a text."""
    if not isinstance(value, str):
        raise ValueError("must be a text.")


def flag(value: Any) -> None:
    """Check that the value is True or False."""
    if not isinstance(value, bool):
        raise ValueError("must be True or False.")


def one_of(*choices: str) -> Check:
    """Return a check that the value is one of the given texts."""

    def check(value: Any) -> None:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(map(repr, choices))}.")

    return check


def rate(value: Any) -> None:
    """Check that the value is a rate limit, or None."""
    if value is None:
        return
    try:
        Rate.parse(value)
    except ValueError as error:
        raise ValueError(
            f"is not a rate: {error}", 'Use a rate such as "1200/min", or None.'
        ) from None


def days_by_graph(value: Any) -> None:
    """Check that the value is a number of days, None, or a dict with such values by graph name."""
    if not isinstance(value, Mapping):
        positive_or_none(value)
        return
    for graph, days in value.items():
        if not isinstance(graph, str):
            raise ValueError(f"has the key {graph!r}; keys must be graph names or '*'.")
        try:
            positive_or_none(days)
        except ValueError as error:
            raise ValueError(f"has the value {days!r} for {graph!r}, which {error}") from None


def url(value: Any) -> None:
    """Check that the value is a URL, or an empty text."""
    if value and not (isinstance(value, str) and value.startswith(("https://", "http://"))):
        raise ValueError("must be an http:// or https:// URL.")


def dotted_path(value: Any) -> None:
    """Check that the value is the dotted path of a callable, or an empty text."""
    if value == "":
        return
    try:
        found = import_string(value)
    except Exception as error:  # Importing a module of the project may raise any error.
        raise ValueError(f"can't be imported: {error}") from None
    if not callable(found):
        raise ValueError(f"must be the dotted path of a callable, not of {found!r}.")


def brand(value: Any) -> None:
    """Check that the value is None, or a dict with the name, logo and accent color of a brand."""
    if value is None:
        return
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError("must be None, or a dict of texts.", _BRAND_HINT)
    if unknown := sorted(map(str, value.keys() - BRAND_KEYS)):
        raise ValueError(f"has the unknown key {unknown[0]!r}.", _BRAND_HINT)
    if not value.get("name", "").isprintable() or len(value.get("name", "")) > BRAND_NAME_LENGTH:
        raise ValueError(
            f"has a name that is not one line of at most {BRAND_NAME_LENGTH} characters."
        )
    if (logo := value.get("logo")) and not _LOGO.fullmatch(logo):
        raise ValueError(
            f"has the logo {logo!r}, which is neither an https:// URL nor a path that starts "
            "with '/'."
        )
    if (accent := value.get("accent")) and not _COLOR.fullmatch(accent):
        raise ValueError(f"has the accent {accent!r}, which is not a color such as '#1f5f86'.")


BRAND_KEYS, BRAND_NAME_LENGTH = frozenset({"name", "logo", "accent"}), 100
_BRAND_HINT = "Use the keys 'name', 'logo' and 'accent'."
#: Without spaces, quotes, commas and semicolons, which would end a source in a CSP.
_LOGO = re.compile(r"(https?://[\w.-]+(:[0-9]+)?)?/(?!/)[^\s\"'<>\\,;]*")
_COLOR = re.compile(r"#[0-9a-fA-F]{6}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
