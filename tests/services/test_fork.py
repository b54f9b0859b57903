"""fork: continuation from an earlier checkpoint of a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Now
from django.db.models.signals import post_init

from hitl_django import audit, leases, run_leases, services
from hitl_django.checkpoints import DjangoSaver, digest_value
from hitl_django.engine import ids
from hitl_django.engine.constants import END
from hitl_django.engine.errors import GraphChangedError, InvalidInputError, ThreadNotFound
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.errors import (
    AlreadyDecidedError,
    CheckpointNotFound,
    LeaseLostError,
    NotAllowedError,
    RunStateError,
)
from hitl_django.graph_registry import registry
from hitl_django.models import AuditEntry, Checkpoint, Interrupt, Run, Thread
from tests import graphs
from tests.services.conftest import asked

pytestmark = pytest.mark.django_db

Advance = Callable[[], int]
Unchanged = Callable[..., None]


def after(thread_id: str, step: int) -> str:
    found = Checkpoint.objects.filter(thread__thread_id=thread_id, ns="", step=step)
    return found.order_by("-checkpoint_id")[0].checkpoint_id


def log_of(thread_id: str) -> list[str]:
    graph = registry.get_graph("steps").graph.with_saver(DjangoSaver())
    return graph.get_state({"configurable": {"thread_id": thread_id}}).values["log"]


def ran(advance: Advance) -> str:
    info = services.start("steps", {"log": []})
    advance()
    return info.thread_id


@pytest.fixture
def failing() -> Iterator[None]:
    graphs.FAILING.add("yes")
    yield
    graphs.FAILING.clear()


def test_fork_continues_run_from_the_given_checkpoint(advance: Advance) -> None:
    thread = ran(advance)
    assert log_of(thread) == ["a", "b", "c", "d", "e"]

    info = services.fork(thread, after(thread, 3))
    assert (info.state, info.created, info.thread_id) == ("queued", True, thread)
    assert log_of(thread) == ["a", "b", "c"]
    advance()

    assert log_of(thread) == ["a", "b", "c", "d", "e"]
    assert Run.objects.get(pk=info.id).state == "succeeded"
    assert Run.objects.filter(thread__thread_id=thread).count() == 2


def test_fork_preserves_checkpoints_of_the_abandoned_branch(advance: Advance) -> None:
    thread = ran(advance)
    before = set(Checkpoint.objects.values_list("checkpoint_id", flat=True))

    services.fork(thread, after(thread, 2))
    advance()

    assert before < set(Checkpoint.objects.values_list("checkpoint_id", flat=True))
    fork = Checkpoint.objects.get(source="fork")
    assert fork.parent_id == Checkpoint.objects.get(checkpoint_id=after(thread, 1)).checkpoint_id


def test_fork_with_values_and_as_node_replaces_output_of_that_node(advance: Advance) -> None:
    thread = ran(advance)

    services.fork(thread, after(thread, 2), values={"log": ["instead of c"]}, as_node="c")
    advance()

    assert log_of(thread) == ["a", "b", "instead of c", "d", "e"]


def test_fork_with_values_without_as_node_adds_output_of_the_last_node(advance: Advance) -> None:
    thread = ran(advance)

    services.fork(thread, after(thread, 2), values={"log": ["more of b"]})
    advance()

    assert log_of(thread) == ["a", "b", "more of b", "c", "d", "e"]


def test_fork_with_as_node_without_values_skips_that_node(advance: Advance) -> None:
    thread = ran(advance)

    services.fork(thread, after(thread, 2), as_node="c")
    advance()

    assert log_of(thread) == ["a", "b", "d", "e"]


def test_fork_as_end_supersedes_pending_interrupts_and_run_ends(advance: Advance) -> None:
    thread = asked("approval", {"text": "x"}, advance).thread.thread_id

    forked = services.fork(thread, None, as_node=END)
    advance()

    assert Run.objects.get(pk=forked.id).state == Run.State.SUCCEEDED
    state = services.thread_state(thread)
    assert state is not None
    assert state.next == ()
    assert Interrupt.objects.get().status == Interrupt.Status.SUPERSEDED


def test_fork_supersedes_pending_interrupts_and_new_run_interrupts_again(advance: Advance) -> None:
    old = asked("panel", {"log": []}, advance)
    services.decide(old.pk, "respond", "first")
    advance()
    run = old.run_id

    info = services.fork(old.thread.thread_id, after(old.thread.thread_id, 0))

    assert Run.objects.get(pk=run).state == "cancelled"
    assert sorted(Interrupt.objects.values_list("status", flat=True)) == ["decided", "superseded"]
    left = Interrupt.objects.get(status="superseded")
    with pytest.raises(AlreadyDecidedError, match="superseded"):
        services.decide(left.pk, "approve")
    advance()
    new = Interrupt.objects.filter(run=info.id, status="pending")
    assert sorted(new.values_list("node", flat=True)) == ["left", "right"]
    for interrupt in new:
        services.decide(interrupt.pk, "respond", "again")
    advance()
    assert Run.objects.get(pk=info.id).state == "succeeded"


def test_fork_before_subgraph_runs_subgraph_again_in_new_namespace(advance: Advance) -> None:
    interrupt = asked("booking", {"log": []}, advance)
    thread = interrupt.thread.thread_id
    services.fork(thread, after(thread, 0))
    advance()

    new = Interrupt.objects.get(status="pending")
    assert (new.node, new.title) == ("ask", interrupt.title)
    assert new.checkpoint_ns != interrupt.checkpoint_ns


@pytest.mark.promise("P20")
def test_fork_writes_audit_entry_with_user_checkpoint_and_values_digest(
    advance: Advance, user: Callable[..., User]
) -> None:
    interrupt = asked("approval", {"text": "x"}, advance)
    operator = user("otto", "view_thread", "view_run", "operate_run")
    thread = interrupt.thread.thread_id

    info = services.fork(
        thread, at := after(thread, 0), values={"text": "y"}, by=operator, via="admin"
    )

    entry = AuditEntry.objects.get(verb="fork")
    assert (entry.actor, entry.via, entry.subject) == (operator, "admin", str(info.id))
    told = entry.detail
    assert (told["checkpoint"], told["replaced"]) == (at, str(interrupt.run_id))
    assert (told["from"], told["interrupts"]) == ("interrupted", [str(interrupt.pk)])
    assert told["values"] == digest_value({"text": "y"})  # and not what they are
    assert audit.find_first_fault(Thread.objects.get()) is None
    run = Run.objects.get(pk=info.id)
    assert (run.started_by, run.started_by_label) == (operator, "otto")

    services.fork(thread, after(thread, 0), by=operator)
    assert AuditEntry.objects.filter(verb="fork").latest("pk").detail["values"] is None


@pytest.mark.parametrize("state", Run.State.values)
def test_fork_cancels_active_run_and_leaves_ended_run_unchanged(
    advance: Advance, unchanged: Unchanged, state: str
) -> None:
    thread = ran(advance)
    last = Run.objects.get()
    Run.objects.filter(pk=last.pk).update(state=state)

    info = services.fork(thread, after(thread, 1))

    last.refresh_from_db()
    assert last.state == ("cancelled" if state in Run.ACTIVE else state)
    assert Run.objects.get(pk=info.id).state == "queued"
    with pytest.raises(RunStateError):
        services.retry(last.pk)


@pytest.mark.promise("P7")
def test_fork_of_thread_leased_by_a_worker_raises_run_state_error(
    advance: Advance, unchanged: Unchanged
) -> None:
    thread = ran(advance)
    at = after(thread, 1)
    info = services.fork(thread, at)
    assert run_leases.claim(info.id) is not None
    unchanged()

    with pytest.raises(RunStateError, match="A worker is running this thread") as refused:
        services.fork(thread, at)

    assert refused.value.state == "running"
    unchanged()


@pytest.mark.promise("P7")
def test_fork_during_direct_call_of_the_graph_raises_run_state_error(
    advance: Advance, unchanged: Unchanged
) -> None:
    thread = ran(advance)
    graph = registry.get_graph("steps").graph.with_saver(DjangoSaver())
    stream = graph.stream({"log": []}, {"configurable": {"thread_id": thread}})
    next(stream)
    unchanged()
    with pytest.raises(RunStateError, match="A worker is running this thread"):
        services.fork(thread, after(thread, 1))
    unchanged()
    assert len(list(stream)) == 4  # the call succeeds


@pytest.mark.promise("P7")
def test_fork_after_lease_expired_invalidates_lease_of_the_old_worker(advance: Advance) -> None:
    thread = ran(advance)
    at = after(thread, 1)
    lease = run_leases.claim(services.fork(thread, at).id)
    assert lease is not None
    Thread.objects.update(lease_until=Now() - timedelta(seconds=1))

    info = services.fork(thread, at)

    with pytest.raises(LeaseLostError):
        run_leases.release(lease, ValueError("late"), to_park=False)
    advance()
    assert Run.objects.get(pk=info.id).state == "succeeded"
    assert Run.objects.get(pk=lease.run_id).state == "cancelled"


@pytest.mark.parametrize("from_other", ["00000000-0000-0000-0000-000000000000", "x" * 400, ""])
def test_fork_from_unknown_checkpoint_or_checkpoint_of_another_thread_raises_checkpoint_not_found(
    advance: Advance, unchanged: Unchanged, from_other: str
) -> None:
    thread, other = ran(advance), ran(advance)
    unchanged()
    with pytest.raises(CheckpointNotFound):
        services.fork(thread, from_other)
    with pytest.raises(CheckpointNotFound):
        services.fork(thread, after(other, 1))
    unchanged()


def test_fork_from_checkpoint_of_subgraph_raises_checkpoint_not_found(advance: Advance) -> None:
    interrupt = asked("booking", {"log": []}, advance)

    with pytest.raises(CheckpointNotFound):
        services.fork(interrupt.thread.thread_id, interrupt.checkpoint_id)


@pytest.mark.parametrize(
    ("values", "as_node", "field"),
    [
        ({"log": 3}, None, "$.log"),
        ({"unknown": 1}, None, "$.unknown"),
        ("text", None, "$"),
        ({"log": []}, "nobody", "as_node"),
        (None, "__copy__", "as_node"),
        (None, "__input__", "as_node"),
        ({"log": []}, "__end__", "as_node"),
    ],
)
def test_fork_with_invalid_values_raises_invalid_input_error_naming_field_and_changes_no_row(
    advance: Advance, unchanged: Unchanged, values: Any, as_node: str | None, field: str
) -> None:
    thread = ran(advance)
    unchanged()

    with pytest.raises(InvalidInputError) as refused:
        services.fork(thread, after(thread, 2), values=values, as_node=as_node)

    assert [place for place, _ in refused.value.faults] == [field]
    unchanged()


@pytest.mark.promise("P18")
def test_fork_without_permission_raises_not_found_or_not_allowed_error(
    advance: Advance, user: Callable[..., User], unchanged: Unchanged
) -> None:
    thread = ran(advance)
    at = after(thread, 1)
    unchanged()
    half = (user(f"of {one}", "operate_run", one) for one in ("view_run", "view_thread"))
    for blind in (user("nobody"), *half):
        with pytest.raises(ThreadNotFound):
            services.fork(thread, at, by=blind)
    with pytest.raises(ThreadNotFound):
        services.fork("absent", at)
    unchanged()
    viewer = user("vera", "view_thread", "view_run", "view_thread_state")
    with pytest.raises(NotAllowedError):
        services.fork(thread, at, by=viewer)
    unchanged(refused=1)


def test_fork_from_checkpoint_before_removed_node_raises_graph_changed_error(
    advance: Advance, unchanged: Unchanged
) -> None:
    thread = ran(advance)
    try:
        registry.unregister("steps")

        @registry.register("steps")
        def steps() -> StateGraph:
            graph = StateGraph(graphs.Log)
            for name in ("a", "b", "other"):
                graph.add_node(name, lambda state, name=name: {"log": [name]})
            graph.add_edge("__start__", "a").add_edge("a", "b").add_edge("b", "other")
            return graph

        unchanged()
        # The tasks that would run next were deleted ...
        with pytest.raises(GraphChangedError, match="node 'c' was removed"):
            services.fork(thread, after(thread, 2))
        unchanged()
        # ... but the run can continue from an earlier checkpoint.
        services.fork(thread, after(thread, 1))
        advance()
        assert log_of(thread) == ["a", "b", "other"]
    finally:
        registry.unregister("steps")
        graphs.register("steps")(graphs.steps)


def test_fork_checkpoint_sorts_after_newest_checkpoint_from_faster_clock(
    advance: Advance,
) -> None:
    thread = ran(advance)
    at = after(thread, 2)
    # The clock of the host that stored the last checkpoint was one hour fast.
    newest = Checkpoint.objects.get(checkpoint_id=after(thread, 5))
    ahead = int(newest.checkpoint_id.replace("-", "")[:12], 16) + 36_000_000_000 // 4096
    text = f"{ahead:012x}"
    stamp = f"{text[:8]}-{text[8:12]}-{newest.checkpoint_id[14:]}"
    Checkpoint.objects.filter(pk=newest.pk).update(checkpoint_id=stamp)

    services.fork(thread, at)
    advance()

    assert log_of(thread) == ["a", "b", "c", "d", "e"]
    heads = Checkpoint.objects.order_by("-checkpoint_id")
    assert heads[0].checkpoint_id > stamp
    assert ids.new_uuid6() > heads[0].checkpoint_id


def test_fork_from_checkpoint_before_failure_succeeds_and_old_run_stays_failed(
    advance: Advance, failing: None
) -> None:
    info = services.start("fragile", {"count": 1})
    advance()
    assert Run.objects.get(pk=info.id).state == "failed"
    thread = info.thread_id
    node = Run.objects.get(pk=info.id)

    graph = registry.get_graph(node.graph).graph
    name = next(name for name in graph.nodes if name != "__start__")
    services.fork(thread, after(thread, 0), as_node=name)
    advance()

    newest = Run.objects.order_by("-created_at")[0]
    assert newest.state == "succeeded"
    assert Run.objects.get(pk=info.id).state == "failed"


@pytest.mark.promise("P14")
def test_fork_from_checkpoint_being_pruned_raises_checkpoint_not_found(
    advance: Advance,
) -> None:
    thread = ran(advance)
    at, refused = after(thread, 3), []

    def fork_first(run: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith('DELETE FROM "hitl_django_channelblob"') and not refused:
            with pytest.raises(CheckpointNotFound) as error:
                services.fork(thread, at)
            refused.append(error)
        return run(sql, *rest)

    with connection.execute_wrapper(fork_first):
        DjangoSaver().prune([thread])
    assert len(refused) == 1
    assert log_of(thread) == ["a", "b", "c", "d", "e"]


def test_fork_loads_a_constant_number_of_runs_for_any_number_of_earlier_runs(
    advance: Advance,
) -> None:
    thread, read = ran(advance), list[Any]()

    def note(instance: Run, **_: Any) -> None:
        read.append(instance.pk)

    figures = []
    for _ in range(3):
        post_init.connect(note, sender=Run)
        services.fork(thread, after(thread, 3))
        post_init.disconnect(note, sender=Run)
        figures.append(len(read))
        read.clear()
        advance()
    assert figures[1] == figures[2]


@pytest.mark.parametrize("where", ["in no thread", "in another thread", "in a graph inside"])
def test_fork_from_checkpoint_deleted_just_before_the_lock_raises_checkpoint_not_found(
    advance: Advance, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    thread, other = ran(advance), ran(advance)
    at = after(thread, 3)
    row = Checkpoint.objects.filter(thread__thread_id=thread, checkpoint_id=at)
    goes: dict[str, Callable[[], object]] = {
        "in no thread": row.delete,
        "in another thread": lambda: row.update(thread=Thread.objects.get(thread_id=other)),
        "in a graph inside": lambda: row.update(ns="inside"),
    }
    lock = leases.lock_thread

    def and_then(**which: Any) -> Thread:
        monkeypatch.setattr(leases, "lock_thread", lock)
        goes[where]()
        return lock(**which)

    monkeypatch.setattr(leases, "lock_thread", and_then)
    with pytest.raises(CheckpointNotFound):
        services.fork(thread, at)
    assert Run.objects.filter(thread__thread_id=thread).count() == 1


def test_fork_origin_is_the_run_that_stored_its_checkpoint(advance: Advance) -> None:
    thread = ran(advance)
    newest = {}
    for _ in range(3):
        checkpoint = Checkpoint.objects.order_by("-checkpoint_id")[0]
        newest[Run.objects.all()[0].pk] = checkpoint.checkpoint_id
        services.start("steps", {"log": []}, thread_id=thread)
        advance()
    for run_id, at in newest.items():
        assert Run.objects.get(pk=services.fork(thread, at).id).origin == run_id


def test_origin_of_fork_in_thread_copy_is_a_run_of_the_copy(advance: Advance) -> None:
    thread = ran(advance)
    DjangoSaver().copy_thread(thread, "copy")
    own = Run.objects.get()
    copied = Thread.objects.get(thread_id="copy")
    run = Run.objects.create(
        thread=copied, graph=own.graph, fingerprint=own.fingerprint, state="succeeded"
    )
    fork = Run.objects.get(pk=services.fork("copy", after("copy", 3)).id)
    assert fork.origin == run.pk


@pytest.mark.parametrize("whose", ["another thread's", "a graph's inside"])
def test_fork_checkpoint_id_ignores_newer_checkpoints_of_other_threads_and_subgraphs(
    advance: Advance, whose: str
) -> None:
    thread, other = ran(advance), ran(advance)
    at = after(thread, 2)
    row = Checkpoint.objects.get(checkpoint_id=after(other, 5))
    stamp = "9" + row.checkpoint_id[1:]  # in the year 7500
    places: dict[str, dict[str, Any]] = {
        "another thread's": {},
        "a graph's inside": {"ns": "inside", "thread": Thread.objects.get(thread_id=thread)},
    }
    Checkpoint.objects.filter(pk=row.pk).update(checkpoint_id=stamp, **places[whose])

    services.fork(thread, at)

    own = Checkpoint.objects.filter(thread__thread_id=thread, ns="")
    assert max(own.values_list("checkpoint_id", flat=True)) < stamp
