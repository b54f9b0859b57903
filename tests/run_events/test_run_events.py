"""Run events: stored if and only if the described change is stored."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypedDict

import pytest
from django.db import OperationalError
from django.db.models import TextField
from django.db.models.functions import Cast

from hitl_django import (
    END,
    START,
    Command,
    StateGraph,
    entrypoint,
    interrupt,
    run_leases,
    services,
    task,
    testing,
)
from hitl_django.engine.task.node_api import get_stream_writer
from hitl_django.engine.types import RetryPolicy, Send
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, PendingWrite, Run, RunEvent, Thread
from hitl_django.run_events import EventLog
from hitl_django.worker import runner

pytestmark = pytest.mark.django_db(transaction=True)

Tell = Callable[..., services.RunInfo]
NAME = "told"
MODES = ("values", "updates", "messages", "custom", "tasks", "checkpoints")


class State(TypedDict, total=False):
    count: Annotated[int, operator.add]
    answer: Any


@pytest.fixture
def tell() -> Iterator[Tell]:
    """Register a graph, and execute a run of the graph as far as possible."""

    def run_it(graph: Any, *, given: Any = None, **options: Any) -> services.RunInfo:
        registry.unregister(NAME)
        started = {"events": options.pop("start_events")} if "start_events" in options else {}
        registry.register(NAME, **{"events": ["states"], **options})(lambda: graph)
        info = services.start(NAME, given or {"count": 0}, **started)
        runner.advance(str(info.id))
        return info

    with testing.inline():
        yield run_it
    registry.unregister(NAME)


def line(**nodes: Any) -> StateGraph:
    graph = StateGraph(State)
    before = START
    for name, function in nodes.items():
        graph.add_node(name, function).add_edge(before, name)
        before = name
    return graph.add_edge(before, END)


def one(state: State) -> State:
    return {"count": 1}


def asks(state: State) -> State:
    return {"answer": interrupt("Go on?")}


def says(*words: Any) -> Callable[[State], State]:
    def say(state: State) -> State:
        for word in words:
            get_stream_writer()(word)
        return {"count": 1}

    return say


def events_of(info: Any) -> list[RunEvent]:
    return list(RunEvent.objects.filter(run=info.id).order_by("seq"))


def kinds_of(info: Any) -> list[str]:
    found = events_of(info)
    assert [event.seq for event in found] == list(range(1, len(found) + 1))
    return [event.kind for event in found]


def data_of(info: Any, kind: str) -> list[Any]:
    return [event.data for event in events_of(info) if event.kind == kind]


def answer(info: Any, value: Any = "yes") -> None:
    interrupt = Interrupt.objects.get(run=info.id, status="pending")
    services.decide(interrupt.pk, "respond", value)
    runner.advance(str(info.id))


# The states of a run.


def test_run_of_graph_with_states_events_records_state_events(tell: Tell) -> None:
    info = tell(line(a=one, ask=asks, b=one))
    interrupt = Interrupt.objects.get()
    answer(info)
    assert kinds_of(info) == ["queued", "interrupted", "queued", "succeeded"]
    assert [event.data for event in events_of(info)] == [
        {"reason": "started"},
        {"interrupts": [str(interrupt.pk)]},
        {"reason": "answered"},
        {},
    ]
    assert Run.objects.get().last_event == 4


def test_run_interrupting_twice_records_interrupt_ids_of_each_pause(tell: Tell) -> None:
    info = tell(line(ask=asks, again=asks))
    answer(info)
    asked = Interrupt.objects.order_by("created_at", "pk").values_list("pk", flat=True)
    told = [event.data["interrupts"] for event in events_of(info) if event.kind == "interrupted"]
    assert told == [[str(pk)] for pk in asked]


def test_run_records_no_events_by_default() -> None:
    registry.register("untold")(lambda: line(a=one, ask=asks))
    with testing.inline():
        info = services.start("untold", {"count": 0})
        runner.advance(str(info.id))
        answer(info)
    registry.unregister("untold")
    page = services.run_events(info.id)
    assert (page.events, page.last, page.state, page.ended) == ((), 0, "succeeded", True)


def test_failed_retried_and_cancelled_run_records_states_without_error_text(tell: Tell) -> None:
    def fails(state: State) -> State:
        raise ValueError("the word of the author's mother")

    info = tell(line(a=fails))
    services.retry(info.id)
    runner.advance(str(info.id))
    services.cancel(info.id)
    assert kinds_of(info) == ["queued", "failed", "queued", "failed", "cancelled"]
    assert "mother" not in repr([event.data for event in events_of(info)])


def test_run_parked_after_dying_worker_records_parked_event(tell: Tell, settings: Any) -> None:
    def fails(state: State) -> State:
        raise KeyboardInterrupt

    registry.register("doomed", events=["states"])(lambda: line(a=fails))
    settings.HITL = {**settings.HITL, "MAX_ATTEMPTS": 1}
    info = services.start("doomed", {"count": 0})
    with pytest.raises(KeyboardInterrupt):
        runner.advance(str(info.id))
    Thread.objects.update(lease_until=None)
    runner.advance(str(info.id))
    registry.unregister("doomed")
    assert kinds_of(info) == ["queued", "queued", "parked"]


def test_run_cancelled_by_its_node_records_cancelled_event_after_its_last_commit(
    tell: Tell,
) -> None:
    def cancelled(state: State) -> State:
        services.cancel(Run.objects.get().pk)
        return {"count": 1}

    info = tell(line(a=one, b=cancelled), events=["updates"])
    assert kinds_of(info) == ["queued", "updates", "cancelled"]
    assert Run.objects.get().last_event == 3


# The stream modes.


def test_update_events_and_state_events_of_a_run_share_one_numbering(tell: Tell) -> None:
    info = tell(line(a=one, ask=asks), events=["updates"])
    answer(info)
    assert kinds_of(info) == [
        "queued", "updates", "updates", "interrupted", "queued", "updates", "succeeded",
    ]  # fmt: skip
    first, paused, last = data_of(info, "updates")
    assert first == {"a": {"count": 1}}
    assert paused["__interrupt__"][0]["value"] == "Go on?"
    assert last == {"ask": {"answer": "yes"}}


def test_run_recording_all_modes_records_each_step_once_per_mode(tell: Tell) -> None:
    info = tell(line(a=says("hello"), ask=asks, b=one), events=MODES)
    answer(info)
    assert data_of(info, "custom") == ["hello"]
    values = [state for state in data_of(info, "values") if "__interrupt__" not in state]
    assert values[-1] == {"count": 2, "answer": "yes"}
    chain = data_of(info, "checkpoints")
    places = [one["config"]["configurable"]["checkpoint_id"] for one in chain]
    assert len(set(places)) == len(places) == 5
    parents = [(one["parent_config"] or {}).get("configurable", {}) for one in chain]
    assert [parent.get("checkpoint_id") for parent in parents] == [None, *places[:-1]]
    started = [told["name"] for told in data_of(info, "tasks") if "input" in told]
    assert started == ["a", "ask", "b"]


def test_start_with_events_option_records_the_selected_modes(tell: Tell) -> None:
    info = tell(line(a=one), start_events=["updates"])
    assert kinds_of(info) == ["queued", "updates", "succeeded"]


def test_unknown_event_mode_raises_value_error_at_registration_and_start() -> None:
    with pytest.raises(ValueError, match="'debug'"):
        registry.register("x", events=["debug"])
    with pytest.raises(ValueError, match="'everything'"):
        services.start("approval", {"text": "x"}, events=["everything"])


def test_second_run_of_a_thread_records_events_only_of_steps_of_the_second_run(tell: Tell) -> None:
    first = tell(line(a=one), events=["updates", "values"])
    thread = Run.objects.get().thread.thread_id
    second = services.start(NAME, {"count": 5}, thread_id=thread)
    runner.advance(str(second.id))
    assert kinds_of(second) == kinds_of(first)
    assert data_of(second, "values")[-1]["count"] == 7


# Events of an attempt.


def test_custom_output_of_failed_node_attempt_is_not_recorded(tell: Tell) -> None:
    tries: list[int] = []

    def flaky(state: State) -> State:
        tries.append(1)
        get_stream_writer()(f"attempt {len(tries)}")
        if len(tries) < 3:
            raise ConnectionError
        return {"count": 1}

    graph = StateGraph(State)
    policy = RetryPolicy(initial_interval=0.001, jitter=False)
    graph.add_node("a", flaky, retry_policy=policy).add_edge(START, "a").add_edge("a", END)
    info = tell(graph, events=["custom"])
    assert data_of(info, "custom") == ["attempt 3"]


def test_custom_output_of_task_lost_with_its_worker_is_recorded_by_next_worker(tell: Tell) -> None:
    lives: list[int] = []

    def mortal(state: State) -> State:
        lives.append(1)
        get_stream_writer()(f"life {len(lives)}")
        if len(lives) == 1:
            raise KeyboardInterrupt
        return {"count": 1}

    with pytest.raises(KeyboardInterrupt):
        tell(line(a=says("before"), b=mortal), events=["custom", "updates"])
    info = Run.objects.get()
    assert kinds_of(info) == ["queued", "custom", "updates", "queued"]
    Thread.objects.update(lease_until=None)
    runner.advance(str(info.pk))
    assert kinds_of(info) == [
        "queued", "custom", "updates", "queued", "custom", "updates", "succeeded",
    ]  # fmt: skip
    assert data_of(info, "custom") == ["before", "life 2"]


def test_each_parallel_send_task_records_its_custom_output_and_updates(tell: Tell) -> None:
    def fan(state: State) -> Any:
        return Command(goto=[Send("each", {"count": n}) for n in range(5)])

    def each(state: State) -> State:
        get_stream_writer()({"n": state["count"]})
        return {"count": 1}

    graph = StateGraph(State).add_node("fan", fan).add_node("each", each).add_edge(START, "fan")
    info = tell(graph, events=["custom", "updates"])
    assert sorted(told["n"] for told in data_of(info, "custom")) == list(range(5))
    assert [told for told in data_of(info, "updates") if "each" in told] == [
        {"each": {"count": 1}}
    ] * 5


def test_custom_output_of_subgraph_step_is_recorded_when_that_step_is_stored(tell: Tell) -> None:
    def fails(state: State) -> State:
        if not Run.objects.exclude(state="running").exists() and not woken:
            woken.append(1)
            raise KeyboardInterrupt
        return {"count": 1}

    woken: list[int] = []
    inner = line(x=says("x"), y=fails, z=says("z")).compile()
    with pytest.raises(KeyboardInterrupt):
        tell(line(inner=inner), events=["custom"])
    info = Run.objects.get()
    assert data_of(info, "custom") == ["x"]
    Thread.objects.update(lease_until=None)
    runner.advance(str(info.pk))
    assert data_of(info, "custom") == ["x", "z"]


@pytest.mark.parametrize("checkpointer", [None, False], ids=["stored", "not stored"])
def test_subgraph_updates_are_recorded_only_with_subgraphs_mode(
    tell: Tell, checkpointer: Any
) -> None:
    inner = line(x=one, y=one).compile(checkpointer=checkpointer)
    quiet = tell(line(inner=inner, last=one), events=["updates"])
    assert data_of(quiet, "updates") == [{"inner": {"count": 2}}, {"last": {"count": 1}}]
    info = tell(line(inner=inner, last=one), events=["updates", "values", "subgraphs"])
    assert kinds_of(info).count("updates") == 4
    told = [
        (event.kind, event.ns.partition(":")[0], event.data)
        for event in events_of(info)
        if event.kind in ("updates", "values")
    ]
    graph = line(inner=inner, last=one).compile()
    asked = {"stream_mode": ["updates", "values"], "subgraphs": True}
    streamed = graph.stream({"count": 0}, **asked)
    # The input of the run was stored before the run was queued.
    expected = [(mode, ns[0].partition(":")[0] if ns else "", data) for ns, mode, data in streamed][
        1:
    ]
    assert [each for each in told if each != ("values", "", {"count": 0})] == expected


def test_subgraph_interrupt_is_recorded_for_subgraph_and_for_its_parent(tell: Tell) -> None:
    inner = line(x=one, ask=asks).compile()
    info = tell(line(inner=inner), events=[*MODES, "subgraphs"])
    answer(info)
    asked = [
        event.ns.partition(":")[0]
        for event in events_of(info)
        if event.kind == "updates" and "__interrupt__" in event.data
    ]
    assert sorted(asked) == ["", "inner"]
    assert kinds_of(info)[-1] == "succeeded"


def test_custom_output_of_subgraph_without_checkpoints_is_recorded_once(tell: Tell) -> None:
    inner = line(x=says("x")).compile(checkpointer=False)
    info = tell(line(inner=inner, ask=asks), events=["custom"])
    answer(info)
    assert data_of(info, "custom") == ["x"]


def test_custom_output_and_updates_of_called_tasks_are_recorded_once(tell: Tell) -> None:
    @task
    def step(n: int) -> int:
        get_stream_writer()({"step": n})
        return n

    @entrypoint()
    def flow(count: dict[str, int]) -> Any:
        first = step(1).result()
        said = interrupt("Go on?")
        return first + step(2).result() + said

    info = tell(flow, events=["custom", "updates", "tasks"])
    answer(info, 10)
    assert data_of(info, "custom") == [{"step": 1}, {"step": 2}]
    steps = [told for told in data_of(info, "updates") if "step" in told]
    assert steps == [{"step": 1}, {"step": 2}]
    ended = [told["name"] for told in data_of(info, "tasks") if "result" in told]
    assert ended.count("step") == 2


# Costs, and failures to store an event.


def test_unstorable_node_update_is_not_recorded_as_event(tell: Tell) -> None:
    info = tell(line(a=lambda state: {"answer": object()}), events=["updates"])
    assert kinds_of(info) == ["queued", "failed"]
    assert not PendingWrite.objects.filter(slot=0, task_path__contains="pull").exclude(
        task_path__contains="__start__"
    )


def test_worker_whose_lease_was_taken_over_records_no_further_events(tell: Tell) -> None:
    def overtaken(state: State) -> State:
        if not rivals:
            rivals.append(1)
            run = Run.objects.get()
            Thread.objects.update(lease_until=None)
            assert run_leases.claim(run.pk) is not None
        return {"count": 1}

    rivals: list[int] = []
    info = tell(line(a=one, b=overtaken), events=["updates"])
    assert kinds_of(info) == ["queued", "updates"]


# Visible events.


def test_events_redact_secret_keys_and_keys_configured_for_the_graph(tell: Tell) -> None:
    answer_ = {"iban": "DE02", "password": "hunter2", "deep": [{"API_KEY": "k", "token": "t"}]}
    info = tell(
        line(a=lambda state: {"answer": answer_}), events=["updates", "values"], redact=["iban"]
    )
    hidden = "[redacted]"
    [update] = data_of(info, "updates")
    assert update["a"]["answer"] == {
        "iban": hidden,
        "password": hidden,
        "deep": [{"API_KEY": hidden, "token": hidden}],
    }
    assert "hunter2" not in repr([event.data for event in events_of(info)])


def test_event_larger_than_event_max_bytes_is_truncated_and_marked(
    tell: Tell, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "EVENT_MAX_BYTES": 1000}
    many = {"long": "ä" * 5000, "list": list(range(5000)), "last": 1}
    info = tell(line(a=lambda state: {"answer": many}, b=one), events=["updates"])
    large, small = [event for event in events_of(info) if event.kind == "updates"]
    assert (large.truncated, small.truncated) == (True, False)
    raw = RunEvent.objects.annotate(text=Cast("data", TextField())).get(pk=large.pk).text
    assert len(raw.encode()) < 1200
    assert large.data["a"]["answer"]["long"].endswith("ä…")


def test_event_with_nul_surrogate_or_nan_is_recorded_with_escaped_text(tell: Tell) -> None:
    strange = [
        "\x00",
        "\ud800",
        float("nan"),
        2**4000,
        b"\xff",
        {("a", 1): {1, 2}},
        ValueError("x"),
    ]
    info = tell(line(a=says(*strange)), events=["custom"])
    told = data_of(info, "custom")
    assert told[:3] == ["\\u0000", "\\ud800", "nan"]
    assert told[3].startswith("1318")
    assert told[4:] == ["<1 bytes>", {"['a', 1]": [1, 2]}, "<ValueError>"]


def test_custom_event_records_value_without_later_mutations(tell: Tell) -> None:
    def count(state: State) -> State:
        progress = {"done": 0}
        for done in (1, 2):
            progress["done"] = done
            get_stream_writer()(progress)
        return {"count": 1}

    info = tell(line(a=count), events=["custom"])
    assert data_of(info, "custom") == [{"done": 1}, {"done": 2}]


def test_custom_event_of_unreadable_object_records_its_class_name_and_run_succeeds(
    tell: Tell,
) -> None:
    class Spoiled(dict[str, Any]):
        def items(self) -> Any:
            raise RuntimeError

    info = tell(line(a=says(Spoiled(a=1))), events=["custom"])
    assert kinds_of(info) == ["queued", "custom", "succeeded"]
    assert data_of(info, "custom") == ["<Spoiled>"]


def test_run_whose_commit_failed_numbers_its_events_without_gaps(
    tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, faults = EventLog.append_chunks, [OperationalError("the connection is gone")]

    def counted_in_vain(self: EventLog, writing: Any, chunks: Any) -> None:
        add(self, writing, chunks)
        if chunks and faults:
            raise faults.pop()

    monkeypatch.setattr(EventLog, "append_chunks", counted_in_vain)
    info = tell(line(a=one, b=one), events=["updates"])
    runner.advance(str(info.id))
    assert not faults
    assert kinds_of(info)[-1] == "succeeded"  # the numbers have no gaps
    run = Run.objects.get(pk=info.id)
    assert (run.state, run.last_event) == ("succeeded", len(events_of(info)))
