"""Isolation of stored data between threads, namespaces and checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from django.db import transaction

from hitl_django import services
from hitl_django.checkpoints import DjangoSaver, ThreadKey, queries, thread_position, value_deltas
from hitl_django.checkpoints import django_saver as module
from hitl_django.checkpoints.codec import unpack
from hitl_django.checkpoints.commit_rows import ANSWERS, KEYED_ANSWERS
from hitl_django.checkpoints.inline_writes import MAX_BYTES
from hitl_django.engine.constants import ERROR, KEYED, PULL, PUSH, RESUME
from hitl_django.engine.savers.checkpoint import Commit, TaskWrites
from hitl_django.models import ChannelBlob, Interrupt, Run, Thread
from hitl_django.services.runs import history as histories

from .test_conformance import OTHER, TASK, checkpoint, place

pytestmark = pytest.mark.django_db

Where = tuple[str, str]  # thread and namespace
PLACES: list[Where] = [(thread, ns) for thread in ("one", "two") for ns in ("", "below:1")]
IDS = [f"1f000000-0000-6000-8000-{number:012}" for number in range(20)]
BRANCH = 2  # where another branch begins


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_deltas, "MIN_BYTES", 20)
    monkeypatch.setattr(value_deltas, "SEAL_INTERVAL", 3)


def build(where: Where) -> None:
    """Store a history with the same ids, tasks and versions in all namespaces."""
    thread, ns = where
    said, more = "/".join(where), PLACES.index(where)
    row, _ = Thread.objects.get_or_create(thread_id=thread)
    # The saver is bound to the thread, so it appends to lists although a transaction is open.
    saver, config = DjangoSaver(ThreadKey(row.pk, thread)), place(thread, ns)
    for number in range(6 + more):
        log = [f"{said} {at}" for at in range(number + 1)]
        stored = checkpoint({"log": log, "note": said}, {"log": number + 1, "note": 1})
        stored["id"] = IDS[number]
        tasks = [TaskWrites(TASK, f"~{PULL}, {said} {number}", [("note", said)])]
        metadata = {"source": "loop", "step": number, "said": said}
        saver.commit(Commit(config, tasks, stored, metadata, {"log": number + 1, "note": 1}))
        config = place(thread, ns, IDS[number if number != 4 else BRANCH])
    for number in range(6 + more):
        on = place(thread, ns, IDS[number])
        saver.put_writes(on, [("note", said)], OTHER, f"~{PULL}, {said} apart of {number}")
        for task in (TASK, OTHER):
            given = answers_to(where, number, task)
            saver.put_writes(on, [(ERROR, said), *given.items()], task, f"~{PULL}, {said}")


def answers_to(where: Where, number: int, task: str) -> dict[str, Any]:
    said = "/".join((*where, str(number), task))
    return {RESUME: [said], KEYED: {"key": f"{said} by key"}}


def alone(where: list[Where], read: Callable[..., Any], *of: str) -> Any:
    """Return the checkpoints that are read while nothing is stored concurrently."""
    with transaction.atomic():
        for one in where:
            build(one)
        found = read(*of)
        transaction.set_rollback(True)
    return found


def key(thread: str) -> int:
    return Thread.objects.get(thread_id=thread).pk


#: Reads of a thread and namespace, by a saver without caches.
OF_A_PLACE: dict[str, Callable[[str, str], Any]] = {
    "newest": lambda thread, ns: DjangoSaver().get_tuple(place(thread, ns)),
    "newest of a bound saver": lambda thread, ns: DjangoSaver(
        ThreadKey(key(thread), thread)
    ).get_tuple(place(thread, ns)),
    "each": lambda thread, ns: [DjangoSaver().get_tuple(place(thread, ns, at)) for at in IDS],
    "all": lambda thread, ns: list(DjangoSaver().list(place(thread, ns))),
    "a page": lambda thread, ns: list(
        DjangoSaver().list(place(thread, ns), before=place(checkpoint=IDS[4]), limit=2)
    ),
    "one that is listed": lambda thread, ns: list(DjangoSaver().list(place(thread, ns, IDS[2]))),
}


@pytest.mark.promise("P14")
@pytest.mark.parametrize("name", OF_A_PLACE)
@pytest.mark.parametrize("page", [1, 100])
def test_get_tuple_result_does_not_depend_on_other_threads_and_namespaces(
    name: str, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE_SIZE", page)
    read = OF_A_PLACE[name]
    expected = {where: alone([where], read, *where) for where in PLACES}
    for where in PLACES:
        build(where)
    assert {where: read(*where) for where in PLACES} == expected
    assert any(value_deltas.is_delta(bytes(row.data)) for row in ChannelBlob.objects.all())
    assert len({str(found) for found in expected.values()}) == len(PLACES)


@pytest.mark.promise("P4")
def test_responses_of_interrupt_exclude_responses_of_other_tasks() -> None:
    interrupts, expected = [], {}
    for where in PLACES:
        build(where)
    runs = {
        row.thread_id: Run.objects.create(graph="approval", thread=row)
        for row in Thread.objects.all()
    }
    for thread, ns in PLACES:
        run = runs[thread]
        for number, task, name in product((0, 3), (TASK, OTHER), (None, "key")):
            one = Interrupt(
                thread=run.thread, run=run, interrupt_id=f"{len(interrupts)}", graph="approval",
                node="ask", task_id=task, key=name, title="?", payload="?", payload_digest="",
                checkpoint_ns=ns, checkpoint_id=IDS[number],
            )  # fmt: skip
            interrupts.append(one)
            channel = RESUME if name is None else KEYED
            expected[one.pk] = [[channel, answers_to((thread, ns), number, task)[channel]]]
    Interrupt.objects.bulk_create(interrupts)
    found = Interrupt.objects.values_list("pk", *queries.answer_columns())
    assert {pk: unpack(data, stored, "answers") for pk, data, stored in found} == expected
    for one in interrupts:
        [row] = queries.CONTROL.run(
            "default",
            thread=one.thread_id,
            ns=one.checkpoint_ns,
            checkpoint_id=one.checkpoint_id,
            task_id=one.task_id,
            slot=ANSWERS if one.key is None else KEYED_ANSWERS,
        )
        assert unpack(*row, "answers") == expected[one.pk]


def history(thread: str) -> Any:
    page = services.thread_history(thread)
    return [replace(step, created_at=None) for step in page.steps]  # type: ignore[arg-type]


#: Reads of a thread's root graph.
OF_A_THREAD: dict[str, Callable[[str], Any]] = {
    "history": history,
    "line": lambda thread: thread_position.read_lineage("default", key(thread)),
    "head": lambda thread: thread_position.read_head("default", key(thread)),
    "finished": lambda thread: of_head(thread_position.read_finished_nodes, thread),
    "failed": lambda thread: of_head(thread_position.read_failed_nodes, thread, ()),
    "held": lambda thread: of_head(
        thread_position.read_stored_channels, thread, ["log", "note", "absent"]
    ),
}


def of_head(read: Callable[..., Any], thread: str, *more: Any) -> Any:
    head = thread_position.read_head("default", key(thread))
    assert head is not None
    return read("default", key(thread), head, *more)


@pytest.mark.parametrize("name", OF_A_THREAD)
def test_get_tuple_result_of_root_graph_does_not_depend_on_other_threads(name: str) -> None:
    read = OF_A_THREAD[name]
    threads = list(dict.fromkeys(thread for thread, _ in PLACES))
    expected = {thread: alone([(thread, "")], read, thread) for thread in threads}
    for where in PLACES:
        build(where)
    assert {thread: read(thread) for thread in threads} == expected
    if name != "held":
        assert len({str(found) for found in expected.values()}) == len(threads)


def test_finished_subgraph_nodes_exclude_nodes_of_other_threads() -> None:
    threads = list(dict.fromkeys(thread for thread, _ in PLACES))
    for where in PLACES:
        build(where)
    for thread in threads:
        found = of_head(thread_position.read_finished_in_subgraphs, thread)
        said = {name.rpartition(" apart of ")[0] or name.rpartition(" ")[0] for _, name in found}
        assert {ns for ns, _ in found} == {"below:1"}
        assert said == {f"{thread}/below:1"}


def test_saver_list_of_all_threads_returns_each_checkpoint_once_across_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for where in reversed(PLACES):  # in another order than the list
        build(where)

    def listed(config: Any, **which: Any) -> list[tuple[str, ...]]:
        found = DjangoSaver().list(config, **which)
        return [tuple(one.config["configurable"].values()) for one in found]

    everything = {
        (*where, IDS[number]) for at, where in enumerate(PLACES) for number in range(6 + at)
    }
    of_two = {"configurable": {"thread_id": "two"}}
    for page in (1, 2, 3, 100):
        monkeypatch.setattr(module, "PAGE_SIZE", page)
        found = listed(None)
        assert len(found) == len(everything)
        assert set(found) == everything
        assert [row[2] for row in found] == sorted((row[2] for row in found), reverse=True)
        assert set(listed(of_two)) == {row for row in everything if row[0] == "two"}
        earlier = listed(None, before=place(checkpoint=IDS[3]))
        assert len(earlier) == 3 * len(PLACES)
        assert set(earlier) == {row for row in everything if row[2] < IDS[3]}


# Columns about a thread in the rows next to the values.


def put(number: int, on: int | None, tasks: list[TaskWrites], ns: str = "") -> Any:
    """Store a checkpoint, and the writes that led from the parent to it."""
    stored = checkpoint({"note": number}, {"note": number + 1})
    stored["id"], stored["versions_seen"] = IDS[number], {}
    parent = place("one", ns, None if on is None else IDS[on])
    metadata = {"source": "loop", "step": number}
    DjangoSaver().commit(Commit(parent, tasks, stored, metadata, {"note": number + 1}))
    return place("one", ns, stored["id"])


def ended(name: str, *, much: bool = False, sent: bool = False) -> TaskWrites:
    value = "x" * MAX_BYTES if much else "x"
    return TaskWrites(f"task of {name}", f"~{PUSH if sent else PULL}, {name}", [("note", value)])


@pytest.mark.parametrize("much", [False, True])
def test_finished_nodes_exclude_nodes_of_abandoned_branch(much: bool) -> None:
    put(0, None, [])
    put(1, 0, [ended("first", much=much)])
    put(2, 1, [ended("left", much=much)])
    put(3, 1, [ended("chosen", much=much)])
    # That checkpoint has one more child. Its pending writes stay with it.
    assert of_head(thread_position.read_finished_nodes, "one") >= {"first", "chosen"}
    put(4, 2, [ended("on the line that was left", much=much)])
    put(5, 3, [ended("last", much=much)])
    found = of_head(thread_position.read_finished_nodes, "one")
    assert found >= {"first", "chosen", "last"}
    assert "on the line that was left" not in found


def test_failed_nodes_exclude_failures_before_the_newest_checkpoint() -> None:
    first = put(0, None, [])
    DjangoSaver().put_writes(first, [(ERROR, "no")], TASK, f"~{PULL}, earlier")
    newest = put(1, 0, [])
    DjangoSaver().put_writes(newest, [(ERROR, "no")], TASK, f"~{PULL}, now")
    DjangoSaver().put_writes(newest, [(RESUME, ["yes"])], OTHER, f"~{PULL}, answered")
    assert of_head(thread_position.read_failed_nodes, "one", ()) == {"now"}


def test_emptied_channel_is_read_as_empty_although_other_threads_store_a_value() -> None:
    versions = {"kept": 1, "emptied": 2}
    for thread, ns in [("two", ""), ("one", "below:1"), ("one", "")]:
        values = {name: ["x"] for name in versions}
        if (thread, ns) == ("one", ""):
            del values["emptied"]
        stored = checkpoint(values, versions)
        DjangoSaver().put(place(thread, ns), stored, {"source": "loop", "step": 1}, versions)
    for thread, held in [("one", {"kept"}), ("two", {"kept", "emptied"})]:
        assert of_head(thread_position.read_stored_channels, thread, [*versions, "absent"]) == held


@pytest.mark.parametrize("much", [False, True])
def test_finished_subgraph_nodes_are_read_from_at_most_max_steps_checkpoints(
    much: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_position, "MAX_STEPS", 2)
    put(0, None, [])
    put(1, None, [], "below:1")
    put(2, 1, [ended("early", much=much)], "below:1")
    put(3, 0, [])
    put(4, None, [], "below:2")
    put(5, 4, [ended("late", much=much), ended("sent", much=much, sent=True)], "below:2")
    put(6, 3, [])
    assert of_head(thread_position.read_finished_in_subgraphs, "one") == {("below:2", "late")}


def test_thread_history_page_lists_only_nodes_of_the_listed_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(6):
        before = number - 1 if number else None
        put(number, before, [ended(f"node {number}", much=True)] if number else [])
    monkeypatch.setattr(histories, "TASKS", 2)
    page = services.thread_history("one", before=IDS[3], limit=2)
    assert [step.nodes for step in page.steps] == [("node 2",), ("node 1",)]
    # If there are too many tasks, those of the newest steps are returned.
    steps = services.thread_history("one").steps
    assert [step.nodes for step in steps] == [("node 5",), ("node 4",), (), (), (), ()]
    assert [step.more for step in steps] == [False, True, True, True, True, False]


def test_thread_history_omits_task_error_from_changes_of_a_step() -> None:
    first = put(0, None, [])
    DjangoSaver().put_writes(first, [(ERROR, "x" * 70_000)], TASK, f"~{PULL}, failed at first")
    put(1, 0, [ended("done", much=True)])
    step, _ = services.thread_history("one").steps
    assert step.nodes == ("done",)
    assert [change.key for change in step.changes] == ["note"]


def test_pending_writes_are_read_from_child_checkpoint_with_the_lowest_id() -> None:
    put(0, None, [])
    first = put(1, 0, [])
    put(2, 0, [])
    for number in (9, 5, 7):
        put(number, 1, [TaskWrites(TASK, f"~{PULL}, node", [("note", number)])])
    found = DjangoSaver().get_tuple(first)
    assert found is not None
    assert found.pending_writes == [(TASK, "note", 5)]


def test_finished_subgraph_nodes_include_node_that_ran_once_after_many_steps_of_another_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thread_position, "MAX_SUBGRAPH_NODES", 2)
    put(0, None, [])
    for number in range(1, 6):
        before = number - 1 if number > 1 else None
        put(number, before, [ended("often" if number < 5 else "once", much=True)], "below:1")
    put(6, 0, [])
    assert of_head(thread_position.read_finished_in_subgraphs, "one") == {
        ("below:1", "often"),
        ("below:1", "once"),
    }
