"""The base class of channels, which combine a super-step's writes into a stored value.

A channel doesn't store its value. The loop stores the values of all channels of a graph in one
dict. The methods of a channel receive the channel's stored value and return its new value. A
checkpoint can therefore store the dict without conversion. ``MISSING`` means "no value".

Every channel also has the methods of LangGraph's channels: ``from_checkpoint``, ``update``,
``get``, ``checkpoint``, ``consume`` and ``finish``. With these methods, the channel object itself
stores the value. A custom class may implement either group of methods. If a class overrides methods
of LangGraph's channels, the loop calls the overridden methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Generic, Self

from ..types import CheckpointT, UpdateT, ValueT


class MissingValue:
    """The type of the constant MISSING, which means "no value"."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Final = MissingValue()

#: Returned by the pure functions of a channel if the value doesn't change.
SAME: Final = MissingValue()


class EmptyChannelError(LookupError):
    """The channel has no value."""


class BaseChannel(Generic[ValueT, UpdateT, CheckpointT]):
    """Base class of channels. Subclasses override at least ``fold``."""

    expires = True
    consumable = False
    finishes = False
    durable = True
    plain = False
    #: The value of a channel object in LangGraph's interface. SAME means that it isn't initialized.
    value: Any = SAME
    #: The nearest base class that implements the pure functions, if any.
    _rule: ClassVar[type[BaseChannel[Any, Any, Any]] | None] = None

    def __init__(self, typ: Any = Any, key: str = "") -> None:
        self.typ, self.key = typ, key

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = vars(cls)
        if not _PURE.isdisjoint(own):
            cls._rule = cls
        elif cls._rule is not None and not _KEEPING.isdisjoint(own):
            # Inherited pure functions would bypass the overridden methods.
            for name in _PURE:
                setattr(cls, name, getattr(BaseChannel, name))
            cls.expires, cls.plain = True, False
        cls.consumable = cls.consumable or "consume" in own
        cls.finishes = cls.finishes or "finish" in own

    @property
    def ValueType(self) -> Any:
        """The type of the value that nodes read."""
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
        """Return the stored value after a super-step with writes, or SAME if it doesn't change.

        ``held`` is the stored value before the writes.
        """
        kept = self.from_checkpoint(held)
        return kept.checkpoint() if kept.update(writes) else SAME

    def expire(self, held: Any) -> Any:
        """Return the stored value after a super-step without writes, or SAME if it doesn't change.

        ``held`` is the stored value before the super-step.
        """
        return self.fold(held, ())

    def consume_value(self, held: Any) -> Any:
        """Return the stored value after the channel triggered a node, or SAME if unchanged.

        ``held`` is the value that is stored when the node is triggered.
        """
        if not self.consumable:
            return SAME
        kept = self.from_checkpoint(held)
        return kept.checkpoint() if kept.consume() else SAME

    def finish_value(self, held: Any) -> Any:
        """Return the stored value after all nodes have finished, or SAME if it doesn't change.

        ``held`` is the value that is stored when the last node finishes.
        """
        if not self.finishes:
            return SAME
        kept = self.from_checkpoint(held)
        return kept.checkpoint() if kept.finish() else SAME

    def is_set(self, held: Any) -> bool:
        """Return whether nodes can read a value from the channel. ``held`` is the stored value."""
        return held is not MISSING and self.read(held) is not MISSING

    def read(self, held: Any) -> Any:
        """Return the value that nodes read, or MISSING if there is none.

        ``held`` is the stored value.
        """
        try:
            return self.from_checkpoint(held).get()
        except EmptyChannelError:
            return MISSING

    def initial(self) -> Any:
        """Return the stored value of the channel before the first write."""
        return MISSING

    def bound(self, key: str, typ: Any = None) -> BaseChannel[ValueT, UpdateT, CheckpointT]:
        """Return a copy of the channel for the state key ``key``, which is annotated as ``typ``."""
        twin = self.copy()
        twin.key = key
        return twin

    # LangGraph's interface: a channel object that stores its value.

    def copy(self) -> Self:
        """Return a new channel object with the same stored value."""
        twin = self.__class__.__new__(self.__class__)
        twin.__dict__.update(self.__dict__)
        return twin

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return a channel object with the stored value ``checkpoint``. MISSING means no value."""
        kept = self.copy()
        kept.value = SAME if checkpoint is MISSING else checkpoint
        kept._get_value()
        return kept

    def update(self, values: Sequence[Any]) -> bool:
        """Apply a super-step's writes and return whether the value changed."""
        rule, held = self._get_rule(), self._get_value()
        if values or rule.expire is BaseChannel.expire:
            return self._keep(rule.fold(self, held, values))
        return self._keep(rule.expire(self, held))

    def get(self) -> Any:
        """Return the value.

        Raises:
            EmptyChannelError: the channel has no value.
        """
        held = self._get_value()
        found = held if self._rule is None else self._rule.read(self, held)
        if found is MISSING:
            raise EmptyChannelError
        return found

    def is_available(self) -> bool:
        """Return whether the channel has a value."""
        try:
            self.get()
        except EmptyChannelError:
            return False
        return True

    def checkpoint(self) -> Any:
        """Return the value to store, or MISSING if the channel has no value."""
        if self._rule is not None:
            return self._get_value() if self.durable else MISSING
        try:
            return self.get()
        except EmptyChannelError:
            return MISSING

    def consume(self) -> bool:
        """Reset the value after the channel has triggered a node, and return whether it changed."""
        rule = self._rule
        return rule is not None and self._keep(rule.consume_value(self, self._get_value()))

    def finish(self) -> bool:
        """Update the value after all nodes have finished, and return whether it changed."""
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


#: The methods of each interface.
_PURE = frozenset(("fold", "expire", "consume_value", "finish_value", "is_set", "read", "initial"))
_KEEPING = frozenset(
    ("from_checkpoint", "update", "get", "is_available", "checkpoint", "consume", "finish")
)
