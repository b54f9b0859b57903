"""Errors of the services, the queue and the leases; some that Django answers with 403 or 404.

    HitlError
    ├─ NotAllowedError(PermissionDenied)
    │  └─ SelfApprovalError
    ├─ ThreadNotFound
    │  └─ NoSuchThread(Http404)
    ├─ RunNotFound(LookupError, Http404)
    ├─ InterruptNotFound(LookupError, Http404)
    ├─ CheckpointNotFound(LookupError, Http404)
    ├─ EventsPrunedError(LookupError)
    ├─ ClaimedError
    ├─ IdempotencyKeyReusedError(ValueError)
    ├─ RunStateError
    ├─ RunTimeoutError(TimeoutError)
    ├─ ThreadExistsError(ValueError)
    ├─ UndoRefusedError
    ├─ GraphError
    │  ├─ OpenTransactionError(RuntimeError)
    │  └─ UnknownGraphError(LookupError)
    │     ├─ BrokenGraphError(ValueError)
    │     └─ UnknownVersionError
    └─ ResumeError
       ├─ AlreadyDecidedError
       │  └─ AlreadyApprovedError
       ├─ ClaimRequiredError
       └─ StaleInterruptError

A view that lets an error pass which isn't a PermissionDenied or an Http404 has to catch it: what is
wrong with an answer it alone can show beside the form. The errors of the engine are here as well,
so that one module has all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404

from hitl_django.engine.errors import (
    AttemptTimedOutError,
    ConcurrentOnceError,
    CorruptPayloadError,
    EmptyInputError,
    GraphBubbleUp,
    GraphChangedError,
    GraphDefinitionError,
    GraphDrained,
    GraphError,
    GraphInterrupt,
    GraphRecursionError,
    HitlError,
    InterruptChangedError,
    InvalidAnswerError,
    InvalidInputError,
    InvalidNamespaceError,
    InvalidUpdateError,
    LeaseError,
    LeaseHeldError,
    LeaseLostError,
    NodeCancelledError,
    NodeInterrupt,
    NodeTimeoutError,
    NoSaverError,
    NothingPendingError,
    ParentCommand,
    PayloadError,
    PayloadLimitError,
    PendingInterruptsError,
    ResumeError,
    TaskNotFound,
    ThreadNotFound,
    UnknownInterruptError,
    UnknownTagError,
    UnserializableError,
    is_invalid_resume,
)

__all__ = [
    "AlreadyApprovedError",
    "AlreadyDecidedError",
    "AttemptTimedOutError",
    "BrokenGraphError",
    "CheckpointNotFound",
    "ClaimRequiredError",
    "ClaimedError",
    "ConcurrentOnceError",
    "CorruptPayloadError",
    "EmptyInputError",
    "EventsPrunedError",
    "GraphBubbleUp",
    "GraphChangedError",
    "GraphDefinitionError",
    "GraphDrained",
    "GraphError",
    "GraphInterrupt",
    "GraphRecursionError",
    "HitlError",
    "IdempotencyKeyReusedError",
    "InterruptChangedError",
    "InterruptNotFound",
    "InvalidAnswerError",
    "InvalidInputError",
    "InvalidNamespaceError",
    "InvalidUpdateError",
    "LeaseError",
    "LeaseHeldError",
    "LeaseLostError",
    "NoSaverError",
    "NoSuchThread",
    "NodeCancelledError",
    "NodeInterrupt",
    "NodeTimeoutError",
    "NotAllowedError",
    "NothingPendingError",
    "OpenTransactionError",
    "ParentCommand",
    "PayloadError",
    "PayloadLimitError",
    "PendingInterruptsError",
    "ResumeError",
    "RunNotFound",
    "RunStateError",
    "RunTimeoutError",
    "SelfApprovalError",
    "StaleInterruptError",
    "TaskNotFound",
    "ThreadExistsError",
    "ThreadNotFound",
    "UndoRefusedError",
    "UnknownGraphError",
    "UnknownInterruptError",
    "UnknownTagError",
    "UnknownVersionError",
    "UnserializableError",
    "is_invalid_resume",
]


class NotAllowedError(HitlError, PermissionDenied):
    """The user may not do that.

    ``thread_id`` names the thread that was to be changed, ``subject`` what of it.
    """

    def __init__(self, *args: object, thread_id: str = "", subject: str = "") -> None:
        super().__init__(*args)
        self.thread_id, self.subject = thread_id, subject


class SelfApprovalError(NotAllowedError):
    """Whoever started the run may not approve what it asks."""


class NoSuchThread(ThreadNotFound, Http404):
    """There is no such thread, or none that the user may see."""


class RunNotFound(HitlError, LookupError, Http404):
    """There is no such run."""


class InterruptNotFound(HitlError, LookupError, Http404):
    """There is no such question."""


class CheckpointNotFound(HitlError, LookupError, Http404):
    """There is no such checkpoint of the thread."""


class AlreadyDecidedError(ResumeError):
    """The question is no longer open.

    ``status`` says what became of it, ``decision`` (may be None) who decided, when and what.
    """

    def __init__(self, message: str, *, status: str, decision: Any = None) -> None:
        super().__init__(message)
        self.status, self.decision = status, decision


class AlreadyApprovedError(AlreadyDecidedError):
    """The same person has approved this version of the question; others have to agree."""


class ClaimRequiredError(ResumeError):
    """The question is decided by who has claimed it, and nobody has; nothing was recorded."""


class StaleInterruptError(ResumeError):
    """The question changed after it was shown; nothing was recorded."""


class UndoRefusedError(HitlError):
    """The decision can't be undone any more; nothing was changed."""


class ClaimedError(HitlError):
    """Somebody else holds the question.

    ``claimed_by_label`` names who, ``until`` says for how long (a datetime).
    """

    def __init__(self, message: str, *, claimed_by_label: str, until: Any) -> None:
        super().__init__(message)
        self.claimed_by_label, self.until = claimed_by_label, until


class IdempotencyKeyReusedError(HitlError, ValueError):
    """The idempotency key was used before with something else."""


class RunStateError(HitlError):
    """The run's state doesn't allow that.

    ``state`` is the run's state, ``allowed`` the states from which it would be possible.
    """

    def __init__(self, message: str, *, state: str, allowed: Sequence[str]) -> None:
        super().__init__(message)
        self.state, self.allowed = state, tuple(allowed)


class RunTimeoutError(HitlError, TimeoutError):
    """The run goes on longer than it was waited for; ``run_id`` names it."""

    def __init__(self, run_id: Any) -> None:
        super().__init__(f"Timed out waiting for run {run_id}; it is still active.")
        self.run_id = run_id


class ThreadExistsError(HitlError, ValueError):
    """Another thread or run has the id or the key that this one had."""


class EventsPrunedError(HitlError, LookupError):
    """Events after that place are kept no longer; ``last`` is the run's last, to go on from."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.last = last


class UnknownGraphError(GraphError, LookupError):
    """No graph of that name is registered."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        names = ", ".join(sorted(known)) or "none"
        super().__init__(f"Graph {name!r} is not registered. Registered graphs: {names}.")
        self.name, self.known = name, tuple(known)


class BrokenGraphError(UnknownGraphError, ValueError):
    """The graph of that name is registered, and can't be built.

    ``reason`` says why, for whoever can mend it.
    """

    def __init__(self, name: str, reason: str) -> None:
        super(UnknownGraphError, self).__init__(f"Graph {name!r} can't be loaded: {reason}")
        self.name, self.known, self.reason = name, (), reason


class UnknownVersionError(UnknownGraphError):
    """The run is pinned to a version of its graph that isn't registered."""

    def __init__(self, name: str, version: str, known: Sequence[str]) -> None:
        super(UnknownGraphError, self).__init__(
            f"The run is pinned to version {version!r} of graph {name!r}, which is not "
            f"registered. Registered versions: {', '.join(known)}."
        )
        self.name, self.version, self.known = name, version, tuple(known)


class OpenTransactionError(GraphError, RuntimeError):
    """A node returned and left a database transaction open; it is rolled back."""
