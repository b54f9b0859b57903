"""Django signals for interrupts and runs.

The signals are sent with ``send_robust`` after the commit, in the process that made the change. An
error in a receiver doesn't revert the change. Receivers that must not miss a change should read the
rows.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.dispatch import Signal

#: Sent after a run was interrupted: ``interrupt_id``, ``run_id``, ``thread_id``, ``graph``.
interrupt_created = Signal()

#: Sent after a decision: ``decision``, a services.DecisionInfo.
interrupt_decided = Signal()

#: Sent after an undo, when the interrupt is pending again: ``decision``, a services.DecisionInfo.
decision_undone = Signal()

#: Sent some time before an interrupt expires: ``interrupt_id``, ``run_id``, ``thread_id``,
#: ``graph``, ``expires_at``. Sent once for each version of the interrupt.
interrupt_expiring = Signal()

#: Sent after an interrupt expired: ``interrupt_id``, ``run_id``, ``thread_id``, ``graph``,
#: ``then``.
interrupt_expired = Signal()

#: Sent after a run succeeded: ``run_id``, ``thread_id``, ``graph``.
run_succeeded = Signal()

#: Sent after a run failed or was parked: ``run_id``, ``thread_id``, ``graph``, ``state``.
run_failed = Signal()

#: Sent after a run was cancelled or superseded: ``run_id``, ``thread_id``, ``graph``, ``state``.
run_cancelled = Signal()


def send_on_commit(signal: Signal, *, using: str | None = None, **values: Any) -> None:
    """Send a signal after the current transaction commits.

    Without a transaction, send the signal immediately.
    """

    if not signal.receivers:
        return

    def send() -> None:
        signal.send_robust("hitl_django", **values)

    transaction.on_commit(send, using=using, robust=True)
