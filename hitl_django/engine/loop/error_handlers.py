"""Error handlers, which handle a node's failure in the same super-step.

A handler runs as a separate task with the input of the failed task. The failure is stored before
the handler starts. If the process crashes or the handler fails, a later run repeats the handler,
not the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import ids
from ..constants import PUSH
from ..errors import InvalidAnswerError
from ..task.graph_spec import GraphSpec
from ..task.nodes import Node
from ..task.task import Task
from ..task.task_status import TaskStatus
from ..types import NodeError

#: The node name of the default handler set with set_node_defaults.
DEFAULT_HANDLER = "__default_error_handler__"
_STEP = "node_error_handler"


def get_handler_name(node: str) -> str:
    """Return the node name of the error handler that only ``node`` uses."""
    return f"__error_handler__{node}"


class StoredFailure(Exception):
    """A node's error as read from a checkpoint: the original message, but another class.

    Its text and repr equal those of the original error, so that a repeated error handler creates
    the same interrupt.
    """

    def __init__(self, message: str, described: str) -> None:
        super().__init__(message)
        self.described = described

    def __repr__(self) -> str:
        return self.described


class HandlerTask(Task):
    """The task of an error handler for one failed task."""

    __slots__ = ("failed", "failure")

    def __init__(self, name: str, node: Node, failed: Task, error: BaseException) -> None:
        path = (*failed.path, _STEP, False)
        super().__init__(name, node, path, (PUSH,), failed.input, failed.origin)
        self.failed = failed
        self.failure = NodeError(failed.name, error)

    @property
    def id(self) -> str:
        if self._id is None:
            self._id = ids.make_task_id(
                self.origin.id_bytes, self._node_ns(), str(self.origin.step),
                self.origin.get_former_name(self.name), _STEP, self.failed.id,
            )  # fmt: skip
        return self._id


def get_handled_failure(task: Task) -> NodeError | None:
    """Return the failure that a task handles, or None if the task doesn't run an error handler."""
    return task.failure if isinstance(task, HandlerTask) else None


def has_handler(task: Task) -> bool:
    """Return whether the task has failed and an error handler handles its failures.

    Pauses and drains (requested stops) are not failures. An invalid response isn't a failure
    either, because the reviewer can correct it.
    """
    return (
        task.node.handler is not None
        and isinstance(task.error, Exception)
        and not isinstance(task.error, InvalidAnswerError)
    )


def start_handler(spec: GraphSpec, failed: Task) -> HandlerTask:
    """Return the task of the error handler for ``failed``.

    Mark ``failed`` as ended without writes.
    """
    assert failed.node.handler is not None
    assert failed.error is not None
    name, error = failed.node.handler, failed.error
    failed.error, failed.writes = None, ()
    return HandlerTask(name, spec.nodes[name], failed, error)


def restore_handlers(
    spec: GraphSpec, tasks: Sequence[Task], statuses: Mapping[str, TaskStatus]
) -> list[HandlerTask]:
    """Return the tasks of the error handlers that were started for failed tasks in ``tasks``.

    The stored writes of a failed task show whether its error handler was started. The returned
    tasks may already have finished.
    """
    found = []
    for task in tasks:
        status = statuses.get(task.id)
        if status is None or status.finished or status.handled is None:
            continue
        name = task.node.handler
        if name is not None:
            error = StoredFailure(status.handled or str(status.error), str(status.error))
            found.append(HandlerTask(name, spec.nodes[name], task, error))
    return found
