"""Channels that store a single value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InvalidUpdateError
from ..types import CheckpointT, ErrorCode, UpdateT, ValueT
from .channel import MISSING, SAME, BaseChannel


class LastValue(BaseChannel[ValueT, UpdateT, CheckpointT]):
    """The last value written. At most one write per super-step is accepted."""

    expires = False
    plain = True

    def fold(self, held: Any, writes: Sequence[Any]) -> Any:
        if len(writes) != 1:
            if not writes:
                return SAME
            raise InvalidUpdateError(
                f"At key '{self.key}': Can receive only one value per step. "
                "Use an Annotated key to handle multiple values.",
                code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
            )
        return writes[0]

    def read(self, held: Any) -> Any:
        return held


class LastValueAfterFinish(BaseChannel[ValueT, UpdateT, CheckpointT]):
    """The last value written. It becomes readable only when no other node is left to run.

    If a super-step triggers no nodes, the channel becomes readable. It then triggers the nodes that
    subscribe to it.
    """

    expires = False
    consumable = True
    finishes = True

    def fold(self, held: Any, writes: Sequence[Any]) -> Any:
        return (writes[-1], False) if writes else SAME

    def read(self, held: Any) -> Any:
        return held[0] if held is not MISSING and held[1] else MISSING

    def consume_value(self, held: Any) -> Any:
        return MISSING if held is not MISSING and held[1] else SAME

    def finish_value(self, held: Any) -> Any:
        return (held[0], True) if held is not MISSING and not held[1] else SAME


class AnyValue(BaseChannel[ValueT, UpdateT, CheckpointT]):
    """The last value written. A super-step without a write removes the value.

    All writes of one super-step are assumed to be equal.
    """

    plain = True

    def fold(self, held: Any, writes: Sequence[Any]) -> Any:
        if writes:
            return writes[-1]
        return SAME if held is MISSING else MISSING

    def read(self, held: Any) -> Any:
        return held


class EphemeralValue(BaseChannel[ValueT, UpdateT, CheckpointT]):
    """A value that is available only in the super-step after its write.

    With ``guard``, the channel accepts one write per super-step. Without ``guard``, the last of
    several writes is the value.
    """

    plain = True

    def __init__(self, typ: Any = Any, guard: bool = True, key: str = "") -> None:
        super().__init__(typ, key)
        self.guard = guard

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EphemeralValue) and self.guard == other.guard

    __hash__ = BaseChannel.__hash__

    def fold(self, held: Any, writes: Sequence[Any]) -> Any:
        if not writes:
            return SAME if held is MISSING else MISSING
        if len(writes) > 1 and self.guard:
            raise InvalidUpdateError(
                f"At key '{self.key}': EphemeralValue(guard=True) can receive only one value per "
                "step. Use guard=False to keep any one of several values.",
                code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
            )
        return writes[-1]

    def read(self, held: Any) -> Any:
        return held


class UntrackedValue(BaseChannel[ValueT, UpdateT, CheckpointT]):
    """The last value written, which is never stored in a checkpoint."""

    expires = False
    durable = False
    plain = True

    def __init__(self, typ: Any = Any, guard: bool = True, key: str = "") -> None:
        super().__init__(typ, key)
        self.guard = guard

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntrackedValue) and self.guard == other.guard

    __hash__ = BaseChannel.__hash__

    def fold(self, held: Any, writes: Sequence[Any]) -> Any:
        if not writes:
            return SAME
        if len(writes) > 1 and self.guard:
            raise InvalidUpdateError(
                f"At key '{self.key}': UntrackedValue(guard=True) can receive only one value per "
                "step. Use guard=False to keep any one of several values.",
                code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
            )
        return writes[-1]

    def read(self, held: Any) -> Any:
        return held


#: Fold methods that return a super-step's only write unchanged.
REPLACING = frozenset((LastValue.fold, AnyValue.fold, EphemeralValue.fold, UntrackedValue.fold))
