"""Graphs, threads, states and runs in the format of LangGraph's clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from hitl_django.api.serializers.fields import OffsetDateTimeField
from hitl_django.engine.constants import END
from hitl_django.engine.drawing import Drawing
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.services import InterruptInfo, StateInfo, TaskInfo

from .models import Assistant, AssistantContents, AssistantVersion

#: Key of a thread's metadata with the id of an assistant that isn't built in.
ASSISTANT_KEY = "langgraph_assistant_id"
#: Namespace from which LangGraph's server also derives assistant ids.
NAMESPACE = UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")

PENDING, RUNNING, ERROR, SUCCESS, INTERRUPTED = (
    "pending",
    "running",
    "error",
    "success",
    "interrupted",
)
RUN_STATUS: dict[str, str] = {
    Run.State.WAITING: PENDING,
    Run.State.QUEUED: PENDING,
    Run.State.RUNNING: RUNNING,
    Run.State.INTERRUPTED: INTERRUPTED,
    Run.State.SUCCEEDED: SUCCESS,
    Run.State.FAILED: ERROR,
    Run.State.PARKED: ERROR,
    Run.State.CANCELLED: INTERRUPTED,
}
#: The thread's status by the state of its newest started run. A thread without a started run is
#: idle.
THREAD_STATUS: dict[str | None, str] = {
    None: "idle",
    Run.State.QUEUED: "busy",
    Run.State.RUNNING: "busy",
    Run.State.INTERRUPTED: "interrupted",
    Run.State.SUCCEEDED: "idle",
    Run.State.FAILED: "error",
    Run.State.PARKED: "error",
    Run.State.CANCELLED: "idle",
}


def build_assistant_id(graph: str) -> str:
    """Return the id of the built-in assistant of a graph."""
    return str(uuid5(NAMESPACE, graph))


def build_assistant(assistant: Assistant) -> dict[str, Any]:
    return {
        "assistant_id": str(assistant.pk),
        **_build_contents(assistant),
        "updated_at": serialize_datetime(assistant.updated_at),
    }


def build_version(version: AssistantVersion) -> dict[str, Any]:
    return {"assistant_id": str(version.assistant_id), **_build_contents(version)}


def _build_contents(contents: AssistantContents) -> dict[str, Any]:
    return {
        "graph_id": contents.graph,
        "name": contents.name,
        "description": contents.description or None,
        "config": contents.config,
        "context": contents.context and registry.mask_context(contents.graph, contents.context),
        "metadata": contents.metadata,
        "version": contents.version,
        "created_at": serialize_datetime(contents.created_at),
    }


def build_thread(
    thread: Thread,
    run: Run | None,
    interrupts: Iterable[Interrupt],
    values: Any,
    state_changed: datetime | None = None,
) -> dict[str, Any]:
    """Return a thread in the clients' format, with the status of its newest run ``run``.

    ``values`` may be None. ``state_changed`` is the time of the newest state.
    """
    asked: dict[str, list[Any]] = {}
    for interrupt in interrupts:
        asked.setdefault(interrupt.task_id, []).append(
            {"id": interrupt.interrupt_id, "value": interrupt.payload}
        )
    changed = thread.created_at
    if run is not None:
        changed = run.finished_at or run.queued_at
    return {
        "thread_id": thread.thread_id,
        "created_at": serialize_datetime(thread.created_at),
        "updated_at": serialize_datetime(changed),
        "state_updated_at": serialize_datetime(state_changed or thread.created_at),
        "metadata": build_thread_metadata(thread),
        "status": THREAD_STATUS[None if run is None else run.state],
        "config": {},
        "values": values,
        "interrupts": asked,
    }


def build_thread_metadata(thread: Thread) -> dict[str, Any]:
    """Return the metadata of a thread and, if it has a graph, ``graph_id`` and ``assistant_id``."""
    metadata = dict(thread.metadata)
    assistant_id = metadata.pop(ASSISTANT_KEY, None)
    if not thread.graph:
        return metadata
    names = {
        "graph_id": thread.graph,
        "assistant_id": assistant_id or build_assistant_id(thread.graph),
    }
    return {**metadata, **names}


def build_drawing(drawing: Drawing) -> dict[str, Any]:
    """Return the nodes and edges of a graph. All nodes except END have the type ``runnable``."""
    built = drawing.to_json()
    for node in built["nodes"]:
        if node["id"] != END:
            node |= {"type": "runnable", "data": {"id": ["hitl_django"], "name": node["name"]}}
    return built


def find_assistant_id(run: Run) -> str:
    """Return the id of the assistant of a run.

    A run that was not started over this API has the built-in assistant of its graph.
    """
    configurable = (run.options or {}).get("configurable", {})
    return str(configurable.get("assistant_id") or build_assistant_id(run.graph))


def build_run(run: Run) -> dict[str, Any]:
    return {
        "run_id": str(run.pk),
        "thread_id": run.thread.thread_id,
        "assistant_id": find_assistant_id(run),
        "created_at": serialize_datetime(run.created_at),
        "updated_at": serialize_datetime(run.finished_at or run.queued_at),
        "status": RUN_STATUS[run.state],
        "metadata": {**(run.options or {}).get("metadata", {}), "graph_id": run.graph},
        "kwargs": {},
        "multitask_strategy": "reject" if run.input is None else "enqueue",
        "cancel_reason": None,
    }


def build_state(state: StateInfo, *, shows_errors: bool) -> dict[str, Any]:
    """Return the state of a thread.

    Errors of tasks are included only if ``shows_errors`` is true.
    """
    return {
        "values": state.values,
        "next": list(state.next),
        "tasks": [_build_task(state.thread_id, task, shows_errors) for task in state.tasks],
        "interrupts": [found for task in state.tasks for found in _build_interrupts(task)],
        "checkpoint": (
            None
            if state.checkpoint_id is None
            else build_checkpoint(state.thread_id, state.namespace, state.checkpoint_id)
        ),
        "parent_checkpoint": (
            None
            if state.parent_id is None
            else build_checkpoint(state.thread_id, state.namespace, state.parent_id)
        ),
        # Older clients read the ids instead of the checkpoints.
        "checkpoint_id": state.checkpoint_id,
        "parent_checkpoint_id": state.parent_id,
        "metadata": state.metadata,
        "created_at": state.created_at,
    }


def select_keys(document: dict[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
    """Return the selected members of a document, or all members if ``wanted`` is empty.

    ``values.messages`` selects the key ``messages`` of the member ``values``.
    """
    if not wanted:
        return document
    chosen: dict[str, Any] = {}
    for path in wanted:
        name, _, key = path.partition(".")
        if not key:
            chosen[name] = document.get(name)
        elif isinstance(document.get(name), dict) and not isinstance(chosen.get(name), list):
            chosen.setdefault(name, {})[key] = document[name].get(key)
    return chosen


def _build_task(thread_id: str, task: TaskInfo, shows_errors: bool) -> dict[str, Any]:
    error = task.error
    if error is not None and not shows_errors:
        error = "The task failed."
    below = None if task.state is None else build_state(task.state, shows_errors=shows_errors)
    return {
        "id": task.id,
        "name": task.name,
        "path": list(task.path),
        "error": error,
        "interrupts": _build_interrupts(task),
        "checkpoint": (
            None if task.namespace is None else build_checkpoint(thread_id, task.namespace, None)
        ),
        "state": below,
        "result": task.result,
    }


def _build_interrupts(task: TaskInfo) -> list[dict[str, Any]]:
    return [_build_interrupt(each) for each in task.interrupts]


def _build_interrupt(interrupt: InterruptInfo) -> dict[str, Any]:
    built = {"id": interrupt.id, "value": interrupt.value}
    if interrupt.response_schema is not None:  # Clients expect an object.
        built["response_schema"] = interrupt.response_schema
    return built


def build_checkpoint(thread_id: str, namespace: str, checkpoint_id: str | None) -> dict[str, Any]:
    """Return a reference to a checkpoint.

    Without an id, the reference is to the newest checkpoint of the namespace.
    """
    return {
        "thread_id": thread_id,
        "checkpoint_ns": namespace,
        "checkpoint_id": checkpoint_id,
        "checkpoint_map": None,
    }


def serialize_datetime(value: datetime) -> str:
    return str(OffsetDateTimeField().to_representation(value))
