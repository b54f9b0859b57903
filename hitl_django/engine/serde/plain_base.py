"""Values of subclasses that are stored as the plain type below them, as msgpack stores them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from .extension_codes import RefusedPart

#: What as_plain returns for a value that has no such type.
NOT_PLAIN = object()


def _as_datetime(value: datetime) -> datetime:
    plain = datetime.combine(date.fromordinal(value.toordinal()), value.timetz())
    # Not !=: a subclass may have an __eq__ of its own, and the base's __ne__.
    if not value == plain:
        raise RefusedPart(
            f"is a {type(value).__qualname__}, a datetime subclass with extra attributes"
        )
    return plain


#: Base → what makes an instance of exactly the base; datetime stands before date, which it is too.
_BASES: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    complex: complex,
    bytes: bytes.__bytes__,
    bytearray: bytearray,
    memoryview: bytes,
    dict: dict,
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    deque: lambda value: deque(value, value.maxlen),
    datetime: _as_datetime,
    date: lambda value: date.fromordinal(value.toordinal()),
    time: lambda value: time.fromisoformat(value.isoformat()).replace(
        tzinfo=value.tzinfo, fold=value.fold
    ),
    timedelta: lambda value: timedelta(value.days, value.seconds, value.microseconds),
    Decimal: Decimal,
    UUID: lambda value: UUID(int=value.int),
    ZoneInfo: lambda value: ZoneInfo(value.key),
    BaseException: repr,
}


def as_plain(value: Any) -> Any:
    """Return the plain value that one of an unregistered class is stored as, or NOT_PLAIN.

    A subclass of str, list or another storable type is its base; so is an enum's member that is a
    text or a number. An exception is its text. What has attributes of its own, which that would
    lose, is NOT_PLAIN, as is a named tuple.
    """
    cls = type(value)
    for base, convert in _BASES.items():
        if not isinstance(value, base):
            continue
        if base is BaseException or isinstance(value, Enum):
            return convert(value)
        if hasattr(cls, "_fields") or is_dataclass(cls) or _has_attributes(value, base):
            return NOT_PLAIN
        return convert(value)
    return NOT_PLAIN


def _has_attributes(value: Any, base: type) -> bool:
    if getattr(value, "__dict__", None):
        return True
    above = type(value).__mro__[: type(value).__mro__.index(base)]
    return any(cls.__dict__.get("__slots__") for cls in above)
