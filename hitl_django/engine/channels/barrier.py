"""Channels that wait for writes of several nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InvalidUpdateError
from ..types import CheckpointT, UpdateT, ValueT
from .channel import MISSING, SAME, BaseChannel


class NamedBarrierValue(BaseChannel[ValueT, UpdateT, CheckpointT]):
    """A channel that becomes readable after each node in ``names`` has written to the channel.

    The value of the channel is always None.
    """

    expires = False
    consumable = True

    def __init__(self, typ: Any, names: set[str], key: str = "") -> None:
        super().__init__(typ, key)
        self.names = frozenset(names)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.names == other.names

    __hash__ = BaseChannel.__hash__

    def _joined(self, seen: set[str], writes: Sequence[Any]) -> set[str]:
        for write in writes:
            if write not in self.names:
                raise InvalidUpdateError(
                    f"At key '{self.key}': Value {write} not in {sorted(self.names)}"
                )
        return seen.union(writes)

    def fold(self, held: Any, writes: Sequence[Any]) -> Any:
        seen = set() if held is MISSING else held
        joined = self._joined(seen, writes)
        return SAME if joined == seen else joined

    def is_set(self, held: Any) -> bool:
        return held is not MISSING and held == self.names

    def read(self, held: Any) -> Any:
        return None if self.is_set(held) else MISSING

    def consume_value(self, held: Any) -> Any:
        return set() if self.is_set(held) else SAME


class NamedBarrierValueAfterFinish(NamedBarrierValue[ValueT, UpdateT, CheckpointT]):
    """A NamedBarrierValue that becomes readable only when no other node is left to run.

    If a super-step triggers no nodes, the channel becomes readable. It then triggers the nodes that
    subscribe to it.
    """

    finishes = True

    def fold(self, held: Any, writes: Sequence[Any]) -> Any:
        seen, finished = (set(), False) if held is MISSING else held
        joined = self._joined(seen, writes)
        return SAME if joined == seen else (joined, finished)

    def is_set(self, held: Any) -> bool:
        return held is not MISSING and held[1] and held[0] == self.names

    def consume_value(self, held: Any) -> Any:
        return (set(), False) if self.is_set(held) else SAME

    def finish_value(self, held: Any) -> Any:
        if held is not MISSING and not held[1] and held[0] == self.names:
            return (held[0], True)
        return SAME
