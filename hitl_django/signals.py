"""Django signals of questions and runs, for receivers in the project.

All are sent with ``send_robust`` after the commit, in the process that made the change: a receiver
that fails undoes nothing, and one that must not miss anything reads the rows instead.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.dispatch import Signal

#: A run asked something. ``interrupt_id``, ``run_id``, ``thread_id``, ``graph``.
interrupt_created = Signal()

#: Somebody decided. ``decision`` is a services.DecisionInfo.
interrupt_decided = Signal()

#: Somebody undid a decision, and the question is open again. ``decision`` is a
#: services.DecisionInfo.
decision_undone = Signal()

#: A question expires soon, unless somebody decides. ``interrupt_id``, ``run_id``, ``thread_id``,
#: ``graph``, ``expires_at``. Sent once for each time that it is asked.
interrupt_expiring = Signal()

#: A question expired. ``interrupt_id``, ``run_id``, ``thread_id``, ``graph``, ``then``.
interrupt_expired = Signal()

#: A run came to its end. ``run_id``, ``thread_id``, ``graph``.
run_succeeded = Signal()

#: A run failed or was parked. ``run_id``, ``thread_id``, ``graph``, ``state``.
run_failed = Signal()

#: A run was cancelled, by somebody or by what took its place. ``run_id``, ``thread_id``, ``graph``,
#: ``state``.
run_cancelled = Signal()


def send_on_commit(signal: Signal, *, using: str | None = None, **values: Any) -> None:
    """Send a signal once the current transaction is committed, or at once outside of one."""

    if not signal.receivers:
        return

    def send() -> None:
        signal.send_robust("hitl_django", **values)

    transaction.on_commit(send, using=using, robust=True)
