"""Copying, pruning and deleting history: behaviour of all savers and of DjangoSaver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, TypedDict

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import CaptureQueriesContext

from hitl_django.checkpoints import DjangoSaver, maintenance
from hitl_django.engine.constants import END, START
from hitl_django.engine.errors import CorruptPayloadError, ThreadNotFound
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.task.node_api import interrupt
from hitl_django.engine.types import Command, Send
from hitl_django.errors import RunStateError
from hitl_django.models import ChannelBlob, Checkpoint, Interrupt, PendingWrite, Run, Thread

from .test_conformance import TASK, checkpoint, place

SAVERS = {"memory": InMemorySaver, "django": DjangoSaver}


@pytest.fixture(params=["memory", pytest.param("django", marks=pytest.mark.django_db)])
def saver(request: pytest.FixtureRequest) -> BaseCheckpointSaver:
    return SAVERS[request.param]()


def chain(saver: Any, count: int, where: Any = None, **metadata: Any) -> list[Any]:
    """Store checkpoints with a changing and a constant channel, and return their configs."""
    config, configs = where or place(), []
    for number in range(1, count + 1):
        stored = checkpoint({"a": [number], "still": [1]}, {"a": number, "still": 1})
        new = {"a": number} | ({"still": 1} if number == 1 else {})
        config = saver.put(config, stored, {"source": "loop", "step": number, **metadata}, new)
        configs.append(config)
    return configs


def steps(saver: Any, where: Any) -> list[int]:
    return [one.metadata["step"] for one in saver.list(where)]


class State(TypedDict, total=False):
    log: Annotated[list[Any], lambda old, new: old + new]


def asking(state: Any) -> Any:
    return {"log": [interrupt("go on?")]}


def nested(*, stateful: bool) -> Any:
    """A graph whose second node is a graph that asks."""
    below = StateGraph(State).add_node("plain", lambda state: {"log": ["plain"]})
    below.add_node("ask", asking).add_edge(START, "plain").add_edge("plain", "ask")
    below.add_edge("ask", END)
    above = StateGraph(State).add_node("first", lambda state: {"log": ["first"]})
    above.add_node("below", below.compile(checkpointer=True if stateful else None))
    above.add_node("last", lambda state: {"log": ["last"]})
    above.add_edge(START, "first").add_edge("first", "below").add_edge("below", "last")
    return above.add_edge("last", END)


# Pruning.


def test_prune_leaves_newest_checkpoint_with_its_values_and_writes(
    saver: BaseCheckpointSaver,
) -> None:
    newest = chain(saver, 4)[-1]
    saver.put_writes(newest, [("a", "next")], TASK)
    before = saver.get_tuple(newest)
    saver.prune(["t"])
    assert steps(saver, place()) == [4]
    after = saver.get_tuple(place())
    assert after == before._replace(parent_config=None)
    assert after.checkpoint["channel_values"] == {"a": [4], "still": [1]}


def test_pruned_thread_with_pending_interrupt_resumes_and_adds_history(
    saver: BaseCheckpointSaver,
) -> None:
    graph = nested(stateful=False).compile(checkpointer=saver)
    graph.invoke({"log": ["in"]}, place())
    saver.prune(["t"])
    seen = graph.get_state(place())
    assert seen.next == ("below",)
    assert [one.value for one in seen.interrupts] == ["go on?"]
    graph.invoke(Command(resume="yes"), place())
    assert graph.get_state(place()).values["log"][-2:] == ["yes", "last"]
    assert len(list(graph.get_state_history(place()))) == 3


@pytest.mark.parametrize("stateful", [False, True], ids=["called anew", "with its own history"])
@pytest.mark.promise("P4")
def test_prune_preserves_pending_interrupt_of_subgraph(
    saver: BaseCheckpointSaver, stateful: bool
) -> None:
    graph = nested(stateful=stateful).compile(checkpointer=saver)
    other = place("other")
    for config in (place(), other):
        graph.invoke({"log": ["in"]}, config)
    saver.prune(["t"])
    done = [graph.invoke(Command(resume="yes"), config) for config in (place(), other)]
    assert done[0] == done[1]


def test_prune_preserves_pending_interrupts_of_five_sends(saver: BaseCheckpointSaver) -> None:
    graph = StateGraph(State).add_node("ask", lambda item: {"log": [interrupt(item)]})
    graph.add_conditional_edges(START, lambda state: [Send("ask", n) for n in range(5)], ["ask"])
    compiled = graph.compile(checkpointer=saver)
    asked = compiled.invoke({"log": []}, place())["__interrupt__"]
    saver.prune(["t"])
    answers = {one.id: f"to {one.value}" for one in asked}
    assert compiled.invoke(Command(resume=answers), place())["log"] == [f"to {n}" for n in range(5)]


def namespaces(saver: Any, thread: str = "t") -> set[str]:
    found = saver.list({"configurable": {"thread_id": thread}})
    return {one.config["configurable"]["checkpoint_ns"].partition(":")[0] for one in found}


@pytest.mark.parametrize(("stateful", "left"), [(False, {""}), (True, {"", "below"})])
def test_prune_removes_namespace_of_finished_subgraph_unless_subgraph_has_persistent_history(
    saver: BaseCheckpointSaver, stateful: bool, left: set[str]
) -> None:
    graph = nested(stateful=stateful).compile(checkpointer=saver)
    graph.invoke({"log": ["in"]}, place())
    graph.invoke(Command(resume="yes"), place())
    assert namespaces(saver) == {"", "below"}
    saver.prune(["t"])
    assert namespaces(saver) == left


def test_prune_changes_only_the_named_threads(saver: BaseCheckpointSaver) -> None:
    chain(saver, 2)
    chain(saver, 2, place("other"))
    saver.prune(["t", "nobody", "t"])
    assert (steps(saver, place()), steps(saver, place("other"))) == ([2], [2, 1])
    saver.prune([])
    assert steps(saver, place("other")) == [2, 1]


def test_prune_with_strategy_delete_removes_all_checkpoints_of_the_thread(
    saver: BaseCheckpointSaver,
) -> None:
    chain(saver, 2)
    chain(saver, 2, place("other"))
    saver.prune(["t"], strategy="delete")
    assert saver.get_tuple(place()) is None
    assert steps(saver, place("other")) == [2, 1]


def test_prune_with_unknown_strategy_or_string_as_threads_raises_value_or_type_error(
    saver: BaseCheckpointSaver,
) -> None:
    chain(saver, 2)
    with pytest.raises(ValueError, match="keep_all"):
        saver.prune(["t"], strategy="keep_all")
    with pytest.raises(TypeError, match="sequence"):
        saver.prune("t")
    assert steps(saver, place()) == [2, 1]


# Copying.


def test_copied_thread_contains_full_history_and_resumes_independently(
    saver: BaseCheckpointSaver,
) -> None:
    graph = nested(stateful=False).compile(checkpointer=saver)
    graph.invoke({"log": ["in"]}, place())
    whole = [one._replace(config=None, parent_config=None) for one in saver.list(place())]
    saver.copy_thread("t", "copy")
    copied = [one._replace(config=None, parent_config=None) for one in saver.list(place("copy"))]
    assert copied == whole
    assert namespaces(saver, "copy") == {"", "below"}

    answers = {"t": "yes", "copy": "no"}
    for thread, answer in answers.items():
        graph.invoke(Command(resume=answer), place(thread))
    for thread, answer in answers.items():
        assert graph.get_state(place(thread)).values["log"][-2:] == [answer, "last"]


def test_copy_thread_of_unknown_thread_raises_thread_not_found(saver: BaseCheckpointSaver) -> None:
    chain(saver, 1, place("other"))
    with pytest.raises(ThreadNotFound):
        saver.copy_thread("nobody", "copy")
    assert saver.get_tuple(place("copy")) is None


def test_copy_thread_into_existing_thread_raises_value_error(saver: BaseCheckpointSaver) -> None:
    chain(saver, 1)
    chain(saver, 2, place("other"))
    with pytest.raises(ValueError, match="other"):
        saver.copy_thread("t", "other")
    assert steps(saver, place("other")) == [2, 1]


def test_saver_list_over_copied_threads_returns_each_checkpoint_once(
    saver: BaseCheckpointSaver,
) -> None:
    # Copies have the same checkpoint ids, and a page may end between two of them.
    chain(saver, 120)
    for target in ("one", "two"):
        saver.copy_thread("t", target)
    found = [tuple(one.config["configurable"].values()) for one in saver.list(None)]
    assert len(found) == len(set(found)) == 360


# Deleting checkpoints of runs.


def test_delete_for_runs_leaves_checkpoints_of_later_runs_with_their_values(
    saver: BaseCheckpointSaver,
) -> None:
    first = chain(saver, 2, run_id="one")
    saver.put_writes(first[-1], [("a", 1)], TASK)
    later = checkpoint({"a": 3, "still": [1]}, {"a": 3, "still": 1})
    last = saver.put(first[-1], later, {"source": "loop", "step": 3, "run_id": "two"}, {"a": 3})
    chain(saver, 1, place("other"), run_id="one")
    chain(saver, 1, place("other", "below"), run_id="one")

    saver.delete_for_runs(["one", "unknown"])

    assert saver.get_tuple(first[-1]) is None
    assert saver.get_tuple(last).checkpoint["channel_values"] == {"a": 3, "still": [1]}
    assert saver.get_tuple(last).parent_config is None
    assert steps(saver, None) == [3]
    saver.delete_for_runs([])
    assert steps(saver, None) == [3]


def test_delete_for_runs_ignores_run_ids_in_other_metadata_keys(saver: BaseCheckpointSaver) -> None:
    chain(saver, 1, run_id="one", about="another")
    saver.delete_for_runs(["another"])
    assert steps(saver, place()) == [1]


def test_async_saver_methods_copy_and_delete_checkpoints_like_sync_methods(
    saver: BaseCheckpointSaver,
) -> None:
    async def use() -> tuple[Any, ...]:
        stored = checkpoint({"a": 1}, {"a": 1})
        config = await saver.aput(place(), stored, {"step": 1, "run_id": "one"}, {"a": 1})
        await saver.aput_writes(config, [("a", 2)], TASK)
        await saver.acopy_thread("t", "copy")
        await saver.adelete_for_runs(["nobody"])
        await saver.aprune(["t"], strategy="delete")
        copied = await saver.aget_tuple(place("copy"))
        return await saver.aget(place()), copied.checkpoint, copied.pending_writes, stored

    gone, copied, writes, stored = async_to_sync(use)()
    assert (gone, copied, writes) == (None, stored, [(TASK, "a", 2)])


# Behaviour of the database.


def counts() -> list[int]:
    return [model.objects.count() for model in (Checkpoint, PendingWrite, ChannelBlob)]


@pytest.mark.django_db
def test_prune_leaves_no_unreferenced_value_or_write_rows() -> None:
    saver = DjangoSaver()
    for config in chain(saver, 5):
        saver.put_writes(config, [("a", 1)], TASK)
    assert counts() == [5, 5, 6]
    saver.prune(["t"])
    assert counts() == [1, 1, 2]
    saver.prune(["t"], strategy="delete")
    assert counts() == [0, 0, 0]
    assert not Thread.objects.exists()


@pytest.mark.django_db
def test_prune_takes_same_number_of_queries_for_short_and_long_threads() -> None:
    said = []
    for length in (3, 30):
        saver = DjangoSaver()
        chain(saver, length, place(f"of {length}"))
        with CaptureQueriesContext(connection) as queries:
            saver.prune([f"of {length}"])
        said.append(len(queries))
    assert said[0] == said[1]


@pytest.mark.django_db
def test_prune_deletes_rows_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "BATCH", 4)
    saver = DjangoSaver()
    for config in chain(saver, 10):
        saver.put_writes(config, [("a", 1)], TASK)
    with CaptureQueriesContext(connection) as queries:
        saver.prune(["t"])
    deletes = [query["sql"] for query in queries if query["sql"].startswith("DELETE")]
    assert len(deletes) == 9
    assert counts() == [1, 1, 2]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["prune", "delete_for_runs"])
def test_process_killed_during_prune_or_delete_for_runs_leaves_all_rows(how: str) -> None:
    saver = DjangoSaver()
    for config in chain(saver, 5, run_id="r"):
        saver.put_writes(config, [("a", 1)], TASK)
    delete = partial(saver.prune, ["t"]) if how == "prune" else partial(saver.delete_for_runs, "r")
    before = counts()
    for table in ("checkpoint", "pendingwrite", "channelblob"):
        with kill_at(f'DELETE FROM "hitl_django_{table}"'), pytest.raises(KeyboardInterrupt):
            delete()
        assert counts() == before
    delete()
    assert counts() == ([1, 1, 2] if how == "prune" else [0, 0, 0])


@contextmanager
def kill_at(statement: str) -> Iterator[None]:
    """Raise KeyboardInterrupt after the first statement with this prefix."""

    def execute(run: Any, sql: str, *rest: Any) -> Any:
        result = run(sql, *rest)
        if sql.startswith(statement):
            raise KeyboardInterrupt
        return result

    with connection.execute_wrapper(execute):
        yield


@pytest.mark.django_db
@pytest.mark.parametrize("state", Run.NOT_ENDED)
def test_prune_with_strategy_delete_and_delete_for_runs_of_active_run_raise_run_state_error(
    state: str,
) -> None:
    saver = DjangoSaver()
    run = Run(graph="approval", state=state)
    chain(saver, 2, run_id=str(run.pk))
    run.thread = Thread.objects.get()
    run.save()
    chain(saver, 1, place("other"))
    for call in (
        lambda: saver.prune(["other", "t"], strategy="delete"),
        lambda: saver.delete_for_runs([str(run.pk)]),
    ):
        with pytest.raises(RunStateError):
            call()
    assert counts()[0] == 3
    saver.prune(["t"])
    assert steps(saver, place()) == [2]


@pytest.mark.django_db
@pytest.mark.parametrize("state", sorted({*Run.State.values} - {*Run.NOT_ENDED}))
def test_prune_with_strategy_delete_and_delete_for_runs_ignore_active_runs_of_other_threads(
    state: str,
) -> None:
    saver = DjangoSaver()
    runs = {"t": Run(graph="x", state=state), "other": Run(graph="x", state=Run.State.RUNNING)}
    for name, run in runs.items():
        chain(saver, 2, place(name), run_id=str(run.pk))
        run.thread = Thread.objects.get(thread_id=name)
        run.save()
    saver.delete_for_runs([str(runs["t"].pk)])
    assert (steps(saver, place()), steps(saver, place("other"))) == ([], [2, 1])
    chain(saver, 2)
    saver.prune(["t"], strategy="delete")
    assert (steps(saver, place()), steps(saver, place("other"))) == ([], [2, 1])


@pytest.mark.django_db
def test_delete_for_runs_leaves_checkpoints_of_copied_thread() -> None:
    saver = DjangoSaver()
    run = Run(graph="approval", state=Run.State.SUCCEEDED)
    chain(saver, 2, run_id=str(run.pk))
    run.thread = Thread.objects.get()
    run.save()
    saver.copy_thread("t", "copy")
    saver.delete_for_runs([str(run.pk)])
    assert (steps(saver, place()), steps(saver, place("copy"))) == ([], [2, 1])


@pytest.mark.django_db
def test_maintenance_lock_locks_only_the_selected_threads() -> None:
    saver = DjangoSaver()
    for name in ("t", "other", "another"):
        chain(saver, 1, place(name))
    key = dict(Thread.objects.values_list("thread_id", "pk"))
    locked = maintenance._lock("default", thread_id__in=["t", "other"])
    assert locked == {"t": key["t"], "other": key["other"]}
    assert maintenance._lock("default", pk=key["t"]) == {"t": key["t"]}


@pytest.mark.django_db
@pytest.mark.parametrize(
    "delete",
    [
        lambda saver, run: saver.prune(["t"], strategy="delete"),
        lambda saver, run: saver.delete_for_runs([str(run.pk)]),
    ],
    ids=["prune", "delete_for_runs"],
)
def test_delete_of_thread_whose_run_is_retried_just_before_the_lock_raises_run_state_error(
    delete: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = DjangoSaver()
    run = Run(graph="approval", state=Run.State.FAILED)
    chain(saver, 2, run_id=str(run.pk))
    run.thread = Thread.objects.get()
    run.save()
    lock = maintenance._lock

    def retried_first(*args: Any, **which: Any) -> Any:
        Run.objects.update(state=Run.State.QUEUED)
        return lock(*args, **which)

    monkeypatch.setattr(maintenance, "_lock", retried_first)
    with pytest.raises(RunStateError, match="it was kept"):
        delete(saver, run)
    assert steps(saver, place()) == [2, 1]


def ask(thread: str, checkpoint_id: str) -> Interrupt:
    """Make a run of a thread interrupt at a checkpoint."""
    row = Thread.objects.get(thread_id=thread)
    found = Run.objects.filter(thread=row).first()
    run = found or Run.objects.create(graph="approval", thread=row, state=Run.State.INTERRUPTED)
    return Interrupt.objects.create(
        thread=row,
        run=run,
        interrupt_id=checkpoint_id[-32:],
        graph="approval",
        node="ask",
        checkpoint_id=checkpoint_id,
        task_id=TASK,
        title="?",
        payload="?",
        payload_digest="",
    )


@pytest.mark.django_db
def test_prune_leaves_checkpoint_of_pending_interrupt_until_decision() -> None:
    saver = DjangoSaver()
    configs = chain(saver, 3)
    asked = ask("t", configs[0]["configurable"]["checkpoint_id"])
    saver.prune(["t"])
    assert steps(saver, place()) == [3, 1]
    Interrupt.objects.filter(pk=asked.pk).update(status=Interrupt.Status.DECIDED)
    saver.prune(["t"])
    assert steps(saver, place()) == [3]


@pytest.mark.django_db
def test_prune_leaves_parent_reference_between_remaining_checkpoints() -> None:
    saver = DjangoSaver()
    configs = chain(saver, 3)
    ask("t", configs[1]["configurable"]["checkpoint_id"])
    saver.prune(["t"])
    newest, asked_at = saver.list(place())
    assert newest.parent_config == configs[1]
    assert asked_at.parent_config is None


@pytest.mark.django_db
def test_prune_leaves_subgraph_checkpoint_without_root_checkpoint() -> None:
    saver = DjangoSaver()
    chain(saver, 1)
    [called_from] = chain(saver, 1, place(ns="another"))
    parents = {"": called_from["configurable"]["checkpoint_id"]}
    chain(saver, 2, place(ns="below:1"), parents=parents)
    saver.prune(["t"])
    assert steps(saver, place(ns="below:1")) == [2]


@pytest.mark.django_db
def test_prune_leaves_checkpoint_of_pending_interrupt_only_in_the_thread_of_the_interrupt() -> None:
    saver = DjangoSaver()
    configs = chain(saver, 3)
    saver.copy_thread("t", "copy")
    ask("copy", configs[0]["configurable"]["checkpoint_id"])
    ask("t", "00000000-0000-6000-8000-000000000000")
    saver.prune(["t"])
    assert (steps(saver, place()), steps(saver, place("copy"))) == ([3], [3, 2, 1])
    saver.prune(["copy"])
    assert steps(saver, place("copy")) == [3, 1]


@pytest.mark.django_db
@pytest.mark.promise("P14")
def test_prune_of_damaged_checkpoint_raises_corrupt_payload_error_and_deletes_no_rows() -> None:
    saver = DjangoSaver()
    chain(saver, 2)
    newest = Checkpoint.objects.order_by("-checkpoint_id").first()
    Checkpoint.objects.filter(pk=newest.pk).update(data=bytes(newest.data) + b"\x00")
    with pytest.raises(CorruptPayloadError):
        saver.prune(["t"])
    assert counts()[0] == 2
