"""Growing values: stored as additions, and equal to completely stored values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl_django import END, START, Command, StateGraph, interrupt
from hitl_django.checkpoints import DjangoSaver, value_deltas
from hitl_django.engine.savers import memory
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.serde import Codec, JsonPlusSerializer
from hitl_django.engine.serde import codec as codec_module
from hitl_django.engine.state.messages import add_messages
from hitl_django.engine.types import Overwrite
from hitl_django.models import ChannelBlob

Make = Callable[[], Any]


class Whole(JsonPlusSerializer):
    """Third-party serializer with only the two required methods."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return super().dumps_typed(obj)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store lists in parts from a few words on.

    Lists are also combined after a few parts, and compared a few items at a time.
    """
    monkeypatch.setattr(value_deltas, "MIN_BYTES", 20)
    monkeypatch.setattr(memory, "MIN_BYTES", 20)
    monkeypatch.setattr(value_deltas, "SEAL_INTERVAL", 4)
    monkeypatch.setattr(codec_module, "AT_A_TIME", 40)


def place(thread: str = "t") -> Any:
    return {"configurable": {"thread_id": thread}, "recursion_limit": 1000}


real = pytest.mark.django_db(transaction=True)
each_saver = pytest.mark.parametrize(
    "make", [InMemorySaver, pytest.param(DjangoSaver, marks=real)], ids=["memory", "database"]
)


class Growing(TypedDict):
    log: Annotated[list[Any], operator.add]
    messages: Annotated[list[Any], add_messages]
    facts: Annotated[dict[str, Any], operator.or_]
    n: int


def graph_of(steps: list[Callable[[Any], Any]], saver: Any, **options: Any) -> Any:
    graph = StateGraph(Growing)
    graph.add_node("step", lambda state: {**steps[state["n"]](state), "n": state["n"] + 1})
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: END if state["n"] >= len(steps) else "step")
    return graph.compile(checkpointer=saver, **options)


START_STATE = {"log": ["x" * 30], "messages": [], "facts": {"first": "y" * 30}, "n": 0}


def said(number: int, text: str = "word") -> dict[str, Any]:
    return {"role": "user", "content": text, "id": str(number)}


# Operations of steps on the lists: add, replace, remove, overwrite, and invalid changes.

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
leaves = st.one_of(
    st.none(), st.integers(), texts, st.floats(allow_nan=False), st.binary(max_size=4),
    st.binary(max_size=4).map(bytearray),
)  # fmt: skip
items = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
steps = st.one_of(
    st.tuples(st.just("add"), st.lists(items, max_size=3)),
    st.tuples(st.just("add"), st.lists(items, max_size=3)),
    st.tuples(st.just("say"), st.integers(0, 9)),
    st.tuples(st.just("learn"), st.dictionaries(st.sampled_from("abcdefgh"), items, max_size=3)),
    st.tuples(st.just("learn"), st.dictionaries(texts | st.integers(0, 2), items, max_size=2)),
    st.tuples(st.just("overwrite"), st.lists(items, max_size=3)),
    st.tuples(st.just("nothing"), st.none()),
    st.tuples(st.just("change in place"), st.integers(0, 3)),
    st.tuples(st.just("append in place"), items),
)


def step_of(kind: str, given: Any) -> Callable[[Any], Any]:
    by = deepcopy(given)

    def step(state: Any) -> Any:
        if kind == "add":
            return {"log": [[item] for item in by]}
        if kind == "say":
            return {"messages": [said(by, "word " * by)]}
        if kind == "learn":
            return {"facts": by}
        if kind == "overwrite":
            return {"log": Overwrite(by)}
        if kind == "change in place":
            for item in [*state["log"], *state["facts"].values()][:by]:
                if type(item) is list:
                    item.append("changed")
        elif kind == "append in place":
            state["log"].append(by)
        return {}

    return step


@pytest.mark.promise("P14")
@given(st.lists(steps, min_size=1, max_size=14))
def test_growing_value_encoded_by_its_new_items_equals_value_encoded_as_a_whole(
    plan: list[Any],
) -> None:
    ended, stored = [], []
    for saver in (InMemorySaver(), InMemorySaver(serde=Whole())):
        graph = graph_of([step_of(*each) for each in plan], saver)
        ended.append(graph.invoke(deepcopy(START_STATE), place()))
        stored.append(graph.get_state(place()).values)
    encode, in_place = Codec().encode, any(kind.endswith("in place") for kind, _ in plan)
    for name in ("log", "facts"):
        ours, whole = encode(stored[0][name]), encode(stored[1][name])
        assert encode(ended[0][name]) == encode(ended[1][name])
        # A value that a node changed in place without returning it may be stored or not.
        assert ours in (encode(ended[0][name]), whole if in_place else ours)
        if not in_place:
            assert ours == whole


@pytest.mark.promise("P14")
@real
@given(st.lists(steps, min_size=1, max_size=14), st.integers(0, 10**9))
def test_django_saver_and_memory_saver_store_equal_histories_of_generated_runs(
    plan: list[Any], number: int
) -> None:
    held = []
    for saver in (InMemorySaver(), DjangoSaver()):
        thread = place(f"{number} {len(plan)} {plan!r}"[:200])
        graph = graph_of([step_of(*each) for each in plan], saver)
        graph.invoke(deepcopy(START_STATE), thread)
        held.append([Codec().encode(one.values) for one in graph.get_state_history(thread)])
        if isinstance(saver, DjangoSaver):
            saver.delete_thread(thread["configurable"]["thread_id"])
    assert held[0] == held[1]


@each_saver
def test_each_step_of_growing_list_encodes_only_its_new_items(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    class Counting(Codec):
        def encode(self, value: Any) -> bytes:
            data = super().encode(value)
            sizes.append(len(data))
            return data

    at: list[int] = []
    each = {"text": "č" * 50, "number": 0.5}

    def step(state: Any) -> Any:
        at.append(sum(sizes))
        return {"log": [dict(each)], "facts": {f"fact {state['n']}": dict(each)}}

    codec = Counting()
    if make is InMemorySaver:
        saver = InMemorySaver(serde=codec)
    else:
        saver = DjangoSaver()
        for module in ("codec", "commit_rows", "django_saver", "inline_values"):
            monkeypatch.setattr(f"hitl_django.checkpoints.{module}.codec", codec)
    graph_of([step] * 120, saver).invoke(START_STATE, place())
    taken = [after - before for before, after in pairwise(at[2:])]
    assert max(taken) < 1500
    assert sizes[-1] > 0


@each_saver
@pytest.mark.parametrize("ends", [True, False], ids=["at its end", "at a question"])
def test_value_mutated_in_place_is_stored_at_end_or_interrupt_of_run(
    make: Make, ends: bool
) -> None:
    def add(state: Any) -> Any:
        return {"log": [{"seen": 0}], "facts": {f"fact {state['n']}": {"seen": 0}}}

    def change(state: Any) -> Any:
        state["log"][1]["seen"] = state["facts"]["fact 0"]["seen"] = 7
        return {}

    def leave(state: Any) -> Any:
        return {} if ends else {"log": [interrupt("Go on?")]}

    graph = graph_of([add, add, add, change, add, leave], make())
    graph.invoke(START_STATE, place())
    stored = graph_of([], make() if make is DjangoSaver else graph.checkpointer)
    found = stored.get_state(place()).values
    assert found["log"][1] == found["facts"]["fact 0"] == {"seen": 7}
    if not ends:
        graph.invoke(Command(resume="yes"), place())
        log = stored.get_state(place()).values["log"]
        assert log[1] == {"seen": 7}
        assert log[-1] == "yes"


@each_saver
def test_replaced_message_content_is_stored_before_the_next_step(make: Make) -> None:
    def speak(state: Any) -> Any:
        return {"messages": [said(len(state["messages"]), "word " * 9)]}

    def correct(state: Any) -> Any:
        message = state["messages"][0]
        message.content = "corrected"
        return {"messages": [message]}

    def look(state: Any) -> Any:
        found = reader.get_state(place()).values["messages"]
        seen.append([message.content for message in found])
        return {}

    saver, seen = make(), []
    graph = graph_of([speak, speak, speak, correct, look, speak], saver)
    reader = graph_of([], saver)
    graph.invoke(START_STATE, place())
    assert seen[0][0] == "corrected"


@each_saver
def test_two_branches_of_a_growing_list_are_restored_separately(make: Make) -> None:
    def add(state: Any) -> Any:
        return {"log": [f"item {state['n']}"]}

    saver = make()
    graph = graph_of([add] * 8, saver)
    graph.invoke(START_STATE, place())
    trunk = next(one for one in graph.get_state_history(place()) if one.values.get("n") == 4)
    graph.update_state(trunk.config, {"log": ["another"]}, as_node="step")
    graph.invoke(None, place())
    ends = [one.values["log"] for one in graph.get_state_history(place()) if not one.next]
    middle = [f"item {n}" for n in range(4)]
    rest = [f"item {n}" for n in range(4, 8)]
    assert [log[1:] for log in ends] == [[*middle, "another", *rest], [*middle, *rest]]


@each_saver
def test_list_growing_beyond_the_limit_of_nested_lists_fails_and_keeps_the_last_step(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = make()
    small = Codec(max_bytes=2000, max_containers=40)
    if make is InMemorySaver:
        saver = InMemorySaver(serde=small)
    else:
        for module in ("codec", "commit_rows", "django_saver", "inline_values"):
            monkeypatch.setattr(f"hitl_django.checkpoints.{module}.codec", small)

    def add(state: Any) -> Any:
        return {"log": [[]]}

    graph = graph_of([add] * 60, saver)
    with pytest.raises(Exception, match="the limit is 40"):
        graph.invoke(START_STATE, place())
    assert len(saver.get_tuple(place()).checkpoint["channel_values"]["log"]) == 40


@real
def test_run_with_growing_values_stores_the_whole_value_of_a_channel_only_once() -> None:
    def add(state: Any) -> Any:
        return {"log": [f"item {state['n']}"], "facts": {f"fact {state['n']}": 0}}

    graph = graph_of([add] * 50, DjangoSaver())
    ended = graph.invoke(START_STATE, place())
    for name in ("log", "facts"):
        rows = ChannelBlob.objects.filter(channel=name).values_list("data", flat=True)
        assert sum(not value_deltas.is_delta(bytes(row)) for row in rows) == 1
    assert graph_of([], DjangoSaver()).get_state(place()).values == ended
