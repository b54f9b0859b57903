"""Storage of the reason why the task queue stopped a run, before the process ends."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from hitl_django import run_leases
from hitl_django.db.connections import reset_connections
from hitl_django.engine.errors import iterate_leaves
from hitl_django.engine.task.runtime import RunControl
from hitl_django.errors import LeaseLostError
from hitl_django.run_leases import RunLease
from hitl_django.task_queue import dispatcher

logger = logging.getLogger("hitl_django")


class StopNote:
    """A listener that stores the reason and the running nodes if the task queue stops a run.

    The task queue stops a run with an error, for example a timeout (``get_stop_errors``). If the
    nodes don't end in time, the queue may kill the process. The reason is then already stored, and
    the lease expires.
    """

    def __init__(self, lease: RunLease) -> None:
        self._lease = lease
        self._reasons: Mapping[type[BaseException], str] = dispatcher.get_stop_errors()
        self._noted: str | None = None

    def watch(self, control: RunControl) -> None:
        """If an error of the task queue stops the run of ``control``, store the reason."""
        control.stop_errors += tuple(self._reasons)
        control.on_stop = self._note

    def describe(self, error: BaseException) -> str | None:
        """Return the reason why the task queue stopped the run.

        ``error`` is the error that ended the run. Return None if the task queue didn't stop the
        run.
        """
        return self._noted or self._find_reason(error)

    def _note(self, error: BaseException, nodes: Sequence[str]) -> None:
        reason = self._find_reason(error) or type(error).__name__
        names = ", ".join(f"'{name}'" for name in dict.fromkeys(nodes))
        if names:
            reason += f" in node {names}" if len(set(nodes)) == 1 else f" in nodes {names}"
        self._noted = reason
        try:
            reset_connections()
            run_leases.note_error(self._lease, reason)
        except LeaseLostError:
            pass  # Another worker has the lease.
        except Exception:
            fields = self._lease.log_fields()
            logger.exception("run %s: reason not stored", self._lease.run_id, extra=fields)

    def _find_reason(self, error: BaseException) -> str | None:
        for leaf in iterate_leaves(error):
            for kind, reason in self._reasons.items():
                if isinstance(leaf, kind):
                    return reason
        return None
