"""What a channel is: a rule for folding a super-step's writes into the value that is kept.

A channel holds no value itself. The loop keeps one plain dict of held values for a thread, and a
channel is a set of pure functions over one entry of it, so a super-step is a function of plain
values and a checkpoint needs no conversion. ``MISSING`` stands for "nothing held".

A class that keeps its own value, with ``from_checkpoint``, ``update``, ``get`` and
``checkpoint``, works as well: ``fold`` and ``read`` fall back on those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Generic

from ..types import CheckpointT, UpdateT, ValueT


class MissingValue:
    """The type of MISSING."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Final = MissingValue()

#: What ``fold``, ``expire``, ``consume`` and ``finish`` return when nothing changes.
SAME: Final = MissingValue()


class EmptyChannelError(LookupError):
    """The channel holds no value yet."""


class BaseChannel(Generic[ValueT, UpdateT, CheckpointT]):
    """The rule of one channel; subclasses override ``fold``, and whatever else they do.

    Class attributes tell the loop which calls it can leave out:
    ``expires`` (a step without a write changes the value), ``consumable`` (a node that was
    triggered by it resets it), ``finishes`` (it waits for the last super-step), ``durable``
    (the value is stored in checkpoints), ``plain`` (what is read is what is held).
    """

    expires = True
    consumable = False
    finishes = False
    durable = True
    plain = False

    def __init__(self, typ: Any = Any, key: str = "") -> None:
        self.typ, self.key = typ, key

    @property
    def ValueType(self) -> Any:
        """The type of the value that is read."""
        return self.typ

    @property
    def UpdateType(self) -> Any:
        """The type of one write."""
        return self.typ

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash((type(self), self.key))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(key={self.key!r})"

    def fold(self, held: Any, writes: Sequence[Any]) -> Any:
        """Returns what is held after a super-step's writes, or SAME."""
        state = self.from_checkpoint(held)
        changed = state.update(writes)
        return state.checkpoint() if changed else SAME

    def expire(self, held: Any) -> Any:
        """Returns what is held after a super-step that wrote nothing, or SAME."""
        return self.fold(held, ())

    def consume(self, held: Any) -> Any:
        """Returns what is held after a node it triggered has run, or SAME."""
        return SAME

    def finish(self, held: Any) -> Any:
        """Returns what is held when no other node would run, or SAME."""
        return SAME

    def is_held(self, held: Any) -> bool:
        """Returns whether there is a value to read."""
        return held is not MISSING and self.read(held) is not MISSING

    def read(self, held: Any) -> Any:
        """Returns the value that nodes see, or MISSING."""
        if type(self).get is BaseChannel.get:
            return held
        try:
            return self.from_checkpoint(held).get()
        except EmptyChannelError:
            return MISSING

    def initial(self) -> Any:
        """Returns what is held before the first write."""
        return MISSING

    def bound(self, key: str) -> BaseChannel:
        """Returns the same rule for the channel named ``key``."""
        twin = self.__class__.__new__(self.__class__)
        twin.__dict__.update(self.__dict__)
        twin.key = key
        return twin

    # The keeping form, for classes written that way.

    def from_checkpoint(self, checkpoint: Any) -> Any:
        """Returns a channel that keeps the stored value."""
        raise NotImplementedError(f"{type(self).__name__} has neither fold() nor from_checkpoint()")

    def update(self, values: Sequence[Any]) -> bool:
        """Takes a super-step's writes; returns whether the value changed."""
        raise NotImplementedError

    def get(self) -> Any:
        """Returns the kept value; raises EmptyChannelError when there is none."""
        raise NotImplementedError

    def checkpoint(self) -> Any:
        """Returns what is stored of the kept value."""
        try:
            return self.get()
        except EmptyChannelError:
            return MISSING
