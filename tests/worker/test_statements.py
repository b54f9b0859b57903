"""The number of database statements of a run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, connections, transaction

from hitl_django import interrupt, leases, run_leases, services, testing
from hitl_django.checkpoints import DjangoSaver
from hitl_django.db.row_mapper import RowMapper
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.savers.checkpoint import Commit, Outcome, TaskWrites
from hitl_django.errors import LeaseLostError, NoSuchThread
from hitl_django.graph_registry import registry
from hitl_django.models import (
    Checkpoint,
    Interrupt,
    PendingWrite,
    Run,
    Thread,
)
from hitl_django.run_leases import RunFence
from hitl_django.run_leases import queries as lease_statements
from hitl_django.services import queries as service_statements
from hitl_django.worker import runner
from tests import databases, graphs
from tools.benchmarks.counts import counting, counting_trips

pytestmark = pytest.mark.django_db(transaction=True)

NAME = "counted"


@pytest.fixture
def counted() -> Iterator[str]:
    """Build a graph of three nodes, of which the second interrupts."""
    graph = StateGraph(graphs.Count)
    graph.add_node("first", lambda state: {"count": state["count"] + 1})
    graph.add_node("ask", lambda state: {"count": state["count"] + interrupt("How many?")})
    graph.add_node("last", lambda state: {"count": state["count"] + 1})
    for edge in (("__start__", "first"), ("first", "ask"), ("ask", "last"), ("last", "__end__")):
        graph.add_edge(*edge)
    registry.register(NAME)(lambda: graph)
    with testing.inline():
        yield NAME
    registry.unregister(NAME)


def paused(name: str) -> tuple[services.RunInfo, Any]:
    info = services.start(name, {"count": 0})
    runner.advance(str(info.id))
    return info, Interrupt.objects.get(run=info.id)


@pytest.mark.promise("P3")
def test_run_with_one_interrupt_takes_eight_transactions_from_start_to_end(
    counted: str,
) -> None:
    # Execute code that runs only once per process.
    services.decide(paused(counted)[1].pk, "respond", 1)
    with counting() as starting:
        info = services.start(counted, {"count": 0})
    with counting() as asking:
        runner.advance(str(info.id))
    interrupt = Interrupt.objects.get(run=info.id)
    with counting() as deciding:
        services.decide(interrupt.pk, "respond", 1)
    with counting() as ending:
        runner.advance(str(info.id))
    assert Run.objects.get(pk=info.id).state == "succeeded"
    counts = (starting, asking, deciding, ending)
    # Each execution begins with a claim. Before the interrupt one commit follows, at the end two.
    assert [count.transactions for count in counts] == [1, 1 + 1 + 1, 1, 1 + 2]
    found = [count.statements for count in counts]
    # PostgreSQL needs one statement for the start and two for the decision. Each execution needs
    # one for the claim, one for reading and one for each commit. SQLite needs one for each row, and
    # none to lock the thread for a step.
    expected = [1, 4, 2, 4] if connection.vendor == "postgresql" else [4, 8, 7, 7]
    assert found == expected, [text for count in counts for text in count.texts]


@pytest.mark.database("postgresql")
@pytest.mark.sessions
@pytest.mark.parametrize("keeps", [False, True], ids=["plans anew", "keeps plans"])
def test_run_with_one_interrupt_takes_nine_round_trips_from_start_to_end(
    counted: str, keeps: bool, request: pytest.FixtureRequest
) -> None:
    if keeps:
        request.getfixturevalue("preparing")
    # Execute code that runs only once per process.
    services.decide(paused(counted)[1].pk, "respond", 1)
    with counting_trips() as starting:
        info = services.start(counted, {"count": 0})
    with counting_trips() as asking:
        runner.advance(str(info.id))
    interrupt = Interrupt.objects.get(run=info.id)
    with counting_trips() as deciding:
        services.decide(interrupt.pk, "respond", 1)
    with counting_trips() as ending:
        runner.advance(str(info.id))
    assert Run.objects.get(pk=info.id).state == "succeeded"
    # The claim also returns the checkpoint of the run.
    counts = (starting, asking, deciding, ending)
    assert [count.trips for count in counts] == [1, 1 + 2, 2, 1 + 2]


@pytest.mark.promise("P10")
@pytest.mark.database("postgresql")
def test_claim_of_run_that_another_worker_claims_first_returns_none_after_waiting_for_the_lock(
    counted: str,
) -> None:
    info = services.start(counted, {"count": 0})
    claimed: list[Any] = []

    def claim() -> None:
        try:
            claimed.append(run_leases.claim(info.id))
        finally:
            connections.close_all()

    late = threading.Thread(target=claim)
    with transaction.atomic(), connection.cursor() as cursor:
        Thread.objects.select_for_update().get()
        late.start()
        while late.is_alive() and not databases.is_waited_for(cursor):
            pass
        # The transaction that had the lock claimed the run and left it waiting for review.
        Thread.objects.update(epoch=1)
        Run.objects.update(state="interrupted")
    late.join()
    assert claimed == [None]
    assert Thread.objects.get().epoch == 1


BY_KEY = {
    "claim": lease_statements.CLAIM,
    "begin": lease_statements.BEGIN,
    "stored": lease_statements.STORED,
    "waiting": lease_statements.WAITING,
    "pause": lease_statements.PAUSE,
    "close": service_statements.CLOSE,
    "resume": service_statements.RESUME,
}


@pytest.mark.database("postgresql")
@pytest.mark.parametrize("name", BY_KEY)
def test_prepared_statement_that_finds_a_row_by_key_uses_no_partial_index(name: str) -> None:
    values = {
        "run": uuid4(), "interrupt": uuid4(), "version": 1, "approvals": 0, "owner": "",
        "duration": timedelta(1), "state": "parked", "step": None, "error": "", "traceback": None,
        "last_event": 0, "ns": "",
    }  # fmt: skip
    text, parameters = BY_KEY[name].ready(connection, values)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")  # as if the table had more rows
        cursor.execute(f"EXPLAIN {text}", parameters)
        plan = "\n".join(line for (line,) in cursor.fetchall())
    indexes = [*Run._meta.indexes, *Interrupt._meta.indexes]
    constraints = [*Run._meta.constraints, *Interrupt._meta.constraints]
    of_some = [each.name for each in (*indexes, *constraints) if getattr(each, "condition", None)]
    assert len(of_some) > 10
    assert [each for each in of_some if f"using {each} " in plan] == []


def test_first_interrupt_of_a_thread_is_stored_without_reading_interrupts(counted: str) -> None:
    info = services.start(counted, {"count": 0})
    with counting() as asking:
        runner.advance(str(info.id))
    # Except the claim's query for waiting runs.
    reads = [text for text in asking.texts if text.startswith('SELECT "hitl_django_interrupt"')]
    assert reads == []
    assert Thread.objects.get(thread_id=info.thread_id).has_interrupts


@pytest.mark.promise("P10")
@pytest.mark.parametrize("status", ["finished", "interrupted"])
def test_final_commit_of_run_whose_state_another_process_changed_stores_no_rows(
    counted: str, status: Any
) -> None:
    info = services.start(counted, {"count": 0})
    lease = run_leases.claim(info.id)
    assert lease is not None
    Run.objects.update(state="failed")
    place = {"configurable": {"thread_id": info.thread_id}}
    before = Checkpoint.objects.count()
    saver = DjangoSaver(lease.thread, RunFence(lease))
    with pytest.raises(LeaseLostError):
        saver.commit(Commit(place, [TaskWrites("t", "", [("count", 9)])], outcome=Outcome(status)))
    assert (Checkpoint.objects.count(), PendingWrite.objects.count()) == (before, 0)
    assert Run.objects.get().state == "failed"


@pytest.mark.promise("P10")
def test_claim_of_run_cancelled_while_the_claim_is_stored_returns_none_and_releases_lease(
    counted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = services.start(counted, {"count": 0})
    commit = WriteBatch.commit

    def cut_short(batch: WriteBatch, **how: Any) -> Any:
        # Changes of the run's row while the claim waits for the thread's lock.
        found = commit(batch, **how)
        Run.objects.update(state="cancelled")
        return found[:1]

    with monkeypatch.context() as patch:
        patch.setattr(WriteBatch, "commit", cut_short)
        assert run_leases.claim(info.id) is None
    thread = Thread.objects.get()
    assert (thread.lease_until, thread.lease_owner, thread.attempts) == (None, "", 0)


@pytest.mark.parametrize("model", [Thread, Run, Interrupt])
def test_row_mapper_reads_the_same_values_as_the_orm(counted: str, model: Any) -> None:
    paused(counted)
    record = RowMapper(model)
    row = model.objects.values_list(*record.names)
    text, parameters = row.query.get_compiler(connection=connection).as_sql()
    with connection.cursor() as cursor:
        cursor.execute(text, parameters)
        found = record.read("default", cursor.fetchone())
    expected = model.objects.get()
    assert [getattr(found, name) for name in record.names] == [
        getattr(expected, name) for name in record.names
    ]
    assert found._state.db == "default"
    assert not found._state.adding


def test_lock_thread_of_missing_thread_or_interrupt_raises_error_for_missing_thread() -> None:
    for which in ({"pk": 0}, {"interrupt": uuid4()}):
        with pytest.raises(NoSuchThread):
            leases.lock_thread(**which)
