"""Conversion of instances of subclasses to their base type before they are stored."""

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

#: Returned by as_plain for a value that has no plain base type.
NOT_PLAIN = object()


def _as_datetime(value: datetime) -> datetime:
    plain = datetime.combine(date.fromordinal(value.toordinal()), value.timetz())
    # This isn't written with !=, because a subclass may override __eq__ but inherit __ne__.
    if not value == plain:
        raise RefusedPart(
            f"is a {type(value).__qualname__}, a datetime subclass with extra attributes"
        )
    return plain


#: Maps a base to a function that returns an instance of exactly the base. datetime precedes its
#: base date.
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
    """Convert an instance of an unregistered class to a value of its supported base type.

    An instance of a subclass of str, list or another supported type becomes a value of this type.
    An enum member that is a str or number also becomes its base type. An exception becomes its
    repr. NOT_PLAIN is returned if no base type is supported, or if additional data would be lost:
    for named tuples, dataclasses and objects with attributes.
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
