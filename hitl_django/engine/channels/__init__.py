"""Channel classes: rules that combine the writes of a super-step into one value."""

from __future__ import annotations

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

__all__ = [
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
