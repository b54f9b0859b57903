"""Runs that wait for earlier runs of their thread."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from django.db import transaction

from hitl_django import events, leases, run_events, run_leases, signals
from hitl_django.checkpoints import ThreadKey, unpack_text
from hitl_django.db import outages
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.errors import RunStateError
from hitl_django.events import EventName
from hitl_django.graph_registry import compatibility, registry
from hitl_django.graph_registry.registry import RegisteredGraph
from hitl_django.models import Run, Thread
from hitl_django.models.functions import Now
from hitl_django.run_events import EventLog

from .input_submission import submit_input

logger = logging.getLogger("hitl_django")

#: Maximum number of runs that wait for earlier runs of one thread.
MAX_WAITING = 100


@retry_on_conflict
def start_next_waiting_run(run_id: UUID) -> UUID | None:
    """Queue the next waiting run of this run's thread if the thread has no active run.

    The queued run uses the newest version of its graph. A run that can't be started fails, and the
    next run is tried. Returns the id of the queued run, or None if no run was queued.

    Raises:
        UnknownGraphError: if the graph isn't registered in this process. The run keeps waiting for
            a worker that has the graph.
    """
    using = write_alias()
    waited_for = Run.objects.using(using).filter(pk=run_id, thread__has_waiting=True)
    found = waited_for.only("thread").first()
    if found is None:
        return None
    with transaction.atomic(using=using):
        thread = leases.lock_thread(pk=found.thread_id)
        runs = Run.objects.using(using).filter(thread=thread)
        if runs.filter(state__in=Run.ACTIVE).exists():
            return None
        begun = None
        while (run := run_leases.select_waiting(using, thread.pk).first()) is not None:
            registered = registry.get_graph(run.graph)
            try:
                with transaction.atomic(using=using):
                    _start_waiting_run(run, thread, registered)
            except outages.ERRORS:
                raise  # A database error is not an error of this run.
            except Exception as error:  # The graph's code raised an error for this input.
                _fail_waiting_run(run, thread, error)
            else:
                begun = run.pk
                break
        note_waiting(thread)
    return begun


def note_waiting(thread: Thread) -> None:
    """Store in a locked thread's column ``has_waiting`` whether runs wait for earlier runs."""
    thread.has_waiting = run_leases.select_waiting(write_alias(), thread.pk).exists()
    thread.save(using=write_alias(), update_fields=["has_waiting"])


def refuse_if_waited_for(thread: Thread) -> None:
    """Raise RunStateError if runs of the thread wait for earlier runs.

    A new run must not start before these waiting runs.
    """
    if thread.has_waiting and run_leases.select_waiting(write_alias(), thread.pk).exists():
        raise RunStateError(
            f"Other runs are waiting for thread {thread.thread_id!r} and start first. "
            "Cancel them, or wait as well.",
            state=Run.State.WAITING,
            allowed=Run.ENDED,
        )


def refuse_if_crowded(thread: Thread) -> None:
    """Raise RunStateError if the thread already has the maximum number of waiting runs."""
    if run_leases.select_waiting(write_alias(), thread.pk).count() >= MAX_WAITING:
        raise RunStateError(
            f"Thread {thread.thread_id!r} already has the maximum number of waiting runs: "
            f"{MAX_WAITING}.",
            state=Run.State.WAITING,
            allowed=Run.ENDED,
        )


def _start_waiting_run(run: Run, thread: Thread, registered: RegisteredGraph) -> None:
    using = write_alias()
    assert run.input is not None
    value = unpack_text(run.input, run.input_digest, f"input of run {run.pk}")
    registered.graph.validate_input(value)
    latest = Run.select_newest(Run.objects.using(using).filter(thread=thread)).first()
    if latest is not None:
        key = ThreadKey(thread.pk, thread.thread_id, thread.epoch)
        compatibility.refuse_if_changed(key, latest.fingerprint, registered, new_input=True)
    compatibility.store_structure(registered)
    batch, log = WriteBatch(using), EventLog.for_run(run)
    log.append_state(batch, Run.State.QUEUED, reason="started")
    submit_input(registered, thread, run, value, log, discard=latest is not None)
    batch.run()
    changes: dict[str, Any] = {
        "state": Run.State.QUEUED,
        "input": None,
        "graph_version": registered.version,
        "fingerprint": registered.fingerprint,
        "options": registry.note_pin(registered, run.options),
        "last_event": log.last,
        "queued_at": Now(),
        "last_message_at": Now(),
    }
    Run.objects.using(using).filter(pk=run.pk).update(**changes)
    Thread.objects.using(using).filter(pk=thread.pk).update(ended_at=None, attempts=0)


def _fail_waiting_run(run: Run, thread: Thread, error: Exception) -> None:
    using = write_alias()
    # Log only the error's type, because its message may contain the input.
    fields = {"run_id": str(run.pk), "thread_id": thread.thread_id, "graph": run.graph}
    logger.warning("run %s could not start: %s", run.pk, type(error).__name__, extra=fields)
    line, full = run_leases.describe_error(error)
    Run.objects.using(using).filter(pk=run.pk).update(
        state=Run.State.FAILED, error=line, traceback=full, finished_at=Now()
    )
    batch = WriteBatch(using)
    run_events.append_event(batch, run, Run.State.FAILED)
    ids = {"run_id": run.pk, "thread_id": thread.thread_id}
    events.publish(batch, EventName.RUN_FAILED, run.graph, **ids)
    batch.run()
    signals.send_on_commit(signals.run_failed, using=using, state=str(Run.State.FAILED), **fields)
