"""Storage of a run's input as its first checkpoint."""

from __future__ import annotations

from typing import Any

from hitl_django.checkpoints import DjangoSaver, ThreadKey
from hitl_django.db.write_batch import WriteBatch
from hitl_django.graph_registry import state_migration
from hitl_django.graph_registry.registry import RegisteredGraph
from hitl_django.models import Run, Thread
from hitl_django.run_events import EventLog


def submit_input(
    registered: RegisteredGraph,
    thread: Thread,
    run: Run,
    value: Any,
    log: EventLog,
    *,
    discard: bool,
    batch: WriteBatch | None = None,
) -> None:
    """Store the input of a run on its thread.

    The rows are added to the batch, or written in the caller's transaction. The thread is new, or
    the caller has locked it. With ``discard``, the pending tasks of the thread's newest checkpoint
    are discarded.
    """
    key = ThreadKey(thread.pk, thread.thread_id, thread.epoch)
    saver = DjangoSaver(key, batch=batch, append_events=log.append_chunks)
    config: dict[str, Any] = {
        "configurable": {"thread_id": thread.thread_id, "checkpoint_ns": ""},
        "metadata": {"run_id": str(run.pk)},
    }
    if discard:
        config["configurable"]["discard_pending"] = True
    graph = registered.graph
    if batch is None and registered.migrate_state is not None:
        newest = saver.get_tuple(config)
        graph = state_migration.migrate_state(registered, newest).graph
    graph.with_saver(saver).submit(value, config, modes=log.modes)
