"""Channel classes: the same value from the same writes in both engines."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitl_django.engine.channels import MISSING, SAME

from .engines import LANGGRAPH, OURS, Engine

pytestmark = pytest.mark.filterwarnings("ignore")


def together(value: list[int], writes: Sequence[int]) -> list[int]:
    """Add the writes of a super-step to a list, sorted, which tells how they came together."""
    return [*value, *sorted(writes)]


#: How each kind is made, and whether one name or any value is written to it.
KINDS: dict[str, tuple[Any, str]] = {
    "LastValue": (lambda c: c.LastValue(int), "value"),
    "LastValueAfterFinish": (lambda c: c.LastValueAfterFinish(int), "value"),
    "AnyValue": (lambda c: c.AnyValue(int), "value"),
    "EphemeralValue": (lambda c: c.EphemeralValue(int), "value"),
    "EphemeralValue(guard=False)": (lambda c: c.EphemeralValue(int, guard=False), "value"),
    "UntrackedValue": (lambda c: c.UntrackedValue(int), "value"),
    "UntrackedValue(guard=False)": (lambda c: c.UntrackedValue(int, guard=False), "value"),
    "Topic": (lambda c: c.Topic(int), "value"),
    "Topic(accumulate=True)": (lambda c: c.Topic(int, accumulate=True), "value"),
    "BinaryOperatorAggregate": (lambda c: c.BinaryOperatorAggregate(int, operator.add), "value"),
    "DeltaChannel": (lambda c: c.DeltaChannel(together, list), "value"),
    "NamedBarrierValue": (lambda c: c.NamedBarrierValue(str, {"a", "b"}), "name"),
    "NamedBarrierValueAfterFinish": (
        lambda c: c.NamedBarrierValueAfterFinish(str, {"a", "b"}), "name",
    ),
}  # fmt: skip

VALUES = st.integers(0, 3)
NAMES = st.sampled_from(["a", "b"])
EMPTY = "empty"


class Kept:
    """A channel that keeps its value: LangGraph's, or one of ours in that form."""

    def __init__(self, kind: str, engine: Engine = LANGGRAPH) -> None:
        missing = _their_missing() if engine is LANGGRAPH else MISSING
        self.channel = KINDS[kind][0](engine.channels).from_checkpoint(missing)

    def do(self, call: str, writes: list[Any]) -> Any:
        try:
            if call == "update":
                return bool(self.channel.update(writes)), self.value()
            return bool(getattr(self.channel, call)()), self.value()
        except Exception as error:
            return type(error).__name__

    def value(self) -> Any:
        return self.channel.get() if self.channel.is_available() else EMPTY


def _their_missing() -> Any:
    from langgraph._internal._typing import MISSING as NOTHING

    return NOTHING


class Ours:
    """A channel of ours, and what the loop would hold for it."""

    def __init__(self, kind: str) -> None:
        self.channel = KINDS[kind][0](OURS.channels)
        self.held = self.channel.initial()

    def do(self, call: str, writes: list[Any]) -> Any:
        try:
            if call == "update":
                fold = self.channel.fold(self.held, writes) if writes else self.expired()
            else:
                fold = getattr(self.channel, f"{call}_value")(self.held)
        except Exception as error:
            return type(error).__name__
        if fold is not SAME:
            self.held = fold
        return fold is not SAME, self.value()

    def expired(self) -> Any:
        return self.channel.expire(self.held) if self.channel.expires else SAME

    def value(self) -> Any:
        read = self.channel.read(self.held) if self.held is not MISSING else MISSING
        return EMPTY if read is MISSING else read


@pytest.mark.parametrize("kind", KINDS)
def test_channel_values_after_random_writes_match_langgraph(kind: str) -> None:
    values = VALUES if KINDS[kind][1] == "value" else NAMES
    updates = st.lists(values, max_size=3).map(lambda writes: ("update", writes))
    calls = st.one_of(updates, updates, st.sampled_from([("consume", []), ("finish", [])]))

    @settings(max_examples=3 * settings().max_examples // 2)
    @given(st.lists(calls, max_size=8))
    def same(steps: list[tuple[str, list[Any]]]) -> None:
        theirs, ours, kept = Kept(kind), Ours(kind), Kept(kind, OURS)
        for call, writes in steps:
            expected = theirs.do(call, list(writes))
            assert ours.do(call, writes) == expected, (call, writes)
            assert kept.do(call, list(writes)) == expected, (call, writes)

    same()


PAIRS = [
    ("LastValue", "LastValue"),
    ("LastValue", "AnyValue"),
    ("EphemeralValue", "EphemeralValue(guard=False)"),
    ("Topic", "Topic(accumulate=True)"),
    ("Topic", "Topic"),
    ("UntrackedValue", "UntrackedValue(guard=False)"),
    ("NamedBarrierValue", "NamedBarrierValue"),
    ("NamedBarrierValue", "NamedBarrierValueAfterFinish"),
    ("BinaryOperatorAggregate", "BinaryOperatorAggregate"),
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_channel_equality_comparison_matches_langgraph(one: str, other: str) -> None:
    def equal(engine: Engine) -> bool:
        return bool(KINDS[one][0](engine.channels) == KINDS[other][0](engine.channels))

    assert equal(OURS) == equal(LANGGRAPH)
