"""All errors of the package, including those of the engine.

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

Django responds with status 403 to errors that derive from PermissionDenied, and with status 404 to
errors that derive from Http404. Views have to catch all other errors. The default message of an
error is the first line of the docstring of its class.
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
    LeaseLostError,
    LeaseTakenError,
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
    "LeaseLostError",
    "LeaseTakenError",
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
    """The user doesn't have permission to do this.

    Attributes:
        thread_id: the id of the thread concerned; empty if there is none.
        subject: the id of the row concerned within the thread, such as an interrupt or a run.
    """

    def __init__(self, *args: object, thread_id: str = "", subject: str = "") -> None:
        super().__init__(*args)
        self.thread_id, self.subject = thread_id, subject


class SelfApprovalError(NotAllowedError):
    """The user who started a run may not approve its interrupts."""


class NoSuchThread(ThreadNotFound, Http404):
    """Thread not found, or the user doesn't have permission to view it."""


class RunNotFound(HitlError, LookupError, Http404):
    """Run not found."""


class InterruptNotFound(HitlError, LookupError, Http404):
    """Interrupt not found."""


class CheckpointNotFound(HitlError, LookupError, Http404):
    """Checkpoint not found."""


class AlreadyDecidedError(ResumeError):
    """The interrupt is no longer pending.

    Attributes:
        status: the interrupt's status.
        decision: the ``DecisionInfo`` of the decision that closed it, or None.
    """

    def __init__(self, message: str, *, status: str, decision: Any = None) -> None:
        super().__init__(message)
        self.status, self.decision = status, decision


class AlreadyApprovedError(AlreadyDecidedError):
    """You already approved this version of the interrupt. Another person must approve it."""


class ClaimRequiredError(ResumeError):
    """The interrupt must be claimed before it can be decided. Nothing was saved."""


class StaleInterruptError(ResumeError):
    """The interrupt changed after it was displayed. Nothing was saved."""


class UndoRefusedError(HitlError):
    """The decision can no longer be undone. Nothing was changed."""


class ClaimedError(HitlError):
    """The interrupt is claimed by another user.

    Attributes:
        claimed_by_label: the name of that user.
        until: the time at which the claim ends, a datetime.
    """

    def __init__(self, message: str, *, claimed_by_label: str, until: Any) -> None:
        super().__init__(message)
        self.claimed_by_label, self.until = claimed_by_label, until


class IdempotencyKeyReusedError(HitlError, ValueError):
    """The idempotency key was already used with a different request."""


class RunStateError(HitlError):
    """The run's state doesn't allow this.

    Attributes:
        state: the run's state.
        allowed: the states in which the action is possible.
    """

    def __init__(self, message: str, *, state: str, allowed: Sequence[str]) -> None:
        super().__init__(message)
        self.state, self.allowed = state, tuple(allowed)


class RunTimeoutError(HitlError, TimeoutError):
    """The run has not ended within the time limit.

    Attributes:
        run_id: the id of the run.
    """

    def __init__(self, run_id: Any) -> None:
        super().__init__(f"Timed out waiting for run {run_id}; it is still active.")
        self.run_id = run_id


class ThreadExistsError(HitlError, ValueError):
    """A thread or run with this id or idempotency key already exists."""


class EventsPrunedError(HitlError, LookupError):
    """The events after the requested position have been deleted.

    Attributes:
        last: the number of the run's last event. Reading can continue after this event.
    """

    def __init__(self, last: int) -> None:
        super().__init__()
        self.last = last


class UnknownGraphError(GraphError, LookupError):
    """The graph is not registered."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        names = ", ".join(sorted(known)) or "none"
        super().__init__(f"Graph {name!r} is not registered. Registered graphs: {names}.")
        self.name, self.known = name, tuple(known)


class BrokenGraphError(UnknownGraphError, ValueError):
    """The graph is registered, but can't be built.

    ``reason`` is the error message, for developers.
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
    """A node returned with an open database transaction, which has been rolled back."""
