"""Encoding of a value by a traversal in Python.

The codec uses the traversal if ormsgpack alone can't encode the value, or could lose the type of a
part of the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import PayloadLimitError, UnserializableError
from .extension_codes import BRANCHES, LEAVES, MAPPING, NATIVE, OBJECT, RefusedPart, Tagged
from .plain_base import NOT_PLAIN, as_plain
from .registered_types import has_recipe

# Maps a registered object to its tag and dumped value.
Dump = Callable[[Any], "tuple[str, Any] | None"]

_CONTAINERS = {dict, list, tuple, set, frozenset}
_NAME = re.compile(r"[A-Za-z_]\w{0,59}\Z")


class _Frame:
    """A container on the path to a value.

    The path is used for errors and the detection of cycles.
    """

    __slots__ = ("depth", "owner", "parent", "step")

    def __init__(self, owner: Any, parent: _Frame | None, step: Any) -> None:
        self.owner, self.parent, self.step = owner, parent, step
        self.depth: int = parent.depth + 1 if parent else 1

    def trail(self) -> Iterator[_Frame]:
        """Yield this container and the containers around it, innermost first."""
        frame: _Frame | None = self
        while frame:
            yield frame
            frame = frame.parent


class _Key:
    """A part of an error path that refers to a key of a dict, not to the value under the key."""

    def __init__(self, key: Any) -> None:
        self.key = key


def rewrite_value(value: Any, dump: Dump, max_depth: int) -> Any:
    """Return an equal value that ormsgpack can encode without loss.

    The traversal is iterative, so deeply nested values don't raise a RecursionError.

    Raises:
        UnserializableError: a part can't be stored. The message contains the path of the part.
        PayloadLimitError: the value is nested too deeply.
    """
    root: list[Any] = [None]
    todo: list[tuple[Any, Any, Any, _Frame | None, Any]] = [(value, root, 0, None, None)]
    while todo:
        item, into, at, frame, step = todo.pop()
        cls = type(item)
        if cls is str:
            _check_text(item, frame, step)
            into[at] = item
        elif cls in NATIVE and not (cls is int and not -(1 << 63) <= item < 1 << 64):
            into[at] = item
        elif cls in LEAVES:
            into[at] = _leaf(item, frame, step)
        else:
            here = _Frame(item, frame, step)
            if here.depth > max_depth:
                raise _too_deep(here, max_depth)
            into[at], children = _open(item, here, dump)
            # The result replaces the item and is traversed instead of the item.
            if children is None:
                todo.append((into[at], into, at, frame, step))
                continue
            if type(into[at]) is Tagged:
                here.depth += 1  # An extension counts as two levels, because it contains a list.
            todo.extend((child, out, key, here, move) for child, out, key, move in children[::-1])
    return root[0]


def _open(
    item: Any, here: _Frame, dump: Dump
) -> tuple[Any, list[tuple[Any, Any, Any, Any]] | None]:
    """Return an empty container for ``item``, and a list of the entries to add to the container.

    If ``item`` is converted to its base type, return the converted value and None. The caller then
    traverses the converted value instead of ``item``.
    """
    cls = type(item)
    if cls is list:
        return _fill(item)
    if cls is Tagged:
        out: Any = Tagged(item.code, None)
        box, children = _fill(item.body)
        out.body = box
        return out, children
    if cls is dict:
        return _open_dict(item)
    if cls in BRANCHES:
        code, parts = BRANCHES[cls]
        box, children = _fill(parts(item))
        return Tagged(code, box), children
    try:
        dumped = dump(item)
        plain = as_plain(item) if dumped is None else NOT_PLAIN
    except RefusedPart as refused:
        where = format_path(here)
        raise UnserializableError(f"Can't store {where}: it {refused}.", where) from None
    except Exception as fault:
        raise UnserializableError(
            f"Can't store {format_path(here)}: the dump function of {cls.__qualname__} "
            f"raised {type(fault).__name__}.",
            format_path(here),
        ) from fault
    if plain is not NOT_PLAIN:
        return plain, None
    if dumped is None:
        raise UnserializableError(
            f"Can't store {format_path(here)}: {_advice(item)}", format_path(here)
        )
    box = [dumped[0], None]
    return Tagged(OBJECT, box), [(dumped[1], box, 1, None)]


def _fill(items: list[Any]) -> tuple[list[Any], list[tuple[Any, Any, Any, Any]]]:
    out: list[Any] = [None] * len(items)
    return out, [(item, out, at, at) for at, item in enumerate(items)]


def _open_dict(item: dict[Any, Any]) -> tuple[Any, list[tuple[Any, Any, Any, Any]]]:
    if all(type(key) is str for key in item):
        out: Any = dict.fromkeys(item)
        unused: dict[Any, Any] = {}  # Keys are only checked, so the dict is not used.
        keys = [(key, unused, key, _Key(key)) for key in item]
        return out, keys + [(value, out, key, (key,)) for key, value in item.items()]
    flat: list[Any] = [None] * (2 * len(item))
    children: list[tuple[Any, Any, Any, Any]] = []
    for at, (key, value) in enumerate(item.items()):
        children.append((key, flat, 2 * at, _Key(key)))
        children.append((value, flat, 2 * at + 1, (key,)))
    return Tagged(MAPPING, flat), children


def _leaf(item: Any, frame: _Frame | None, step: Any) -> Tagged:
    code, dump = LEAVES[type(item)]
    try:
        dumped = dump(item)
    except RefusedPart as refused:
        where = format_path(frame, step)
        raise UnserializableError(f"Can't store {where}: it {refused}.", where) from None
    return dumped if type(dumped) is Tagged else Tagged(code, dumped)


def _check_text(text: str, frame: _Frame | None, step: Any) -> None:
    if text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text):
        return
    where = format_path(frame, step)
    raise UnserializableError(f"Can't store {where}: it contains a lone surrogate.", where)


def _too_deep(here: _Frame, max_depth: int) -> Exception:
    seen: set[int] = set()
    for frame in reversed(list(here.trail())):
        if id(frame.owner) in seen:
            where = format_path(frame)
            return UnserializableError(f"Can't store {where}: it contains itself.", where)
        seen.add(id(frame.owner))
    return PayloadLimitError(
        f"The value is nested deeper than {max_depth} levels.", limit=max_depth, found=here.depth
    )


def _advice(item: Any) -> str:
    cls = type(item)
    name = cls.__qualname__
    if hasattr(cls, "_meta") and hasattr(item, "pk"):  # a row of a Django model
        return f"{name} is a model. Store the primary key, and read the row in each node."
    base = next((one for one in cls.__mro__ if one in NATIVE or one in _CONTAINERS), None)
    if base is not None and not has_recipe(cls):
        return (
            f"{name} is a subclass of {base.__name__} with extra attributes, which would "
            f"be lost. Store {base.__name__}(value), or register it: "
            f"register_type({cls.__name__!r}, {cls.__name__}, dump, load)."
        )
    if has_recipe(cls):
        return (
            f"type {name} is not named in the state's annotations and not defined at "
            "module level in the graph's package, so other processes can't find it. "
            f"Register it: register_model({cls.__name__})."
        )
    return (
        f"type {name} is not registered. Register it: register_type({cls.__name__!r}, "
        f"{cls.__name__}, dump, load)."
    )


def format_path(frame: _Frame | None, step: Any = None) -> str:
    """Return the path of a value for error messages, such as ``$.state.user[3]``.

    ``frame`` is the innermost container of the value. ``step`` is the key or index of the value in
    this container.
    """
    steps = [step, *(above.step for above in frame.trail())] if frame else []
    return "$" + "".join(_spell(each) for each in reversed(steps) if each is not None)


def _spell(step: Any) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if isinstance(step, _Key):
        return f"{{key {_short(step.key)}}}"
    key = step[0]
    return f".{key}" if isinstance(key, str) and _NAME.match(key) else f"[{_short(key)}]"


def _short(key: Any) -> str:
    text = ascii(key) if type(key) in NATIVE else type(key).__qualname__
    return text if len(text) <= 60 else f"{text[:57]}..."
