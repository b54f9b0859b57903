"""A reducer channel that combines all writes of a super-step in one call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import InvalidUpdateError, annotate
from ..types import CheckpointT, ErrorCode, UpdateT, ValueT
from .channel import MISSING, SAME, BaseChannel
from .reducer import find_concrete, get_overwrite, is_same_operator


class DeltaChannel(BaseChannel[ValueT, UpdateT, CheckpointT]):
    """A channel that combines a super-step's writes with ``reducer(value, writes)``.

    ``typ`` defaults to the annotated type, and ``typ()`` is the value before the first write. The
    saver decides how to store the value: for a list, it stores the added items and an occasional
    full copy. ``snapshot_frequency`` is accepted for compatibility and has no effect. A
    DeltaChannel can read a value that a BinaryOperatorAggregate has stored, and vice versa.
    """

    expires = False
    plain = True

    def __init__(
        self,
        reducer: Callable[[Any, Sequence[Any]], Any],
        typ: Any = None,
        *,
        snapshot_frequency: int = 100,
        key: str = "",
    ) -> None:
        if snapshot_frequency <= 0:
            raise ValueError(f"snapshot_frequency has to be positive, not {snapshot_frequency}.")
        super().__init__(list if typ is None else find_concrete(typ), key)
        self.reducer, self.snapshot_frequency = reducer, snapshot_frequency
        self._is_typed = typ is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeltaChannel):
            return False
        if self.snapshot_frequency != other.snapshot_frequency:
            return False
        return is_same_operator(self.reducer, other.reducer)

    __hash__ = BaseChannel.__hash__

    def bound(self, key: str, typ: Any = None) -> DeltaChannel[ValueT, UpdateT, CheckpointT]:
        twin = self.copy()
        twin.key = key
        if typ is not None and not self._is_typed:
            twin.typ = find_concrete(typ)
        return twin

    def initial(self) -> Any:
        return self.typ()

    def fold(self, held: Any, writes: Sequence[Any]) -> Any:
        if not writes:
            return SAME
        replaced = [value for given, value in map(get_overwrite, writes) if given]
        if len(replaced) > 1:
            raise InvalidUpdateError(
                "Can receive only one Overwrite value per super-step.",
                code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
            )
        if replaced:
            return self.typ() if replaced[0] is None else copy.copy(replaced[0])
        try:
            return self.reducer(self.typ() if held is MISSING else held, list(writes))
        except Exception as error:
            annotate(error, f"While folding writes into '{self.key}' with its reducer")
            raise

    def read(self, held: Any) -> Any:
        return held
