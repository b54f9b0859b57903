"""A second look at a value that was packed: whether packing it as it is has lost anything.

ormsgpack writes bytearray and memoryview as bytes, and a text with a NUL as any other. orjson,
which writes what JSON has at the same speed, tells of both: it asks what to do about the former,
and writes the latter as an escape. Where it can't say, the value is walked through.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import orjson

from .extension_codes import BRANCHES, LEAVES, NATIVE
from .plain_base import NOT_PLAIN, as_plain
from .strict_walk import Dump

_QUIET = NATIVE - {str}
_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
#: A NUL as JSON has it; what else is written like this is walked through.
_NUL = rb"\u0000"


def needs_rewrite(value: Any, dump: Dump) -> bool:
    """Returns whether a packed value holds a NUL in a text, or a type that was packed as bytes."""
    try:
        written = orjson.dumps(value, partial(_open, dump=dump), _OPTIONS)
    except TypeError as error:
        if error.__cause__ is not None and not isinstance(error.__cause__, Exception):
            raise error.__cause__ from None  # a signal that arrived meanwhile
        return _walk(value, dump)
    return _NUL in written and _walk(value, dump)


def _open(item: Any, dump: Dump) -> Any:
    """Returns what there is to look at in an object that JSON hasn't; TypeError for a fault."""
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
        if cls is str:
            if "\0" in item:
                return True
        elif cls is dict:
            if "\0" in "".join(item):
                return True
            _extend(todo, item.values())
        elif cls is list:
            _extend(todo, item)
        elif cls not in _QUIET:
            try:
                todo.append(_open(item, dump))
            except TypeError:
                return True
    return False


def _extend(todo: list[Any], parts: Collection[Any]) -> None:
    if len(parts) < 8 or not _QUIET.issuperset(map(type, parts)):
        todo.extend(parts)
