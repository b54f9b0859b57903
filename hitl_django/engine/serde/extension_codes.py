"""The fixed table of extension codes. The codes never change, because stored bytes contain them."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import cache
from typing import Any, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo, available_timezones

from ..types import Command, Interrupt, MissingResume, Overwrite, Send, TimeoutPolicy

# Branch codes: the extension contains another msgpack value.
TUPLE, SET, FROZENSET, MAPPING, DEQUE, ZONED_DATETIME, ZONED_TIME = range(1, 8)
SEND, COMMAND, INTERRUPT, OVERWRITE = range(16, 20)
OBJECT = 32  # [short name, result of the registered dump function]

# Leaf codes: the extension contains plain bytes.
BIG_INT, BYTEARRAY, COMPLEX, DATETIME, DATE, TIME, TIMEDELTA, DECIMAL, UUID_BYTES = range(64, 73)
NO_ANSWER = 80

#: Types that ormsgpack encodes without loss.
NATIVE = frozenset({type(None), bool, int, float, str, bytes})

#: Items are sorted by their encoded bytes, so that equal sets have equal bytes.
UNORDERED = frozenset({SET, FROZENSET})

M = TypeVar("M", datetime, time)


class Tagged:
    """A value that is encoded as a msgpack extension: the extension's code, and its content."""

    __slots__ = ("body", "code")

    def __init__(self, code: int, body: Any) -> None:
        self.code, self.body = code, body


class RefusedPart(TypeError):
    """A part of a value can't be stored, although other values of the same type can be stored."""


@cache
def _zone_keys() -> frozenset[str]:
    # ZoneInfo(key) may search for a module named after the key, so keys from stored bytes are
    # looked up in this set first.
    return frozenset(available_timezones())


def _is_plain(moment: datetime | time) -> bool:
    """Return whether a datetime or time can be stored as ISO text without losing information."""
    zone = moment.tzinfo
    if zone is None:
        return not moment.fold
    return type(zone) is timezone and not moment.fold and len(_init_args(zone)) == 1


def _init_args(zone: timezone) -> tuple[Any, ...]:
    args: tuple[Any, ...] = zone.__getinitargs__()  # type: ignore[attr-defined]
    return args


def _has_stored_form(zone: Any) -> bool:
    if isinstance(zone, ZoneInfo):
        return zone.key in _zone_keys()
    return zone is None or type(zone) is timezone


def dump_zone(zone: Any) -> Any:
    """Return the stored form of a time zone, or None for None.

    The stored form of a ZoneInfo is its key. The stored form of a ``datetime.timezone`` is a list
    of its UTC offset in microseconds and, if given, its name.

    Raises:
        RefusedPart: the time zone isn't in the time zone database.
    """
    if zone is None:
        return None
    if not _has_stored_form(zone):
        raise RefusedPart("is a time zone that isn't in the time zone database")
    if isinstance(zone, ZoneInfo):
        return zone.key
    offset, *name = _init_args(zone)
    return [offset // timedelta(microseconds=1), *name]


def load_zone(stored: Any) -> Any:
    """Return the time zone for a stored form returned by ``dump_zone``.

    Raises:
        ValueError: the time zone is not in the local database.
    """
    if stored is None:
        return None
    if isinstance(stored, str):
        if stored not in _zone_keys():
            raise ValueError("unknown time zone")
        return ZoneInfo(stored)
    offset, *name = stored
    return timezone(timedelta(microseconds=offset), *name)


def _with_offset(moment: datetime | time) -> datetime | time:
    """Replace the time zone of a datetime or time by a fixed UTC offset.

    Raises:
        RefusedPart: ``moment`` is a time, and its UTC offset depends on the date.
    """
    offset = moment.utcoffset()
    if offset is None:
        zone = type(moment.tzinfo).__qualname__
        raise RefusedPart(f"is a time whose UTC offset depends on the date (time zone: {zone})")
    return moment.replace(tzinfo=timezone(offset), fold=0)


def _dump_moment(moment: datetime | time, zoned: int) -> Tagged | bytes:
    if not _has_stored_form(moment.tzinfo):
        moment = _with_offset(moment)
    if _is_plain(moment):
        return moment.isoformat().encode()
    body = [moment.replace(tzinfo=None).isoformat(), moment.fold, dump_zone(moment.tzinfo)]
    return Tagged(zoned, body)


def _dump_datetime(moment: datetime) -> Tagged | bytes:
    return _dump_moment(moment, ZONED_DATETIME)


def _dump_time(moment: time) -> Tagged | bytes:
    return _dump_moment(moment, ZONED_TIME)


def _load_zoned(cls: type[M], body: Any) -> M:
    text, fold, zone = body
    return cls.fromisoformat(text).replace(fold=fold, tzinfo=load_zone(zone))


def _dump_int(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _load_int(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


_COMPLEX = struct.Struct(">dd")
_TIMEDELTA = struct.Struct(">iii")

#: Maps a type to its code, and to a function that returns bytes, or a Tagged if bytes are not
#: sufficient.
LEAVES: dict[type, tuple[int, Callable[[Any], Any]]] = {
    int: (BIG_INT, _dump_int),  # This entry is only used for integers of more than 64 bits.
    bytearray: (BYTEARRAY, bytes),
    complex: (COMPLEX, lambda value: _COMPLEX.pack(value.real, value.imag)),
    datetime: (DATETIME, _dump_datetime),
    date: (DATE, lambda value: value.isoformat().encode()),
    time: (TIME, _dump_time),
    timedelta: (
        TIMEDELTA,
        lambda value: _TIMEDELTA.pack(value.days, value.seconds, value.microseconds),
    ),
    Decimal: (DECIMAL, lambda value: str(value).encode()),
    UUID: (UUID_BYTES, lambda value: value.bytes),
    MissingResume: (NO_ANSWER, lambda value: b""),
}

#: Maps a type to its code, and to a function that returns the content of the extension.
BRANCHES: dict[type, tuple[int, Callable[[Any], list[Any]]]] = {
    tuple: (TUPLE, list),
    set: (SET, list),
    frozenset: (FROZENSET, list),
    deque: (DEQUE, lambda value: [value.maxlen, *value]),
    Send: (
        SEND,
        lambda value: [value.node, value.arg, value.timeout and _dump_timeout(value.timeout)],
    ),
    Command: (COMMAND, lambda value: [value.graph, value.update, value.resume, value.goto]),
    Interrupt: (INTERRUPT, lambda value: [value.value, value.id, value.response_schema]),
    Overwrite: (OVERWRITE, lambda value: [value.value]),
}


def _load_mapping(flat: Any) -> dict[Any, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _load_deque(body: Any) -> deque[Any]:
    maxlen, *items = body
    return deque(items, maxlen)


def _dump_timeout(policy: TimeoutPolicy) -> list[Any]:
    return [policy.run_timeout, policy.idle_timeout, policy.refresh_on]


def _load_send(body: Any) -> Send:
    node, arg, timeout = body
    if type(timeout) is list:
        run, idle, refresh = timeout
        timeout = TimeoutPolicy(run_timeout=run, idle_timeout=idle, refresh_on=refresh)
    return Send(node, arg, timeout=timeout)


def _load_command(body: Any) -> Command[Any]:
    graph, update, resume, goto = body
    return Command(graph=graph, update=update, resume=resume, goto=goto)


def _load_interrupt(body: Any) -> Interrupt:
    value, interrupt_id, schema = body
    return Interrupt(value, interrupt_id, response_schema=schema)


LOAD_LEAF: dict[int, Callable[[bytes], Any]] = {
    BIG_INT: _load_int,
    BYTEARRAY: bytearray,
    COMPLEX: lambda data: complex(*_COMPLEX.unpack(data)),
    DATETIME: lambda data: datetime.fromisoformat(str(data, "ascii")),
    DATE: lambda data: date.fromisoformat(str(data, "ascii")),
    TIME: lambda data: time.fromisoformat(str(data, "ascii")),
    TIMEDELTA: lambda data: timedelta(*_TIMEDELTA.unpack(data)),
    DECIMAL: lambda data: Decimal(str(data, "ascii")),
    UUID_BYTES: lambda data: UUID(bytes=bytes(data)),
    NO_ANSWER: lambda data: MissingResume(),
}

LOAD_BRANCH: dict[int, Callable[[Any], Any]] = {
    TUPLE: tuple,
    SET: set,
    FROZENSET: frozenset,
    MAPPING: _load_mapping,
    DEQUE: _load_deque,
    ZONED_DATETIME: lambda body: _load_zoned(datetime, body),
    ZONED_TIME: lambda body: _load_zoned(time, body),
    SEND: _load_send,
    COMMAND: _load_command,
    INTERRUPT: _load_interrupt,
    OVERWRITE: lambda body: Overwrite(*body),
}
