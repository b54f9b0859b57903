"""A second look at a value that was packed: whether packing it as it is has lost a type.

ormsgpack writes bytearray and memoryview as bytes. orjson, which writes what JSON has at the same
speed, asks what to do about them. Where it can't say, the value is walked through.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import orjson

from .extension_codes import BRANCHES, LEAVES, NATIVE
from .plain_base import NOT_PLAIN, as_plain
from .strict_walk import Dump

_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS


def holds_buffer(value: Any, dump: Dump) -> bool:
    """Return whether a packed value holds a bytearray or memoryview, packed as bytes."""
    try:
        orjson.dumps(value, partial(_open, dump=dump), _OPTIONS)
    except TypeError as error:
        if error.__cause__ is not None and not isinstance(error.__cause__, Exception):
            raise error.__cause__ from None  # a signal that arrived meanwhile
        return _walk(value, dump)
    return False


def are_numbers(value: Any) -> bool:
    """Return whether a value that was packed without a hook is a list of nothing but numbers.

    Of all that may be in such a value only numbers have a sum, which is known sooner than their
    digits. Lists of one item around it, in which what a task wrote is packed, count for nothing.
    """
    while type(value) is list and len(value) == 1:
        value = value[0]
    if type(value) is not list:
        return False
    try:
        sum(value)
    except TypeError:
        return False
    return True


def _open(item: Any, dump: Dump) -> Any:
    """Return what there is to look at in an object that JSON hasn't; TypeError for a buffer."""
    cls = type(item)
    if cls is bytes:
        return None
    if cls is bytearray or cls is memoryview:
        raise TypeError
    if cls in BRANCHES:
        return [*BRANCHES[cls][1](item)]
    if cls in LEAVES:
        return None
    dumped = dump(item)
    if dumped is not None:
        return dumped[1]
    plain = as_plain(item)
    if plain is NOT_PLAIN:
        raise TypeError
    return plain


def _walk(value: Any, dump: Dump) -> bool:
    todo = [value]
    for item in todo:  # grows while it is read
        cls = type(item)
        if cls is dict:
            _extend(todo, item.values())
        elif cls is list:
            _extend(todo, item)
        elif cls not in NATIVE:
            try:
                todo.append(_open(item, dump))
            except TypeError:
                return True
    return False


def _extend(todo: list[Any], parts: Collection[Any]) -> None:
    if not NATIVE.issuperset(map(type, parts)):
        todo.extend(parts)
