"""State of the run of an imported thread, and checks that the graph can resume the thread."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine.constants import INTERRUPT, NULL_TASK_ID, RETURN
from hitl_django.engine.errors import GraphChangedError
from hitl_django.engine.savers.checkpoint import CheckpointTuple, PendingWrite
from hitl_django.graph_registry.registry import RegisteredGraph
from hitl_django.json_text.sanitize import escape_unstorable
from hitl_django.models import Run
from hitl_django.run_leases.transitions import ERROR_LENGTH

from .pending_steps import REPEATABLE

#: End of the path of a task that another task called. Checkpoints don't contain these tasks.
_CALL_ENDING = ", True"


def check_known_nodes(root: CheckpointTuple, registered: RegisteredGraph) -> None:
    """Raise GraphChangedError if the thread has run a node that the graph doesn't have.

    ``root`` is the thread's newest checkpoint of the root graph.
    """
    seen = {name for name in root.checkpoint["versions_seen"] if not name.startswith("__")}
    strangers = sorted(seen - set(registered.graph.nodes))
    if strangers:
        changes = [f"the node {name!r} has run" for name in strangers]
        raise GraphChangedError(
            f"The thread doesn't belong to graph {registered.name!r}: the graph has no "
            f"node {', '.join(map(repr, strangers))}.",
            changes,
        )


def find_state(
    registered: RegisteredGraph,
    saver: DjangoSaver,
    thread_id: str,
    paths: Mapping[str, str],
) -> tuple[Run.State, str]:
    """Return the state and the error that the run of an imported thread gets.

    The error is an empty string if the run succeeded or is queued. ``paths`` are the paths of the
    thread's tasks, by task id.

    Raises:
        GraphChangedError: stored results or responses don't match any task of the graph.
    """
    graph: Any = registered.graph.with_saver(saver)
    config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    snapshot, stored = graph.get_state(config), saver.get_tuple(config)
    writes = () if stored is None else stored.pending_writes or ()
    _refuse_lost_results(writes, {task.id for task in snapshot.tasks}, paths)
    if not snapshot.next:
        return Run.State.SUCCEEDED, ""
    before = graph.interrupt_before_nodes
    stops = before == "*" or set(before).intersection(snapshot.next)
    if stops or any(name == INTERRUPT for _, name, _ in writes):
        return Run.State.QUEUED, ""
    failed = [task.error for task in snapshot.tasks if task.error is not None]
    if failed:
        return Run.State.FAILED, escape_unstorable(str(failed[0]))[:ERROR_LENGTH]
    # The run was in the middle of a super-step, or was stopped after a node.
    return Run.State.PARKED, f"LangGraph had not yet run {', '.join(snapshot.next)}."


def _refuse_lost_results(
    writes: Sequence[PendingWrite], known: Container[str], paths: Mapping[str, str]
) -> None:
    """Raise GraphChangedError if stored results or responses don't match any task of the graph.

    ``known`` are the ids of the tasks that the graph would run now. ``paths`` are the paths of the
    stored tasks, by task id. Task ids depend on the graph's structure, and older releases of
    LangGraph computed the ids differently. If the ids of the stored tasks differ from ``known``,
    the tasks would run again, and interrupts that have a response would be created again.
    """
    for task_id, name, _ in writes:
        is_called = name == RETURN or paths.get(task_id, "").endswith(_CALL_ENDING)
        if not (task_id in known or task_id == NULL_TASK_ID or is_called or name in REPEATABLE):
            raise GraphChangedError(
                "The last step has task results or responses that don't match any task "
                "of the graph: the graph has changed, or they were stored by an old "
                "LangGraph release.",
                [f"task {task_id} doesn't match"],
            )
