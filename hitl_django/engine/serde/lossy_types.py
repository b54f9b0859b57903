"""Detection of bytearrays and memoryviews, which ormsgpack encodes as bytes.

The check first encodes the value with orjson, which is as fast as ormsgpack for JSON types. orjson
calls a hook for each part that isn't of a JSON type. If orjson raises an error, the value is
traversed in Python.
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
    """Return whether a value contains a bytearray or memoryview.

    ormsgpack encodes both types as bytes, so their types would be lost.
    """
    try:
        orjson.dumps(value, partial(_open, dump=dump), _OPTIONS)
    except TypeError as error:
        if error.__cause__ is not None and not isinstance(error.__cause__, Exception):
            raise error.__cause__ from None  # The error is a signal that arrived during the call.
        return _walk(value, dump)
    return False


def are_numbers(value: Any) -> bool:
    """Return whether a value is a list of numbers, such as ``[1, 2]``.

    The list may be the only item of another list, as in ``[[1, 2]]``. ``value`` must be a value
    that orjson encodes without a hook. The check uses sum(), because sum() raises an error for
    other types and is faster than encoding the numbers.
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
    """Return the values nested in an object that orjson doesn't support, or None if there are none.

    This is the hook of orjson.

    Raises:
        TypeError: the object is a bytearray or memoryview.
    """
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
    for item in todo:  # The list grows during the iteration.
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
