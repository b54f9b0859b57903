"""The channel whose value is a list of written values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..types import CheckpointT, UpdateT, ValueT
from .channel import MISSING, SAME, BaseChannel


class Topic(BaseChannel[ValueT, UpdateT, CheckpointT]):
    """The list of the values written in the most recent super-step.

    With ``accumulate``, the list contains the values written in all super-steps so far. If a
    written value is a list, its items are added instead of the list.
    """

    def __init__(self, typ: Any = Any, accumulate: bool = False, key: str = "") -> None:
        super().__init__(typ, key)
        self.accumulate = accumulate
        self.expires = not accumulate

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topic) and self.accumulate == other.accumulate

    __hash__ = BaseChannel.__hash__

    def fold(self, held: Any, writes: Sequence[Any]) -> Any:
        added: list[Any] = []
        for write in writes:
            if isinstance(write, list):
                added.extend(write)
            else:
                added.append(write)
        kept = held if self.accumulate and held is not MISSING else []
        if added:
            return [*kept, *added]
        if self.accumulate or held is MISSING:
            return SAME
        return MISSING

    def read(self, held: Any) -> Any:
        return list(held) if held is not MISSING and held else MISSING
