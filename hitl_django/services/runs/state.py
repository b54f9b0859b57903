"""States of threads at checkpoints, and results of runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar, overload
from uuid import UUID

from pydantic_core import to_json

from hitl_django.checkpoints import DjangoSaver, NewestStatesSaver, digest_value
from hitl_django.db.alias import write_alias
from hitl_django.engine.state.schema import coerce
from hitl_django.engine.types import Interrupt, PregelTask, StateSnapshot
from hitl_django.errors import (
    HitlError,
    NoSuchThread,
    NotAllowedError,
    RunNotFound,
    RunStateError,
)
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.registry import RegisteredGraph
from hitl_django.models import Run, Thread
from hitl_django.permissions import find_row, get_policy, select_visible

from .shown_interrupts import ShownInterrupts

#: Default and maximum number of states in a history.
STATES, MAX_STATES = 10, 1000

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptInfo:
    """An interrupt of a task.

    ``id`` is the interrupt's id in the engine, not the id of its row.
    """

    id: str
    value: Any
    response_schema: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """A task that follows a checkpoint.

    Attributes:
        path: the origin of the task in LangGraph's format, ``("__pregel_pull", node)`` for an edge.
        interrupts: the interrupts of the task that the user may see.
        namespace: the namespace of the subgraph that the node calls, or None if the node calls no
            subgraph.
        state: the state of that subgraph, or None if the state wasn't requested.
    """

    id: str
    name: str
    path: tuple[Any, ...]
    error: str | None
    interrupts: tuple[InterruptInfo, ...]
    result: Any
    namespace: str | None
    state: StateInfo | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateInfo:
    """The state of a thread at a checkpoint.

    Attributes:
        checkpoint_id: the id of the checkpoint, or None if the thread has none.
        created_at: the time in ISO 8601 format.
        next: the names of the nodes that run next.
        values: the values of the channels as plain JSON.
        namespace: the namespace of a subgraph, or empty for the thread's own graph.
    """

    thread_id: str
    checkpoint_id: str | None
    parent_id: str | None
    step: int | None
    source: str
    created_at: str | None
    next: tuple[str, ...]
    values: Any
    namespace: str
    metadata: dict[str, Any]
    tasks: tuple[TaskInfo, ...]


def thread_state(
    thread_id: str,
    *,
    checkpoint_id: str | None = None,
    namespace: str = "",
    subgraphs: bool = False,
    by: Any = None,
) -> StateInfo | None:
    """Return the current state of a thread, or its state at a checkpoint.

    Returns None if the state doesn't exist. ``namespace`` selects a subgraph. With ``subgraphs``,
    each task also has the state of the subgraph that the task calls.

    Raises:
        ThreadNotFound: if the user may not see the thread.
        NotAllowedError: if the user may not view the thread's state.
        UnknownGraphError: if the thread's graph isn't registered.
    """
    thread = find_thread(thread_id, by)
    refuse_unless_may_view_state(by, thread)
    if not thread.graph:
        nothing = checkpoint_id is None and not namespace
        return _build_empty_info(thread_id) if nothing else None

    registered = find_graph_of_thread(thread)
    graph = registered.graph.with_saver(DjangoSaver())
    configurable: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": namespace}
    if checkpoint_id is not None:
        configurable["checkpoint_id"] = checkpoint_id
    try:
        found = graph.get_state({"configurable": configurable}, subgraphs=subgraphs)
    except ValueError:
        if namespace:  # The thread has no such subgraph.
            return None
        raise
    if found.metadata is None and (checkpoint_id is not None or namespace):
        return None
    shown = _find_shown_interrupts(thread, by, [found])
    return _build_info(thread_id, found, shown, registered.mask)


def read_values(threads: Sequence[Thread]) -> Iterator[tuple[Thread, Any]]:
    """Yield threads with the values of their state as plain JSON.

    The caller has checked the permissions. All states are read together. Threads whose state can't
    be read are omitted.
    """
    saver = NewestStatesSaver([thread.pk for thread in threads])
    for thread in threads:
        place: Any = {"configurable": {"thread_id": thread.thread_id, "checkpoint_ns": ""}}
        with suppress(HitlError):  # For example, the graph isn't registered.
            registered = find_graph_of_thread(thread)
            values = registered.graph.with_saver(saver).get_state(place).values
            yield thread, registered.mask(render_json(values))


def state_history(
    thread_id: str,
    *,
    namespace: str = "",
    before: str | None = None,
    metadata: dict[str, Any] | None = None,
    limit: int = STATES,
    by: Any = None,
) -> list[StateInfo]:
    """Return earlier states of a thread, newest first.

    ``before`` is the id of a checkpoint. Only earlier checkpoints are returned. ``metadata``
    selects checkpoints with these metadata values. Raises the same errors as ``thread_state``.
    """
    thread = find_thread(thread_id, by)
    refuse_unless_may_view_state(by, thread)
    if not thread.graph:
        return []
    registered = find_graph_of_thread(thread)
    graph = registered.graph.with_saver(DjangoSaver())
    place = {"thread_id": thread_id, "checkpoint_ns": namespace}
    history = graph.get_state_history(
        {"configurable": place},
        filter=metadata,
        before=None if before is None else {"configurable": {**place, "checkpoint_id": before}},
        limit=max(1, min(limit, MAX_STATES)),
    )
    found = list(history)
    shown = _find_shown_interrupts(thread, by, found)
    return [_build_info(thread_id, each, shown, registered.mask) for each in found]


def _find_shown_interrupts(
    thread: Thread, by: Any, found: Sequence[StateSnapshot]
) -> ShownInterrupts:
    shown = ShownInterrupts(thread.pk, by)
    shown.look_up(asked.id for each in found for asked in _list_interrupts(each))
    return shown


def _list_interrupts(found: StateSnapshot) -> Iterator[Interrupt]:
    for task in found.tasks:
        yield from task.interrupts
        if isinstance(task.state, StateSnapshot):
            yield from _list_interrupts(task.state)


def _build_empty_info(thread_id: str) -> StateInfo:
    return StateInfo(
        thread_id=thread_id, checkpoint_id=None, parent_id=None, step=None, source="",
        created_at=None, next=(), values={}, namespace="", metadata={}, tasks=(),
    )  # fmt: skip


def _build_info(
    thread_id: str, found: StateSnapshot, shown: ShownInterrupts, mask: Callable[[Any], Any]
) -> StateInfo:
    metadata: Any = found.metadata or {}
    parent: Any = found.parent_config or {"configurable": {}}
    at = found.config["configurable"]
    return StateInfo(
        thread_id=thread_id,
        checkpoint_id=at.get("checkpoint_id"),
        parent_id=parent["configurable"].get("checkpoint_id"),
        step=metadata.get("step"),
        source=metadata.get("source", ""),
        created_at=found.created_at,
        next=tuple(found.next),
        values=mask(render_json(found.values)),
        namespace=at.get("checkpoint_ns", ""),
        metadata=render_json(metadata),
        tasks=tuple(_build_task(thread_id, task, shown, mask) for task in found.tasks),
    )


def _build_task(
    thread_id: str, task: PregelTask, shown: ShownInterrupts, mask: Callable[[Any], Any]
) -> TaskInfo:
    below = task.state
    has_state = isinstance(below, StateSnapshot)
    config = below.config if has_state else below
    return TaskInfo(
        id=task.id,
        name=task.name,
        path=tuple(render_json(task.path)),
        error=None if task.error is None else str(task.error),
        interrupts=tuple(
            InterruptInfo(
                id=asked.id, value=render_json(asked.value), response_schema=asked.response_schema
            )
            for asked in task.interrupts
            if asked.id in shown
        ),
        result=mask(render_json(task.result)),
        namespace=None if config is None else config["configurable"].get("checkpoint_ns"),
        state=_build_info(thread_id, below, shown, mask) if has_state else None,
    )


@overload
def run_result(run_id: UUID | str, *, by: Any = None) -> Any: ...


@overload
def run_result(run_id: UUID | str, schema: type[ResultT], *, by: Any = None) -> ResultT: ...


def run_result(run_id: UUID | str, schema: Any = None, *, by: Any = None) -> Any:
    """Return the final state of a run as plain JSON, or as an instance of ``schema``.

    ``schema`` is a TypedDict, a dataclass or a pydantic model, such as the graph's state. If the
    thread has a later run, the result is the last state that the given run stored.

    Raises:
        RunNotFound: if the user may not see the run.
        NotAllowedError: if the user may not view the run's result.
        RunStateError: if the run hasn't succeeded, or its final state was pruned.
        pydantic.ValidationError: if the values don't fit ``schema``.
    """
    runs = Run.objects.using(write_alias()).select_related("thread")
    run = find_row(select_visible(runs, by), RunNotFound, pk=run_id)
    if by is not None and not get_policy().may_view_result(by, run):
        raise NotAllowedError("You don't have permission to view the result of this run.")
    _refuse_unless_succeeded(run)

    registered = find_graph_of_run(run)
    graph = registered.graph.with_saver(DjangoSaver())
    config = {"configurable": {"thread_id": run.thread.thread_id, "checkpoint_ns": ""}}
    # Read the values before checking for a later run, which could otherwise change the state in the
    # meantime.
    values = graph.get_state(config).values
    if find_later_run(run) is not None:
        stored = graph.get_state_history(config, filter={"run_id": str(run.pk)}, limit=1)
        last = next(iter(stored), None)
        if last is None:
            raise RunStateError(
                "A later run has changed the thread's state, and this run's final state "
                "was pruned.",
                state=str(run.state),
                allowed=[Run.State.SUCCEEDED],
            )
        values = last.values
    return registered.mask(render_json(values)) if schema is None else coerce(schema, values)


def find_graph_of_run(run: Run) -> RegisteredGraph:
    """Return the registered graph that continues a run.

    A pinned run continues with the graph version with which it started, any other run with the
    newest version.
    """
    is_pinned = bool((run.options or {}).get(registry.PINNED))
    return registry.get_graph_of_run(run.graph, run.graph_version, is_pinned=is_pinned)


def find_graph_of_thread(thread: Thread) -> RegisteredGraph:
    """Return the registered graph for a thread, in the version of the thread's newest run."""
    if len(registry.list_versions(thread.graph)) > 1:
        runs = Run.objects.using(write_alias()).filter(thread=thread, graph=thread.graph)
        newest = Run.select_newest(runs).first()
        if newest is not None:
            return find_graph_of_run(newest)
    return registry.get_graph(thread.graph)


def find_thread(thread_id: str, by: Any) -> Thread:
    """Return a thread.

    Raises:
        NoSuchThread: if the thread doesn't exist or the user may not see it.
    """
    threads = Thread.objects.using(write_alias())
    return find_row(select_visible(threads, by), NoSuchThread, thread_id=thread_id)


def refuse_unless_visible(thread: Thread, by: Any) -> None:
    """Raise an error if the user may not see the thread that a new run or schedule shall use.

    Raises:
        NotAllowedError: if the user may see a run of the thread, and thus its id.
        NoSuchThread: otherwise.
    """
    using = write_alias()
    if select_visible(Thread.objects.using(using).filter(pk=thread.pk), by).exists():
        return
    if not select_visible(Run.objects.using(using).filter(thread=thread.pk), by).exists():
        raise NoSuchThread
    raise NotAllowedError(
        f"You don't have permission to view thread {thread.thread_id!r} (view_thread).",
        thread_id=thread.thread_id,
    )


def refuse_unless_may_view_state(by: Any, thread: Thread) -> None:
    """Raise NotAllowedError unless the user may view the values in the thread's channels."""
    if by is not None and not get_policy().may_view_state(by, thread):
        raise NotAllowedError("You don't have permission to view the state of this thread.")


def render_json(values: Any) -> Any:
    """Return state values as plain JSON.

    Values of types without a JSON equivalent become strings.
    """
    return json.loads(to_json(values, inf_nan_mode="strings", bytes_mode="base64", fallback=str))


def digest_masked(registered: RegisteredGraph, values: Any, digest: str | None = None) -> str:
    """Return a digest of values without their secrets, for the audit log.

    Secrets are omitted, because a short secret can be guessed from a digest. If the graph declares
    no secrets, the result is the digest of the complete values. A caller that already knows this
    digest passes it as ``digest``.
    """
    if registered.secrets is not None:
        return digest_value(registered.mask(render_json(values)))
    return digest_value(values) if digest is None else digest


def _refuse_unless_succeeded(run: Run) -> None:
    done = [Run.State.SUCCEEDED]
    if run.state not in done:
        raise RunStateError(f"The run is {run.state}.", state=str(run.state), allowed=done)


def find_later_run(run: Run) -> UUID | None:
    """Return the id of the thread's newest started run, or None if ``run`` is the newest."""
    runs = Run.objects.using(write_alias()).filter(thread=run.thread_id)
    newest = Run.select_newest(runs, besides=run).values_list("pk", flat=True).first()
    return None if newest == run.pk else newest
