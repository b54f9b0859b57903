"""History of a thread: changes of each step, and decisions in between."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypedDict

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from hitl_django import END, START, StateGraph, interrupt, services
from hitl_django.engine.errors import ThreadNotFound
from hitl_django.engine.types import Send
from hitl_django.errors import NotAllowedError
from hitl_django.graph_registry import registry
from hitl_django.models import Checkpoint, Decision, Interrupt
from hitl_django.services.runs import history
from tests.services.conftest import asked

pytestmark = pytest.mark.django_db

Advance = Callable[[], int]


class State(TypedDict, total=False):
    text: str
    password: str
    card: dict[str, str]
    log: Annotated[list[str], operator.add]


@pytest.fixture
def made() -> Iterator[Callable[[StateGraph], str]]:
    """Register a graph, and return its name."""

    def make(graph: StateGraph, **options: Any) -> str:
        registry.register("made", **options)(lambda: graph)
        return "made"

    yield make
    registry.unregister("made")


def chain(**nodes: Any) -> StateGraph:
    graph, last = StateGraph(State), START
    for name, returned in nodes.items():
        graph.add_node(name, lambda state, returned=returned: returned).add_edge(last, name)
        last = name
    return graph


def ran(graph: str, given: Any, advance: Advance) -> str:
    info = services.start(graph, given)
    advance()
    return info.thread_id


def texts(step: services.Step) -> list[tuple[str, str, str]]:
    return [(change.node, change.key, change.text) for change in step.changes]


def test_thread_history_lists_nodes_and_writes_of_each_step(
    advance: Advance, made: Callable[..., str]
) -> None:
    name = made(chain(first={"text": "a", "log": ["x"]}, second={}, third={"text": "b"}))
    page = services.thread_history(ran(name, {"text": "in"}, advance))

    assert [(step.step, step.source, step.nodes) for step in page.steps] == [
        (3, "loop", ("third",)),
        (2, "loop", ("second",)),
        (1, "loop", ("first",)),
        (0, "loop", ()),
        (-1, "input", ()),
    ]
    assert [texts(step) for step in page.steps] == [
        [("third", "text", '"b"')],
        [],
        [("first", "text", '"a"'), ("first", "log", '["x"]')],
        [("", "text", '"in"')],
        [],
    ]
    assert page.before is None
    assert not any(step.left or step.more for step in page.steps)


def test_thread_history_pages_are_contiguous_and_do_not_overlap(advance: Advance) -> None:
    thread = ran("steps", {"log": []}, advance)

    pages, before = [], None
    while True:
        page = services.thread_history(thread, before=before, limit=3)
        pages.append([step.step for step in page.steps])
        before = page.before
        if before is None:
            break

    assert pages == [[5, 4, 3], [2, 1, 0], [-1]]


def test_thread_history_lists_decision_at_the_step_after_its_interrupt(advance: Advance) -> None:
    pending = asked("interview", {"log": []}, advance)
    thread = pending.thread.thread_id
    services.decide(pending.pk, "respond", "one")
    (waiting, *_) = services.thread_history(thread).steps
    # No step follows the decision yet, so the newest step lists the decision.
    assert [taken.type for taken in waiting.decisions] == ["respond"]
    advance()
    second = asked_again(pending.run_id)
    services.decide(second, "respond", "two", via="api")
    advance()

    steps = services.thread_history(thread).steps

    assert [[(t.by_label, t.via) for t in step.decisions] for step in steps] == [
        [("system", "code"), ("system", "api")], [], [],
    ]  # fmt: skip
    assert steps[0].decisions[0].title == "First?"
    page = services.thread_history(thread, before=steps[0].checkpoint_id)
    assert not any(step.decisions for step in page.steps)


def test_thread_history_lists_each_decision_once_and_only_in_the_thread_of_the_decision(
    advance: Advance, made: Callable[..., str]
) -> None:
    graph = StateGraph(State).add_node("a", lambda state: {"text": interrupt("A?")})
    graph.add_node("b", lambda state: {"text": interrupt("B?")})
    name = made(graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", END))
    pending_interrupts = [asked(name, {}, advance) for _ in range(2)]
    for pending in pending_interrupts:
        services.decide(pending.pk, "respond", "one")
        advance()
        services.decide(asked_again(pending.run_id), "respond", "two")
        advance()
    for pending in pending_interrupts:
        pages = pages_of(pending.thread.thread_id, limit=1)
        assert pages == [["B?"], ["A?"], [], []]


@pytest.mark.parametrize("limit", [1, 20])
def test_thread_history_lists_decision_with_equal_timestamp_at_the_following_step(
    advance: Advance, made: Callable[..., str], limit: int
) -> None:
    graph = StateGraph(State).add_node("a", lambda state: {"text": interrupt("A?")})
    graph.add_node("b", lambda state: {"text": interrupt("B?")})
    pending = asked(made(graph.add_edge(START, "a").add_edge("a", "b")), {}, advance)
    services.decide(pending.pk, "respond", "one")
    advance()
    second = asked_again(pending.run_id)
    services.decide(second, "respond", "two")
    advance()
    # SQLite's clock has a resolution of milliseconds, so many rows have the same time.
    steps = Checkpoint.objects.filter(thread=pending.thread)
    Decision.objects.update(created_at=steps.get(step=1).created_at)
    steps.update(created_at=steps.get(step=1).created_at)

    pages = pages_of(pending.thread.thread_id, limit)

    assert [title for page in pages for title in page] == ["B?", "A?"]
    if limit == 1:
        assert pages == [["B?"], ["A?"], [], []]


def test_thread_history_orders_decisions_before_one_step_by_time(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = asked("panel", {"log": []}, advance)
    for name in ("right", "left"):
        services.decide(Interrupt.objects.get(node=name).pk, "respond", name)
    thread = pending.thread.thread_id

    def decided() -> list[str]:
        steps = services.thread_history(thread).steps
        return [Interrupt.objects.get(pk=taken.interrupt_id).node for taken in steps[0].decisions]

    assert decided() == ["right", "left"]
    monkeypatch.setattr(history, "DECISIONS", 1)
    assert decided() == ["left"]


def pages_of(thread: str, limit: int) -> list[list[str]]:
    """Return the titles of the decisions on each page."""
    before, pages = None, []
    while before is not None or not pages:
        page = services.thread_history(thread, before=before, limit=limit)
        pages.append([taken.title for step in page.steps for taken in step.decisions])
        before = page.before
    return pages


def asked_again(run: Any) -> Any:
    return Interrupt.objects.get(run=run, status="pending").pk


def test_thread_history_marks_steps_abandoned_by_a_fork(advance: Advance) -> None:
    thread = ran("steps", {"log": []}, advance)
    at = Checkpoint.objects.get(step=2).checkpoint_id
    info = services.fork(thread, at)
    advance()

    steps = services.thread_history(thread).steps

    left = [(step.step, step.source) for step in steps if step.left]
    assert left == [(5, "loop"), (4, "loop"), (3, "loop"), (2, "loop")]
    kept = [(step.step, step.source) for step in steps if not step.left]
    assert kept[-4:] == [(3, "fork"), (1, "loop"), (0, "loop"), (-1, "input")]
    assert {step.run_id for step in steps[:3]} == {str(info.id)}


def test_thread_history_lists_values_written_by_fork_at_the_step_of_the_fork(
    advance: Advance,
) -> None:
    thread = ran("steps", {"log": []}, advance)
    at = Checkpoint.objects.get(step=2).checkpoint_id
    services.fork(thread, at, values={"log": ["instead of c"]}, as_node="c")
    advance()

    steps = services.thread_history(thread).steps

    told = {(step.step, step.source): texts(step) for step in steps}
    assert told[3, "update"] == [("", "log", '["instead of c"]')]
    assert told[3, "loop"] == [("c", "log", '["c"]')]
    again = services.fork(thread, at, values={"log": ["once more"]}, as_node="c")
    newest = services.thread_history(thread).steps[0]
    assert (newest.run_id, texts(newest)) == (str(again.id), [("", "log", '["once more"]')])
    services.fork(thread, at)
    copy = services.thread_history(thread).steps[0]
    assert (copy.source, copy.changes, copy.nodes) == ("fork", (), ())


@pytest.mark.promise("P22")
def test_thread_history_redacts_secret_keys_in_written_values(
    advance: Advance, made: Callable[..., str]
) -> None:
    graph = chain(a={"password": "hunter2", "card": {"number": "4111", "holder": "D"}})
    name = made(graph, redact=["number"])
    page = services.thread_history(ran(name, {"text": "x"}, advance))

    assert texts(page.steps[0]) == [
        ("a", "password", '"[redacted]"'),
        ("a", "card", '{"number": "[redacted]", "holder": "D"}'),
    ]


@pytest.mark.promise("P21")
def test_thread_history_truncates_long_values_and_omits_values_too_large_to_read(
    advance: Advance, made: Callable[..., str]
) -> None:
    nodes = {f"n{number}": {"text": "ü" * 3000} for number in range(60)}
    huge = {"text": "x" * (history.LARGEST + 1)}
    name = made(chain(**nodes, huge=huge))
    thread = ran(name, {"text": "x"}, advance)

    with CaptureQueriesContext(connection) as seen:
        page = services.thread_history(thread, limit=100)

    total = sum(len(change.text.encode()) for step in page.steps for change in step.changes)
    assert total <= history.PAGE + 100 * history.SHOWN
    assert all(len(c.text) <= history.SHOWN for step in page.steps for c in step.changes)
    (written,) = page.steps[0].changes
    assert (written.node, written.key, written.cut) == ("huge", "", True)
    assert int(written.text) > history.LARGEST
    # Values that are too large for the page aren't read.
    assert not any("x" * 1000 in query["sql"] for query in seen)
    assert len(seen) == 6


def test_thread_history_takes_five_queries_for_any_number_of_steps(advance: Advance) -> None:
    thread = ran("steps", {"log": []}, advance)
    counts = []
    for limit in (1, 7):
        with CaptureQueriesContext(connection) as seen:
            services.thread_history(thread, limit=limit)
        counts.append(len(seen))
    assert counts == [5, 5]


@pytest.mark.parametrize("size", [1, 5000])
def test_thread_history_lists_the_nodes_of_sends(
    advance: Advance, made: Callable[..., str], size: int
) -> None:
    graph = StateGraph(State).add_node("a", lambda state: {})
    for name in ("v", "w"):
        graph.add_node(name, lambda state: {"text": "x" * size} if state else {})
    sends = [Send("w", {"text": "x"}), Send("v", {}), Send("w", {})]
    graph.add_edge(START, "a").add_conditional_edges("a", lambda state: sends, ["v", "w"])

    thread = ran(made(graph), {"text": "x"}, advance)

    page = services.thread_history(thread)
    assert [step.nodes for step in page.steps] == [("w", "v"), ("a",), (), ()]
    assert [change.node for change in page.steps[0].changes] == ["w"]
    registry.unregister("made")
    assert services.thread_history(thread).steps[0].nodes == ()
    made(graph)


def test_thread_history_of_step_with_many_tasks_is_truncated_and_marked(
    advance: Advance, made: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "TASKS", 5)
    graph = (
        StateGraph(State).add_node("a", lambda state: {}).add_node("w", lambda s: {"log": ["w"]})
    )
    graph.add_edge(START, "a").add_edge("w", END)
    graph.add_conditional_edges("a", lambda state: [Send("w", {}) for _ in range(20)], ["w"])
    page = services.thread_history(ran(made(graph), {"text": "x"}, advance))

    assert len(page.steps[0].changes) == 5
    assert [step.more for step in page.steps] == [True, True, True, False]


def test_thread_history_with_damaged_checkpoint_lists_writes_of_other_steps(
    advance: Advance,
) -> None:
    thread = ran("steps", {"log": []}, advance)
    newest = Checkpoint.objects.order_by("-checkpoint_id").values_list("pk", flat=True)
    Checkpoint.objects.filter(pk=newest[2]).update(digest="0" * 32)

    steps = services.thread_history(thread).steps

    assert [len(step.changes) for step in steps[:5]] == [1, 1, 1, 1, 1]
    assert (steps[2].changes[0].key, steps[2].changes[0].cut) == ("", True)


@pytest.mark.promise("P18")
def test_thread_history_without_view_interrupt_permission_contains_no_decisions(
    advance: Advance, user: Callable[..., User]
) -> None:
    pending = asked("approval", {"text": "x"}, advance)
    services.decide(pending.pk, "approve")
    thread = pending.thread.thread_id

    with pytest.raises(ThreadNotFound):
        services.thread_history(thread, by=user("nobody", "view_thread_state"))
    with pytest.raises(ThreadNotFound):
        services.thread_history(thread, by=user("nobody at all"))
    with pytest.raises(ThreadNotFound):
        services.thread_history("absent")
    with pytest.raises(NotAllowedError):
        services.thread_history(thread, by=user("vera", "view_thread"))
    blind = user("tom", "view_thread", "view_thread_state")
    assert not services.thread_history(thread, by=blind).steps[0].decisions
    seeing = user("ida", "view_thread", "view_thread_state", "view_interrupt")
    assert services.thread_history(thread, by=seeing).steps[0].decisions


@pytest.mark.parametrize("before", ["", "nonsense", "z" * 300])
def test_thread_history_with_invalid_cursor_returns_empty_or_first_page(
    advance: Advance, before: str
) -> None:
    thread = ran("steps", {"log": []}, advance)
    assert len(services.thread_history(thread, before=before).steps) in (0, 7)
