"""thread_state: what the channels of a thread hold, now or at one of its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hitl_django.checkpoints import DjangoSaver
from hitl_django.db.alias import write_alias
from hitl_django.errors import NoSuchThread, NotAllowedError
from hitl_django.graph_registry import registry
from hitl_django.models import Thread
from hitl_django.permissions import get_policy

from .result import plain_json


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
    threads = Thread.objects.using(write_alias()).filter(thread_id=thread_id)
    if by is not None:
        threads = get_policy().visible_threads(by, threads)
    thread = threads.first()
    if thread is None:
        raise NoSuchThread
    if by is not None and not get_policy().may_view_state(by, thread):
        raise NotAllowedError("You may not see the state of this thread.")

    graph = registry.get(thread.graph).graph.with_saver(DjangoSaver())
    place: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": ""}
    if checkpoint_id is not None:
        place["checkpoint_id"] = checkpoint_id
    found = graph.get_state({"configurable": place})
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
        values=plain_json(found.values),
    )
