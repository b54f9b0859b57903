"""The reducer channel, used for ``Annotated[T, reducer]``."""

from __future__ import annotations

import collections.abc
from collections.abc import Callable, Sequence
from itertools import chain
from operator import add
from typing import Any, get_origin

from ..errors import InvalidUpdateError, annotate
from ..types import CheckpointT, ErrorCode, Overwrite, UpdateT, ValueT
from .channel import MISSING, SAME, BaseChannel

_OVERWRITE_KEY = "__overwrite__"

_CONCRETE: dict[Any, type] = {
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}


def get_overwrite(write: Any) -> tuple[bool, Any]:
    """Return ``(True, value)`` if a write replaces the channel's value by ``value``.

    Such a write is an Overwrite, or one of its JSON forms: ``{"__overwrite__": v}`` or ``{"type":
    "__overwrite__", "value": v}``. The reducer isn't called for it. For any other write, return
    ``(False, None)``.
    """
    if isinstance(write, Overwrite):
        return True, write.value
    if isinstance(write, dict):
        if len(write) == 1 and _OVERWRITE_KEY in write:
            return True, write[_OVERWRITE_KEY]
        if len(write) == 2 and write.get("type") == _OVERWRITE_KEY and "value" in write:
            return True, write["value"]
    return False, None


def find_concrete(typ: Any) -> Any:
    """Return the class to instantiate for an annotated type, such as ``list`` for ``Sequence``."""
    origin = get_origin(typ) or typ
    return _CONCRETE.get(origin, origin)


def is_same_operator(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Return whether two reducers are the same function, or at least one of them is a lambda."""
    names = (getattr(one, "__name__", ""), getattr(other, "__name__", ""))
    return "<lambda>" in names or one is other


class BinaryOperatorAggregate(BaseChannel[ValueT, UpdateT, CheckpointT]):
    """A channel that calls ``operator(value, write)`` for each write of a super-step.

    The value before the first write is ``typ()``. If ``typ()`` raises an error, the first write
    becomes the value.
    """

    expires = False
    plain = True

    def __init__(self, typ: Any, operator: Callable[[Any, Any], Any], key: str = "") -> None:
        super().__init__(find_concrete(typ), key)
        self.operator = operator

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BinaryOperatorAggregate):
            return False
        return is_same_operator(self.operator, other.operator)

    __hash__ = BaseChannel.__hash__

    def initial(self) -> Any:
        try:
            return self.typ()
        except Exception:
            return MISSING

    def fold(self, held: Any, writes: Sequence[Any]) -> Any:
        if not writes:
            return SAME
        try:
            return self._folded(held, writes)
        except Exception as error:
            annotate(error, f"While folding writes into '{self.key}' with its reducer")
            raise

    def _folded(self, held: Any, writes: Sequence[Any]) -> Any:
        operator = self.operator
        if operator is add and len(writes) > 1 and {list}.issuperset(map(type, (held, *writes))):
            # This equals adding the lists one by one, but avoids repeated copies.
            return [*held, *chain.from_iterable(writes)]
        overwritten = False
        for write in writes:
            # Only a dict or an Overwrite can replace the value without the reducer.
            if type(write) is dict or isinstance(write, Overwrite):
                bypasses, value = get_overwrite(write)
                if bypasses:
                    if overwritten:
                        raise InvalidUpdateError(
                            "Can receive only one Overwrite value per super-step.",
                            code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
                        )
                    held, overwritten = value, True
                    continue
            if overwritten:
                continue
            held = write if held is MISSING else operator(held, write)
        return held

    def read(self, held: Any) -> Any:
        return held
