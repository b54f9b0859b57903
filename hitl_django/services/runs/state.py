"""What the channels of a thread hold: its state now or at a checkpoint, and the result of a run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pydantic_core import to_json

from hitl_django.checkpoints import DjangoSaver
from hitl_django.db.alias import write_alias
from hitl_django.errors import NoSuchThread, NotAllowedError, RunNotFound, RunStateError
from hitl_django.graph_registry import registry
from hitl_django.models import Run, Thread
from hitl_django.permissions import find_row, get_policy, select_visible


@dataclass(frozen=True, slots=True, kw_only=True)
class StateInfo:
    """The state of a thread at a checkpoint: its values as plain JSON, and what comes next.

    ``checkpoint_id`` is None before anything was stored; ``created_at`` is ISO 8601.
    """

    thread_id: str
    checkpoint_id: str | None
    parent_id: str | None
    step: int | None
    source: str
    created_at: str | None
    next: tuple[str, ...]
    values: Any


def thread_state(
    thread_id: str, *, checkpoint_id: str | None = None, by: Any = None
) -> StateInfo | None:
    """Returns the state of a thread, or the record of it at a checkpoint; None if it has no such.

    ThreadNotFound for a thread that the user may not see, NotAllowedError where its values are not
    for them, UnknownGraphError if its graph is registered no more.
    """
    thread = find_thread(thread_id, by)
    refuse_unless_may_view_state(by, thread)

    graph = registry.get_graph(thread.graph).graph.with_saver(DjangoSaver())
    configurable: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": ""}
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
    found = graph.get_state({"configurable": configurable})
    if checkpoint_id is not None and found.metadata is None:
        return None
    metadata: Any = found.metadata or {}
    parent: Any = found.parent_config or {"configurable": {}}
    return StateInfo(
        thread_id=thread_id,
        checkpoint_id=found.config["configurable"].get("checkpoint_id"),
        parent_id=parent["configurable"].get("checkpoint_id"),
        step=metadata.get("step"),
        source=metadata.get("source", ""),
        created_at=found.created_at,
        next=tuple(found.next),
        values=render_json(found.values),
    )


def run_result(run_id: UUID | str, *, by: Any = None) -> Any:
    """Returns the state values that a run ended with, as plain JSON.

    RunStateError for a run that hasn't succeeded, and for one whose thread has gone on since: only
    the newest state of a thread is its result.
    """
    runs = Run.objects.using(write_alias()).select_related("thread")
    run = find_row(select_visible(runs, by), RunNotFound, pk=run_id)
    refuse_unless_may_view_state(by, run.thread)
    _refuse_if_not_last(run)

    graph = registry.get_graph(run.graph).graph.with_saver(DjangoSaver())
    config = {"configurable": {"thread_id": run.thread.thread_id, "checkpoint_ns": ""}}
    return render_json(graph.get_state(config).values)


def find_thread(thread_id: str, by: Any) -> Thread:
    """Returns a thread; one that the user may not see doesn't exist."""
    threads = Thread.objects.using(write_alias())
    return find_row(select_visible(threads, by), NoSuchThread, thread_id=thread_id)


def refuse_unless_may_view_state(by: Any, thread: Thread) -> None:
    """Raises NotAllowedError unless the user may see what the thread's channels hold."""
    if by is not None and not get_policy().may_view_state(by, thread):
        raise NotAllowedError("You may not see the state of this thread.")


def render_json(values: Any) -> Any:
    """Returns state values as JSON has them; what it has no word for becomes text."""
    return json.loads(to_json(values, inf_nan_mode="strings", bytes_mode="base64", fallback=str))


def _refuse_if_not_last(run: Run) -> None:
    done = [Run.State.SUCCEEDED]
    if run.state not in done:
        raise RunStateError(f"The run is {run.state}.", state=str(run.state), allowed=done)
    if find_later_run(run) is not None:
        raise RunStateError(
            "A later run of the thread has changed its state.", state=str(run.state), allowed=done
        )


def find_later_run(run: Run) -> UUID | None:
    """Returns the id of the thread's newest run; None where that is the given one.

    In the database's own order. On SQLite a moment that was read is another text than the one
    stored, so comparing with it would find the same run later than itself, once in a thousand.
    """
    runs = Run.objects.using(write_alias()).filter(thread=run.thread_id)
    newest = runs.order_by("-created_at", "-pk").values_list("pk", flat=True).first()
    return None if newest == run.pk else newest
