"""Channels: their values after a super-step's writes, and reading them."""

from __future__ import annotations

import collections.abc
import operator
import pickle
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from hitl_django import START, StateGraph
from hitl_django.engine.channels import (
    MISSING,
    SAME,
    AnyValue,
    BaseChannel,
    BinaryOperatorAggregate,
    DeltaChannel,
    EmptyChannelError,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
    UntrackedValue,
)
from hitl_django.engine.errors import InvalidUpdateError
from hitl_django.engine.types import Overwrite

from .graphs import CONFIG, saved


def held_after(channel: BaseChannel, *steps: Sequence[Any]) -> Any:
    """Return a channel's value after the writes of several super-steps."""
    held = channel.initial()
    for writes in steps:
        if not writes and not channel.expires:
            continue
        after = channel.fold(held, writes) if writes else channel.expire(held)
        held = held if after is SAME else after
    return held


@pytest.mark.parametrize(
    ("channel", "steps", "held"),
    [
        (LastValue(int), [], MISSING),
        (LastValue(int), [[1]], 1),
        (LastValue(int), [[1], [2]], 2),
        (LastValue(int), [[1], []], 1),
        (LastValue(int), [[None]], None),
        (AnyValue(int), [[1, 1]], 1),
        (AnyValue(int), [[1], []], MISSING),
        (EphemeralValue(int), [[1]], 1),
        (EphemeralValue(int), [[1], []], MISSING),
        (EphemeralValue(int, guard=False), [[1, 2]], 2),
        (UntrackedValue(int), [[1], []], 1),
        (UntrackedValue(int, guard=False), [[1, 2]], 2),
        (Topic(int), [[1, 2]], [1, 2]),
        (Topic(int), [[[1, 2], 3]], [1, 2, 3]),
        (Topic(int), [[1], [2]], [2]),
        (Topic(int), [[1], []], MISSING),
        (Topic(int, accumulate=True), [[1], [2, 3], []], [1, 2, 3]),
        (BinaryOperatorAggregate(int, operator.add), [], 0),
        (BinaryOperatorAggregate(int, operator.add), [[1, 2], [3]], 6),
        (BinaryOperatorAggregate(int, operator.add), [[1], []], 1),
        (NamedBarrierValue(str, {"a", "b"}), [["a"]], {"a"}),
        (NamedBarrierValue(str, {"a", "b"}), [["a"], ["b"]], {"a", "b"}),
    ],
)
def test_channel_folds_series_of_writes_to_the_value_defined_by_its_class(
    channel: BaseChannel, steps: Any, held: Any
) -> None:
    assert held_after(channel, *steps) == held


@pytest.mark.parametrize(
    ("channel", "writes", "message"),
    [
        (
            LastValue(int, "k"),
            [1, 2],
            "At key 'k': Can receive only one value per step. Use an Annotated key",
        ),
        (EphemeralValue(int, key="k"), [1, 2], r"At key 'k': EphemeralValue\(guard=True\)"),
        (UntrackedValue(int, key="k"), [1, 2], r"At key 'k': UntrackedValue\(guard=True\)"),
        (
            BinaryOperatorAggregate(list, operator.add),
            [Overwrite([1]), Overwrite([2])],
            "Can receive only one Overwrite value per super-step.",
        ),
        (NamedBarrierValue(str, {"a"}, "k"), ["b"], r"At key 'k': Value b not in \['a'\]"),
    ],
)
def test_channel_fold_with_invalid_writes_raises_invalid_update_error(
    channel: BaseChannel, writes: Any, message: str
) -> None:
    with pytest.raises(InvalidUpdateError, match=message):
        channel.fold(channel.initial(), writes)


def test_barrier_fold_with_unknown_writer_leaves_stored_writers_unchanged() -> None:
    barrier = NamedBarrierValue(str, {"a", "b"})
    held = barrier.fold(MISSING, ["a"])
    with pytest.raises(InvalidUpdateError):
        barrier.fold(held, ["b", "c"])
    assert held == {"a"}


def test_channel_fold_does_not_mutate_its_previous_value() -> None:
    for channel, writes in [
        (Topic(int, accumulate=True), [2]),
        (NamedBarrierValue(str, {"a", "b"}), ["b"]),
        (BinaryOperatorAggregate(list, operator.add), [[2]]),
    ]:
        before = held_after(channel, ["a"] if isinstance(channel, NamedBarrierValue) else [[1]])
        copy = pickle.loads(pickle.dumps(before))
        channel.fold(before, writes)
        assert before == copy


@pytest.mark.parametrize(
    ("typ", "initial"),
    [
        (int, 0),
        (str, ""),
        (list[int], []),
        (collections.abc.Sequence, []),
        (collections.abc.Set, set()),
        (collections.abc.MutableMapping, {}),
        (dict[str, int], {}),
    ],
)
def test_reducer_channel_starts_with_empty_value_of_its_annotated_type(
    typ: Any, initial: Any
) -> None:
    assert BinaryOperatorAggregate(typ, operator.add).initial() == initial


def test_reducer_channel_of_type_without_default_starts_with_first_write() -> None:
    class Amount:
        def __init__(self, cents: int) -> None:
            self.cents = cents

    channel = BinaryOperatorAggregate(Amount, lambda old, new: Amount(old.cents + new.cents))
    assert channel.initial() is MISSING
    first = Amount(1)
    assert channel.fold(MISSING, [first]) is first
    assert channel.fold(first, [Amount(2)]).cents == 3


@pytest.mark.parametrize(
    "overwrite",
    [Overwrite([9]), {"__overwrite__": [9]}, {"type": "__overwrite__", "value": [9]}],
)
def test_overwrite_replaces_channel_value_without_calling_the_reducer(overwrite: Any) -> None:
    channel = BinaryOperatorAggregate(list, operator.add)
    assert channel.fold([1], [[2], overwrite]) == [9]


def test_channel_write_after_overwrite_in_same_step_is_ignored() -> None:
    channel = BinaryOperatorAggregate(list, operator.add)
    assert channel.fold([1], [Overwrite([9]), [2]]) == [9]


@pytest.mark.parametrize(
    "plain",
    [{"__overwrite__": 1, "more": 2}, {"type": "other", "value": 1}, {"type": "__overwrite__"}],
)
def test_dict_with_incomplete_overwrite_keys_is_folded_as_ordinary_value(plain: Any) -> None:
    channel = BinaryOperatorAggregate(dict, operator.or_)
    assert channel.fold({}, [plain]) == plain


def test_barrier_is_set_after_all_writers_and_unset_after_consume() -> None:
    barrier = NamedBarrierValue(str, {"a", "b"})
    partly = barrier.fold(MISSING, ["a"])
    assert not barrier.is_set(partly)
    assert barrier.consume_value(partly) is SAME
    whole = barrier.fold(partly, ["b"])
    assert barrier.is_set(whole)
    assert barrier.read(whole) is None
    assert barrier.fold(whole, ["b"]) is SAME
    assert barrier.consume_value(whole) == set()
    assert not barrier.is_set(set())


@pytest.mark.parametrize(
    ("channel", "writes"),
    [
        (LastValueAfterFinish(str), ["x"]),
        (NamedBarrierValueAfterFinish(str, {"a", "b"}), ["a", "b"]),
    ],
)
def test_after_finish_channel_is_set_between_finish_and_consume(
    channel: BaseChannel, writes: Any
) -> None:
    written = channel.fold(MISSING, writes)
    assert not channel.is_set(written)
    assert channel.consume_value(written) is SAME
    finished = channel.finish_value(written)
    assert channel.is_set(finished)
    assert channel.finish_value(finished) is SAME
    assert not channel.is_set(channel.consume_value(finished))


def test_after_finish_barrier_with_missing_writer_is_not_set_by_finish() -> None:
    channel = NamedBarrierValueAfterFinish(str, {"a", "b"})
    assert channel.finish_value(channel.fold(MISSING, ["a"])) is SAME


def test_finish_and_consume_change_no_value_of_topic_and_single_value_channels() -> None:
    for channel in (LastValue(int), Topic(int), EphemeralValue(int), AnyValue(int)):
        assert channel.finish_value(1) is SAME
        assert channel.consume_value(1) is SAME


def test_channels_compare_equal_by_class_and_relevant_parameters() -> None:
    assert LastValue(int) == LastValue(str)
    assert LastValue(int) != AnyValue(int)
    assert EphemeralValue(int) != EphemeralValue(int, guard=False)
    assert Topic(int) != Topic(int, accumulate=True)
    assert NamedBarrierValue(str, {"a"}) != NamedBarrierValue(str, {"b"})
    assert NamedBarrierValue(str, {"a"}) != NamedBarrierValueAfterFinish(str, {"a"})
    assert BinaryOperatorAggregate(int, operator.add) == BinaryOperatorAggregate(int, operator.add)
    assert BinaryOperatorAggregate(int, operator.add) != BinaryOperatorAggregate(int, operator.mul)


def test_reducer_channels_with_different_lambdas_compare_equal() -> None:
    one = BinaryOperatorAggregate(int, lambda old, new: old)
    assert one == BinaryOperatorAggregate(int, lambda old, new: new)


def test_untracked_value_is_the_only_channel_that_is_not_durable() -> None:
    assert not UntrackedValue(int).durable
    assert all(channel(int).durable for channel in (LastValue, AnyValue, Topic, EphemeralValue))


def test_missing_sentinel_is_falsy_and_unpickles_to_the_same_object() -> None:
    assert repr(MISSING) == "MISSING"
    assert not MISSING
    assert pickle.loads(pickle.dumps(MISSING)) is MISSING


class Highest(BaseChannel):
    """Custom channel that keeps its value, like LangGraph's channels."""

    def __init__(self, typ: Any = int, key: str = "") -> None:
        super().__init__(typ, key)
        self.value: Any = MISSING

    def from_checkpoint(self, checkpoint: Any) -> Highest:
        twin = Highest(self.typ, self.key)
        twin.value = checkpoint
        return twin

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        best = max(values) if self.value is MISSING else max(self.value, *values)
        changed = best != self.value
        self.value = best
        return changed

    def get(self) -> Any:
        if self.value is MISSING:
            raise EmptyChannelError
        return self.value


def test_custom_channel_subclass_folds_higher_values_and_ignores_lower_values() -> None:
    channel = Highest()
    assert channel.read(MISSING) is MISSING
    held = channel.fold(MISSING, [3, 5])
    assert channel.read(held) == 5
    assert channel.fold(held, [4]) is SAME
    assert channel.expire(held) is SAME


class Scored(TypedDict, total=False):
    best: Annotated[int, Highest()]


def test_graph_with_custom_highest_value_channel_returns_highest_write() -> None:
    graph = StateGraph(Scored)
    for name, best in (("a", 3), ("b", 7)):
        graph.add_node(name, lambda state, best=best: {"best": best}).add_edge(START, name)
    compiled = saved(graph)
    assert compiled.invoke({"best": 5}, CONFIG) == {"best": 7}
    assert compiled.get_state(CONFIG).values == {"best": 7}
    assert compiled.invoke({"best": 9}, CONFIG) == {"best": 9}


class Doubled(LastValue):
    """Channel that changes a part of a channel defined by pure functions."""

    def update(self, values: Sequence[Any]) -> bool:
        return super().update([value * 2 for value in values])


class Counted(LastValue):
    """Channel that counts its reads in additional state."""

    def get(self) -> Any:
        return ("read", super().get())


class Once(EphemeralValue):
    """Channel that is emptied by the node that it has triggered."""

    def consume(self) -> bool:
        changed, self.value = self.value is not MISSING, MISSING
        return changed


def test_channel_subclass_calls_its_overridden_update_get_and_consume_methods() -> None:
    assert Doubled(int).fold(MISSING, [3]) == 6
    assert Doubled(int).fold(6, []) is SAME
    assert Counted(int).read(3) == ("read", 3)
    assert Counted(int).read(MISSING) is MISSING
    with pytest.raises(InvalidUpdateError):
        Doubled(int).fold(MISSING, [1, 2])
    assert (Once(int).consumable, Once(int).consume_value(3)) == (True, MISSING)
    assert Once(int).consume_value(MISSING) is SAME
    assert not Doubled(int).finishes


class Parts(TypedDict, total=False):
    doubled: Annotated[int, Doubled]


def test_graph_with_overridden_channel_update_returns_value_computed_by_update() -> None:
    graph = StateGraph(Parts).add_node("a", lambda state: {"doubled": 4}).add_edge(START, "a")
    assert saved(graph).invoke({"doubled": 1}, CONFIG) == {"doubled": 8}


def test_copy_of_restored_channel_does_not_change_when_original_is_updated() -> None:
    rule = LastValue(int)
    kept = rule.from_checkpoint(3)
    twin = kept.copy()
    assert twin.update([4])
    assert (kept.get(), twin.get(), rule.is_available()) == (3, 4, False)
    assert UntrackedValue(int).from_checkpoint(3).checkpoint() is MISSING


def test_channel_class_without_fold_and_update_raises_not_implemented_error() -> None:
    class Nothing(BaseChannel):
        """Class without sync or async form."""

    with pytest.raises(NotImplementedError, match="Nothing has neither fold"):
        Nothing(int).fold(MISSING, [1])


def extend(value: list[int], writes: Sequence[int]) -> list[int]:
    return [*value, *writes]


class Grows(TypedDict, total=False):
    numbers: Annotated[list, DeltaChannel(extend)]


class Added(TypedDict, total=False):
    numbers: Annotated[list, operator.add]


@pytest.mark.parametrize(("first", "then"), [(Grows, Added), (Added, Grows)])
def test_state_key_changed_from_reducer_to_delta_channel_or_back_preserves_stored_values(
    first: Any, then: Any
) -> None:
    def build(schema: Any) -> Any:
        one: Any = 1 if schema is Grows else [1]
        graph = StateGraph(schema).add_edge(START, "a")
        return saved(graph.add_node("a", lambda state: {"numbers": one}))

    before = build(first)
    before.invoke({"numbers": 7 if first is Grows else [7]}, CONFIG)
    after = build(then).with_saver(before.checkpointer)
    found = after.invoke({"numbers": 8 if then is Grows else [8]}, CONFIG)
    assert found == {"numbers": [7, 1, 8, 1]}
    assert after.get_state(CONFIG).values == found


def test_delta_channel_with_snapshot_frequency_zero_raises_value_error() -> None:
    with pytest.raises(ValueError, match="snapshot_frequency has to be positive, not 0"):
        DeltaChannel(extend, list, snapshot_frequency=0)


def test_exception_in_delta_channel_reducer_has_note_naming_its_key() -> None:
    def fail(value: Any, writes: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        DeltaChannel(fail, list, key="total").fold(MISSING, [1])
    assert raised.value.__notes__ == ["While folding writes into 'total' with its reducer"]
