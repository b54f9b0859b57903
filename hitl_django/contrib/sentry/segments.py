"""Tags of Sentry reports about run segments and nodes, and reports of node errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sentry_sdk
from sentry_sdk.utils import event_from_exception

from hitl_django.engine.errors import DrainSignal, ParentCommand
from hitl_django.engine.task.context import TaskContext
from hitl_django.run_leases import RunLease


@contextmanager
def observe_segment(lease: RunLease) -> Iterator[TaggedSegment]:
    """Tag all Sentry reports within a run segment with the run's id and graph."""
    with sentry_sdk.isolation_scope() as scope:
        scope.set_tag("run", str(lease.run_id))
        scope.set_tag("graph", lease.graph)
        yield TaggedSegment()


class TaggedSegment:
    """Observer of a run segment: tags Sentry reports with the node, and reports errors of nodes."""

    @contextmanager
    def around_task(self, context: TaskContext) -> Iterator[None]:
        """Tag all Sentry reports within a task with the name of the node.

        If the task fails, its error is reported once, after the last attempt.
        """
        task = context.task
        with sentry_sdk.isolation_scope() as scope:
            scope.set_tag("node", task.name)
            yield
            error = task.error
            if error is not None and not isinstance(error, DrainSignal | ParentCommand):
                _report(error)

    def note_outcome(self, status: str, error: BaseException | None) -> None:
        """Do nothing.

        Errors of nodes have already been reported, and the worker logs other errors.
        """


def _report(error: BaseException) -> None:
    """Report an error without the values of variables, because they contain contents of the run."""
    client = sentry_sdk.get_client()
    if client.is_active():
        options = {**client.options, "include_local_variables": False}
        mechanism = {"type": "hitl_django", "handled": True}
        event, hint = event_from_exception(error, options, mechanism)
        sentry_sdk.capture_event(event, hint)
