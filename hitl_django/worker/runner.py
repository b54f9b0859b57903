"""Execution of runs by workers.

The first start, a resume after a decision, recovery after a crash and a retry have the same steps:
take the lease on the run's thread, load the newest checkpoint, and continue from it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db import transaction

from hitl_django import run_leases
from hitl_django.checkpoints import DjangoSaver
from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.connections import close_faulty_connections, reset_connections
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.errors import GraphChangedError, PayloadError
from hitl_django.engine.savers.checkpoint import Outcome
from hitl_django.engine.task.runtime import RunControl
from hitl_django.errors import LeaseLostError
from hitl_django.graph_registry import compatibility, registry, state_migration
from hitl_django.graph_registry.registry import PINNED
from hitl_django.run_leases import RunFence, RunLease
from hitl_django.services.runs.waiting import start_next_waiting_run
from hitl_django.task_queue import dispatcher

from .observers import AroundTask, RunSegment, combine_around, observe_segment
from .stop_note import StopNote

logger = logging.getLogger("hitl_django")

#: The maximum seconds in which a worker claims further runs in one task, and the maximum share of
#: the time slice. The time limit of a task must be longer than turn and slice together.
TURN, TURN_SHARE = 1.0, 0.1


def advance(run_id: str) -> None:
    """Execute a run until it ends, is interrupted, or its time slice ends.

    A run that isn't due is not executed, so a message may arrive late or twice. If the run isn't
    due and the thread has no active run, the next waiting run of the thread is executed. Errors are
    stored in the run's row instead of being raised, because the queue can't handle them. An error
    that ends this process, such as KeyboardInterrupt or a queue's timeout, is stored and raised,
    and the run is queued again.
    """
    if _drain_reason is not None:
        batch = WriteBatch(write_alias())
        dispatcher.enqueue_message(run_id, batch)  # The message is for another worker.
        batch.run()
        return
    try:
        run = UUID(str(run_id))
    except ValueError:
        logger.error("%r is not a run id", run_id)
        return
    lease = _claim(run)
    if lease is not None:
        _advance(lease)


#: The graph of the last run that this process has claimed, after which other graphs follow.
_last_graph = ""


def advance_due(argument: str = "") -> None:
    """Execute due runs one after the other, until no run is due or the time limit has passed.

    After the time limit, TURN, the current run continues, but no further run is claimed, so that
    the worker can execute other tasks of the queue. If runs are still due, the queue must call this
    function again. Errors are handled as in ``advance``. The argument is ignored.
    """
    global _last_graph
    turn = min(TURN, TURN_SHARE * (dispatcher.get_time_slice() or float("inf")))
    ends = time.monotonic() + turn
    while _drain_reason is None and (lease := _claim_next(_last_graph)) is not None:
        _last_graph = lease.graph
        _advance(lease)
        if time.monotonic() >= ends:
            break


def _claim_next(graph: str) -> RunLease | None:
    try:
        return run_leases.claim_next(graph)
    except Exception:
        # The database is unavailable. The runs are unchanged.
        logger.exception("could not claim a run")
        close_faulty_connections()
    return None


def _advance(lease: RunLease) -> None:
    with observe_segment(lease) as segments:
        status, error = _execute(lease, segments)
        for segment in segments:
            segment.note_outcome(status, error)


def _execute(lease: RunLease, segments: Sequence[RunSegment]) -> tuple[str, BaseException | None]:
    """Execute a run after its lease was taken.

    Return its outcome, and the error that stopped it or None.
    """
    stop = StopNote(lease)
    try:
        outcome = _run_graph(lease, combine_around(segments), stop)
    except LeaseLostError as error:
        _log_taken_over(lease)
        return "taken_over", error
    except BaseException as error:
        stopped = error
    else:
        logger.info("run %s released: %s", lease.run_id, outcome.status, extra=lease.log_fields())
        return outcome.status, outcome.error
    # This is outside of the except block. The error may quote data of the run, and would be logged
    # with any error that occurs here.
    _release(lease, stopped, stop.describe(stopped))
    if not isinstance(stopped, Exception):
        raise stopped
    return "stopped", stopped


def _claim(run: UUID) -> RunLease | None:
    try:
        lease = run_leases.claim(run)
        if lease is None and (next_run := start_next_waiting_run(run)) is not None:
            lease = run_leases.claim(next_run)
        return lease
    except Exception:
        # The database is unavailable. The run is unchanged, and the sweep will find it.
        logger.exception("run %s could not be claimed", run, extra={"run_id": str(run)})
        close_faulty_connections()
    return None


#: The controls of the runs that this process is executing.
_controls: set[RunControl] = set()
#: The reason why this process claims no more runs, or None while it claims runs.
_drain_reason: str | None = None


def drain(reason: str = "shutdown") -> None:
    """Stop all runs of this process after their current super-step, and start no more runs.

    The runs become queued, so that other workers continue them. Use this function in a process that
    is about to end. The function takes no lock, so a signal handler may call it.
    """
    global _drain_reason
    _drain_reason = reason
    for control in tuple(_controls):
        control.request_drain(reason)


def _run_graph(lease: RunLease, around_task: AroundTask | None, stop: StopNote) -> Outcome:
    options = lease.options
    registered = registry.get_graph_of_run(
        lease.graph, lease.graph_version, is_pinned=bool(options.get(PINNED))
    )
    if registered.migrate_state is not None and registered.version != lease.graph_version:
        head = DjangoSaver(lease.thread).get_tuple(_address(lease))
        registered = state_migration.migrate_state(registered, head)
    if lease.fingerprint != registered.fingerprint:
        compatibility.adopt_structure(lease.run_id, lease.thread, lease.fingerprint, registered)
    fence = RunFence(lease)
    config = {
        "configurable": {
            **(options.get("configurable") or {}),
            **_address(lease)["configurable"],
            "on_interrupt_change": hitl.ON_INTERRUPT_CHANGE,
            "on_unknown_key": hitl.ON_UNKNOWN_KEY,
        },
        "recursion_limit": options.get("recursion_limit", hitl.RECURSION_LIMIT),
        "tags": options.get("tags", []),
        "metadata": state_migration.build_metadata(registered, lease.run_id, lease.graph_version),
    }
    if transaction.get_connection(write_alias()).in_atomic_block:
        # Another OS thread would not see the changes of this transaction. In a TestCase, tasks of a
        # workflow therefore run on the test's own OS thread.
        config["max_concurrency"] = 1
    control = RunControl()
    control.around_task = around_task
    stop.watch(control)
    with _drainable(control), run_leases.keep_renewed(lease, control, dispatcher.get_time_slice()):
        newest = lease.stored.newest if lease.stored else None
        saver = DjangoSaver(
            lease.thread, fence, append_events=lease.log.append_chunks, newest=newest
        )
        graph = registered.graph.with_saver(saver)
        log, renames = lease.log, registered.renames
        return graph.advance(
            config, control=control, modes=log.modes, subgraphs=log.subgraphs, keep=log.redact,
            durability=options.get("durability") or registered.durability,
            interrupt_before=renames.rename_nodes(options.get("interrupt_before")),
            interrupt_after=renames.rename_nodes(options.get("interrupt_after")),
            context=options.get("context"),
        )  # fmt: skip


def _address(lease: RunLease) -> dict[str, Any]:
    return {"configurable": {"thread_id": lease.thread.thread_id, "checkpoint_ns": ""}}


@contextmanager
def _drainable(control: RunControl) -> Iterator[None]:
    _controls.add(control)
    # The reason is read after adding the control: an earlier drain didn't find the control, and a
    # later drain does.
    if _drain_reason is not None:
        control.request_drain(_drain_reason)
    try:
        yield
    finally:
        _controls.discard(control)


def _release(lease: RunLease, error: BaseException, described: str | None) -> None:
    named = type(error).__name__
    logger.error("run %s failed to continue: %s", lease.run_id, named, extra=lease.log_fields())
    try:
        if described is not None or not isinstance(error, Exception):
            reset_connections()
        close_faulty_connections()
        # The stored state can't be read, or this version of the code can't continue from it, so a
        # retry can't succeed. Other errors may be temporary, such as a database error or a graph
        # that isn't deployed here.
        hopeless = isinstance(error, (PayloadError, GraphChangedError))
        run_leases.release(lease, error, to_park=hopeless, described=described)
    except LeaseLostError:
        _log_taken_over(lease)
    except Exception:
        # The database is unavailable. The lease expires, and the sweep will find the run.
        fields = lease.log_fields()
        logger.exception("run %s could not be released", lease.run_id, extra=fields)


def _log_taken_over(lease: RunLease) -> None:
    logger.warning(
        "run %s was taken over: epoch %s has ended",
        lease.run_id,
        lease.thread.epoch,
        extra=lease.log_fields(),
    )
