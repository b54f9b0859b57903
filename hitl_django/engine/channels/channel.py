"""What a channel is: a rule for folding a super-step's writes into the value that is kept.

A channel holds no value itself. The loop keeps one plain dict of held values for a thread, and a
channel is a set of pure functions over one entry of it, so a super-step is a function of plain
values and a checkpoint needs no conversion. ``MISSING`` stands for "nothing held".

Every channel has LangGraph's form beside it: an object that keeps its value, with
``from_checkpoint``, ``update``, ``get``, ``checkpoint``, ``consume`` and ``finish``. A class of
one's own is written in either form; of one that overrides those, the loop calls those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Generic, Self

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

#: What the pure functions of a channel return when nothing changes.
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
    #: What a channel that keeps its value holds; SAME before it was looked at.
    value: Any = SAME
    #: The nearest class above that is written as pure functions, where there is one.
    _rule: ClassVar[type[BaseChannel[Any, Any, Any]] | None] = None

    def __init__(self, typ: Any = Any, key: str = "") -> None:
        self.typ, self.key = typ, key

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = vars(cls)
        if not _PURE.isdisjoint(own):
            cls._rule = cls
        elif cls._rule is not None and not _KEEPING.isdisjoint(own):
            # What it inherits as pure functions would pass over what it overrides.
            for name in _PURE:
                setattr(cls, name, getattr(BaseChannel, name))
            cls.expires, cls.plain = True, False
        cls.consumable = cls.consumable or "consume" in own
        cls.finishes = cls.finishes or "finish" in own

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
        """Return what is held after a super-step's writes, or SAME."""
        kept = self.from_checkpoint(held)
        return kept.checkpoint() if kept.update(writes) else SAME

    def expire(self, held: Any) -> Any:
        """Return what is held after a super-step that wrote nothing, or SAME."""
        return self.fold(held, ())

    def consume_value(self, held: Any) -> Any:
        """Return what is held after a node it triggered has run, or SAME."""
        if not self.consumable:
            return SAME
        kept = self.from_checkpoint(held)
        return kept.checkpoint() if kept.consume() else SAME

    def finish_value(self, held: Any) -> Any:
        """Return what is held when no other node would run, or SAME."""
        if not self.finishes:
            return SAME
        kept = self.from_checkpoint(held)
        return kept.checkpoint() if kept.finish() else SAME

    def is_set(self, held: Any) -> bool:
        """Return whether there is a value to read."""
        return held is not MISSING and self.read(held) is not MISSING

    def read(self, held: Any) -> Any:
        """Return the value that nodes see, or MISSING."""
        try:
            return self.from_checkpoint(held).get()
        except EmptyChannelError:
            return MISSING

    def initial(self) -> Any:
        """Return what is held before the first write."""
        return MISSING

    def bound(self, key: str, typ: Any = None) -> BaseChannel[ValueT, UpdateT, CheckpointT]:
        """Return the same rule for the channel named ``key``, of a field annotated as ``typ``."""
        twin = self.copy()
        twin.key = key
        return twin

    # LangGraph's form: a channel that keeps its value.

    def copy(self) -> Self:
        """Return a channel that keeps the same value."""
        twin = self.__class__.__new__(self.__class__)
        twin.__dict__.update(self.__dict__)
        return twin

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return a channel that keeps the stored value; MISSING stands for none."""
        kept = self.copy()
        kept.value = SAME if checkpoint is MISSING else checkpoint
        kept._get_value()
        return kept

    def update(self, values: Sequence[Any]) -> bool:
        """Take a super-step's writes; returns whether the value changed."""
        rule, held = self._get_rule(), self._get_value()
        if values or rule.expire is BaseChannel.expire:
            return self._keep(rule.fold(self, held, values))
        return self._keep(rule.expire(self, held))

    def get(self) -> Any:
        """Return the kept value; raises EmptyChannelError when there is none."""
        held = self._get_value()
        found = held if self._rule is None else self._rule.read(self, held)
        if found is MISSING:
            raise EmptyChannelError
        return found

    def is_available(self) -> bool:
        """Return whether there is a value to get."""
        try:
            self.get()
        except EmptyChannelError:
            return False
        return True

    def checkpoint(self) -> Any:
        """Return what is stored of the kept value; MISSING where that is nothing."""
        if self._rule is not None:
            return self._get_value() if self.durable else MISSING
        try:
            return self.get()
        except EmptyChannelError:
            return MISSING

    def consume(self) -> bool:
        """Note that a node it triggered has run; returns whether the value changed."""
        rule = self._rule
        return rule is not None and self._keep(rule.consume_value(self, self._get_value()))

    def finish(self) -> bool:
        """Note that no other node would run; returns whether the value changed."""
        rule = self._rule
        return rule is not None and self._keep(rule.finish_value(self, self._get_value()))

    def _get_rule(self) -> type[BaseChannel[Any, Any, Any]]:
        if self._rule is None:
            raise NotImplementedError(f"{type(self).__name__} has neither fold() nor update()")
        return self._rule

    def _get_value(self) -> Any:
        if self.value is SAME:
            self.value = MISSING if self._rule is None else self._rule.initial(self)
        return self.value

    def _keep(self, held: Any) -> bool:
        if held is SAME:
            return False
        self.value = held
        return True


#: The two forms of a channel's rule.
_PURE = frozenset(("fold", "expire", "consume_value", "finish_value", "is_set", "read", "initial"))
_KEEPING = frozenset(
    ("from_checkpoint", "update", "get", "is_available", "checkpoint", "consume", "finish")
)
