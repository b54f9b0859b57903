"""Errors and control-flow signals of the engine.

    HitlError(Exception)
    ├─ GraphError
    │  ├─ GraphDefinitionError(ValueError)
    │  ├─ InvalidUpdateError
    │  ├─ InvalidInputError(ValueError)
    │  ├─ EmptyInputError(ValueError)
    │  ├─ GraphRecursionError(RecursionError)
    │  ├─ GraphDrained
    │  ├─ NodeTimeoutError
    │  ├─ AttemptTimedOutError(RuntimeError)
    │  ├─ ConcurrentOnceError(RuntimeError)
    │  ├─ NodeCancelledError
    │  ├─ GraphChangedError
    │  └─ NoSaverError(RuntimeError)
    ├─ ResumeError
    │  ├─ UnknownInterruptError(LookupError, RuntimeError)
    │  ├─ NothingPendingError(RuntimeError)
    │  ├─ PendingInterruptsError(RuntimeError)
    │  ├─ InvalidAnswerError(ValueError)
    │  └─ InterruptChangedError
    ├─ PayloadError(ValueError)
    │  ├─ UnserializableError(TypeError)
    │  ├─ UnknownTagError
    │  ├─ CorruptPayloadError
    │  └─ PayloadLimitError
    ├─ LeaseError
    │  ├─ LeaseTakenError
    │  └─ LeaseLostError
    ├─ ThreadNotFound(LookupError)
    ├─ TaskNotFound(LookupError)
    └─ InvalidNamespaceError(ValueError)

    GraphBubbleUp(BaseException)    control flow: a node's ``except Exception`` can't swallow it
    ├─ GraphInterrupt
    │  └─ NodeInterrupt
    ├─ ParentCommand
    ├─ DrainSignal
    └─ SaverFailed

The default message of an error is the first line of its docstring.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal

from .types import ErrorCode, Interrupt


class HitlError(Exception):
    """The graph engine or the review queue refused an operation."""

    def __init__(self, *args: object) -> None:
        if not args:
            args = ((type(self).__doc__ or "").partition("\n")[0],)
        super().__init__(*args)

    def __str__(self) -> str:
        # KeyError would show its message in quotes, but messages here are complete sentences.
        return str(self.args[0]) if len(self.args) == 1 else super().__str__()


class GraphError(HitlError):
    """The graph definition or a node's behavior is invalid."""


class GraphDefinitionError(GraphError, ValueError):
    """The graph can't be compiled, or a response schema isn't supported."""


class InvalidUpdateError(GraphError):
    """A node or a caller wrote a value that the channel can't accept.

    ``code`` distinguishes two causes: several writes to a channel that accepts one write per
    super-step, and an invalid return value of a node.
    """

    def __init__(self, *args: object, code: ErrorCode | None = None) -> None:
        super().__init__(*args)
        self.code = code


class InvalidInputError(GraphError, ValueError):
    """The input doesn't fit the graph's input schema.

    ``faults`` lists ``(path, reason)`` pairs. A path has the form ``$.field[0]``.
    """

    def __init__(self, message: str, faults: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class EmptyInputError(GraphError, ValueError):
    """The graph received no input."""


class GraphRecursionError(GraphError, RecursionError):
    """The run reached its limit of super-steps without ending.

    ``limit`` is the maximum number of super-steps. ``next`` names the nodes that would have run
    next.
    """

    code = ErrorCode.GRAPH_RECURSION_LIMIT

    def __init__(self, *args: object, limit: int = 0, next: Sequence[str] = ()) -> None:
        super().__init__(*args)
        self.limit, self.next = limit, tuple(next)


class GraphDrained(GraphError):
    """The run stopped between two super-steps because a stop was requested; it can be resumed.

    ``reason`` is the reason given with the request.
    """

    def __init__(self, reason: str = "shutdown") -> None:
        super().__init__(f"Graph drained: {reason}")
        self.reason = reason


class NodeTimeoutError(GraphError):
    """An attempt at a node took longer than its timeout.

    NodeTimeoutError is not derived from the builtin TimeoutError. The builtin class is an OSError,
    which the default retry policy doesn't retry. ``kind`` is ``run`` or ``idle``. ``timeout`` is
    the exceeded limit and ``elapsed`` the duration of the attempt, both in seconds.
    """

    def __init__(
        self,
        node: str,
        elapsed: float,
        *,
        kind: Literal["idle", "run"],
        idle_timeout: float | None = None,
        run_timeout: float | None = None,
    ) -> None:
        limit = idle_timeout if kind == "idle" else run_timeout
        without = " without progress" if kind == "idle" else ""
        super().__init__(
            f"Node '{node}' reached its {kind} timeout of {limit} s{without}, "
            f"{elapsed:.3f} s after the attempt began."
        )
        self.node, self.elapsed, self.kind, self.timeout = node, elapsed, kind, limit
        self.idle_timeout, self.run_timeout = idle_timeout, run_timeout


class AttemptTimedOutError(GraphError, RuntimeError):
    """A timed-out attempt tried to call once(), a task or a graph; nothing was called or stored.

    The error is raised in the code of the timed-out attempt, which has already failed with
    NodeTimeoutError.
    """

    def __init__(self, node: str, attempt: int) -> None:
        super().__init__(
            f"Attempt {attempt} of node '{node}' has timed out: it may no longer call "
            "once(), tasks or graphs. Nothing was called or stored."
        )
        self.node, self.attempt = node, attempt


class ConcurrentOnceError(GraphError, RuntimeError):
    """A node called once() with a key while another call with that key was running."""

    def __init__(self, node: str, key: str) -> None:
        super().__init__(
            f"Node '{node}' called once({key!r}) while a call with that key is still "
            "running. Use a different key."
        )
        self.node, self.key = node, key


class NodeCancelledError(GraphError):
    """A node raised asyncio.CancelledError although the run was not cancelled."""

    def __init__(self, node: str, message: str | None = None) -> None:
        super().__init__(message or f"Node '{node}' raised asyncio.CancelledError")
        self.node = node


class GraphChangedError(GraphError):
    """The stored thread doesn't fit the current structure of the graph.

    ``changes`` lists a description of each incompatible change.
    """

    def __init__(
        self, message: str, changes: Sequence[str] = (), *, thread_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.changes, self.thread_id = tuple(changes), thread_id


class NoSaverError(GraphError, RuntimeError):
    """The call needs a checkpoint saver, but the graph has none."""


class ResumeError(HitlError):
    """The resume value can't be accepted."""


class UnknownInterruptError(ResumeError, LookupError, RuntimeError):
    """The resume value names an interrupt that isn't pending.

    The error is raised before anything is stored. The interrupts in ``pending_ids`` are still
    pending. ``reason`` is one of these:

    - ``not_pending``: the interrupts in ``interrupt_ids`` aren't pending
    - ``ambiguous``: several interrupts are pending, and the value names none of them
    - ``empty_map``: the resume value is an empty dict
    """

    def __init__(
        self, message: str, *, reason: str, interrupt_ids: Sequence[str], pending_ids: Sequence[str]
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.interrupt_ids = tuple(sorted(interrupt_ids))
        self.pending_ids = tuple(sorted(pending_ids))


class NothingPendingError(ResumeError, RuntimeError):
    """The thread has no pending interrupt, so there is nothing to resume."""

    def __init__(self, *args: object, thread_id: str | None = None) -> None:
        super().__init__(*args)
        self.thread_id = thread_id


class PendingInterruptsError(ResumeError, RuntimeError):
    """The thread has pending interrupts, which the call would discard.

    ``pending_ids`` lists the ids of the interrupts. ``thread_id`` is the id of the thread.
    """

    def __init__(
        self, message: str, pending_ids: Sequence[str], *, thread_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.pending_ids, self.thread_id = tuple(sorted(pending_ids)), thread_id


class InvalidAnswerError(ResumeError, ValueError):
    """The response doesn't fit the interrupt's response schema; nothing was stored.

    ``faults`` lists ``(JSON pointer, reason)`` pairs.
    """

    def __init__(self, message: str, faults: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class InterruptChangedError(ResumeError):
    """A task that ran again created a different interrupt than the one already decided."""


class PayloadError(HitlError, ValueError):
    """A value can't be stored or read back."""


class UnserializableError(PayloadError, TypeError):
    """The value has a part that can't be stored.

    ``path`` is the path to that part, for example ``$.state.user``.
    """

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


class UnknownTagError(PayloadError):
    """Stored bytes contain a type tag for which no type is registered."""


class CorruptPayloadError(PayloadError):
    """Stored bytes are damaged: they don't decode or don't match their digest."""


class PayloadLimitError(PayloadError):
    """The value is larger than the limit."""

    def __init__(self, message: str, *, limit: int, found: int) -> None:
        super().__init__(message)
        self.limit, self.found = limit, found


class LeaseError(HitlError):
    """A run has no exclusive lease on its thread.

    ``thread_id`` is the id of the thread, or None if it isn't known.
    """

    def __init__(self, *args: object, thread_id: str | None = None) -> None:
        super().__init__(*args)
        self.thread_id = thread_id


class LeaseTakenError(LeaseError):
    """Another run has the lease on this thread; nothing was stored."""


class LeaseLostError(LeaseError):
    """Another run has taken over the lease on this thread; nothing was stored."""


class ThreadNotFound(HitlError, LookupError):
    """Thread not found.

    ``thread_id`` is the requested thread. ``checkpoint_id`` is the requested checkpoint, if the
    thread exists but doesn't have this checkpoint.
    """

    def __init__(
        self, *args: object, thread_id: str | None = None, checkpoint_id: str | None = None
    ) -> None:
        super().__init__(*args)
        self.thread_id, self.checkpoint_id = thread_id, checkpoint_id


class TaskNotFound(HitlError, LookupError):
    """Task not found at this checkpoint."""


class InvalidNamespaceError(HitlError, ValueError):
    """A store's namespace must be a tuple of non-empty labels without periods."""


class GraphBubbleUp(BaseException):
    """Base class of signals between a node and the loop.

    The class derives from BaseException so that a node's ``except Exception`` doesn't catch the
    signal.
    """


class GraphInterrupt(GraphBubbleUp):
    """The node paused to wait for a decision; ``interrupts`` are its interrupts, oldest first."""

    def __init__(self, interrupts: Sequence[Any] = ()) -> None:
        super().__init__(tuple(interrupts))
        self.interrupts: tuple[Any, ...] = tuple(interrupts)


class NodeInterrupt(GraphInterrupt):
    """A node paused with the deprecated ``raise NodeInterrupt(value)``."""

    def __init__(self, value: Any, id: str | None = None, **_: Any) -> None:
        warnings.warn(
            "NodeInterrupt is deprecated; call interrupt().", DeprecationWarning, stacklevel=2
        )
        super().__init__([Interrupt(value) if id is None else Interrupt(value, id)])


class ParentCommand(GraphBubbleUp):
    """A node of a subgraph returned a Command for the graph that calls the subgraph."""

    def __init__(self, command: Any) -> None:
        super().__init__(command)
        self.command = command


class DrainSignal(GraphBubbleUp):
    """A graph called by a node stopped between two super-steps, because a stop was requested."""


class SaverFailed(GraphBubbleUp):
    """An error of the saver or of the task queue, which must not count as a failure of the node.

    ``error`` is the original error, for example SoftTimeLimitExceeded of the task queue Celery.
    The signal passes through the node, and the run raises ``error`` to its caller.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


def iterate_leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the leaf errors of an exception group, or the error itself if it isn't a group."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from iterate_leaves(part)
    else:
        yield error


def resolve_group(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the single error or signal that represents an exception group.

    Task groups of asyncio and anyio raise exception groups. A group of pauses becomes one pause
    with all interrupts. From a group with failures and pauses, only the failures are kept. A
    cancellation is returned only if the group contains nothing else.
    """
    signals, failures = group.split(GraphBubbleUp)
    failed = failures and failures.split(asyncio.CancelledError)[1]
    leaves = () if signals is None else tuple(iterate_leaves(signals))
    passing = next((leaf for leaf in leaves if isinstance(leaf, SaverFailed)), None)
    if passing is not None:
        return passing
    if failed:
        return failed
    if not leaves:
        return next(iterate_leaves(group))
    drained = next((leaf for leaf in leaves if isinstance(leaf, DrainSignal)), None)
    if drained is not None:
        return drained
    pauses = [leaf for leaf in leaves if isinstance(leaf, GraphInterrupt)]
    if pauses:
        raised = {id(one): one for pause in pauses for one in pause.interrupts}
        return GraphInterrupt(tuple(raised.values())).with_traceback(group.__traceback__)
    if len(leaves) > 1:
        return InvalidUpdateError(
            f"A node raised {len(leaves)} commands for the graph that called its graph in one "
            "task group; one at most is possible."
        )
    return leaves[0]


def annotate(error: BaseException, note: str) -> None:
    """Add a note to an error, unless the error's class rejects notes."""
    with suppress(Exception):
        error.add_note(note)


def is_invalid_resume(error: BaseException) -> bool:
    """Return whether the error means that a response doesn't fit its response schema."""
    return isinstance(error, InvalidAnswerError)
