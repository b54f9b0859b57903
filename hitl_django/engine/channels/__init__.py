"""Channel classes: rules that combine the writes of a super-step into one value."""

from __future__ import annotations

from typing import Any

from .barrier import NamedBarrierValue, NamedBarrierValueAfterFinish
from .channel import MISSING, SAME, BaseChannel, EmptyChannelError
from .delta import DeltaChannel
from .last_value import (
    REPLACING,
    AnyValue,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    UntrackedValue,
)
from .reducer import BinaryOperatorAggregate
from .topic import Topic

#: Channels of which only the reducer can raise an error.
ATOMIC: frozenset[type[BaseChannel[Any, Any, Any]]] = frozenset(
    (AnyValue, BinaryOperatorAggregate, EphemeralValue, LastValue, Topic, UntrackedValue)
)

__all__ = [
    "ATOMIC",
    "MISSING",
    "REPLACING",
    "SAME",
    "AnyValue",
    "BaseChannel",
    "BinaryOperatorAggregate",
    "DeltaChannel",
    "EmptyChannelError",
    "EphemeralValue",
    "LastValue",
    "LastValueAfterFinish",
    "NamedBarrierValue",
    "NamedBarrierValueAfterFinish",
    "Topic",
    "UntrackedValue",
]
