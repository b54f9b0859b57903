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
    │  ├─ LeaseHeldError
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
    """Something in the graph engine or the review queue was refused."""

    def __init__(self, *args: object) -> None:
        if not args:
            args = ((type(self).__doc__ or "").partition("\n")[0],)
        super().__init__(*args)

    def __str__(self) -> str:
        # KeyError and friends quote their message, which is a sentence here.
        return str(self.args[0]) if len(self.args) == 1 else super().__str__()


class GraphError(HitlError):
    """The graph, or what a node of it did, is at fault."""


class GraphDefinitionError(GraphError, ValueError):
    """The graph can't be compiled, or a response schema of a node can't be applied."""


class InvalidUpdateError(GraphError):
    """A node or a caller wrote what a channel can't take.

    ``code`` tells apart two writes where one may be, and a node's result that is no update.
    """

    def __init__(self, *args: object, code: ErrorCode | None = None) -> None:
        super().__init__(*args)
        self.code = code


class InvalidInputError(GraphError, ValueError):
    """The input doesn't fit the graph's input schema.

    ``faults`` lists ``(path, reason)`` pairs, the path as ``$.field[0]``.
    """

    def __init__(self, message: str, faults: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class EmptyInputError(GraphError, ValueError):
    """The graph received no input."""


class GraphRecursionError(GraphError, RecursionError):
    """The run reached its limit of super-steps without coming to an end.

    ``limit`` is that limit, ``next`` names the nodes that would have run.
    """

    code = ErrorCode.GRAPH_RECURSION_LIMIT

    def __init__(self, *args: object, limit: int = 0, next: Sequence[str] = ()) -> None:
        super().__init__(*args)
        self.limit, self.next = limit, tuple(next)


class GraphDrained(GraphError):
    """The run stopped at the edge of a super-step because it was asked to; it can go on later.

    ``reason`` is what it was asked with.
    """

    def __init__(self, reason: str = "shutdown") -> None:
        super().__init__(f"Graph drained: {reason}")
        self.reason = reason


class NodeTimeoutError(GraphError):
    """An attempt at a node took longer than its timeout.

    No builtin TimeoutError, which is an OSError: a retry policy tries again after this one.
    ``kind`` is ``run`` or ``idle``, ``timeout`` the limit that was reached, ``elapsed`` how long
    the attempt had run; all in seconds.
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
    """An attempt whose time is over called something that only the next one may; nothing was done.

    Raised in the code of the late attempt, which has failed with NodeTimeoutError already.
    """

    def __init__(self, node: str, attempt: int) -> None:
        super().__init__(
            f"Attempt {attempt} of node '{node}' has timed out: it may no longer call "
            "once(), tasks or graphs. Nothing was called or stored."
        )
        self.node, self.attempt = node, attempt


class ConcurrentOnceError(GraphError, RuntimeError):
    """Code of a node called once() with a key under which something is being done right now."""

    def __init__(self, node: str, key: str) -> None:
        super().__init__(
            f"Node '{node}' called once({key!r}) while a call with that key is still "
            "running. Use a different key."
        )
        self.node, self.key = node, key


class NodeCancelledError(GraphError):
    """A node raised asyncio.CancelledError although nobody had cancelled the run."""

    def __init__(self, node: str, message: str | None = None) -> None:
        super().__init__(message or f"Node '{node}' raised asyncio.CancelledError")
        self.node = node


class GraphChangedError(GraphError):
    """The stored thread was paused under another shape of the graph.

    ``changes`` says in words what it relies on and isn't there any more.
    """

    def __init__(
        self, message: str, changes: Sequence[str] = (), *, thread_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.changes, self.thread_id = tuple(changes), thread_id


class NoSaverError(GraphError, RuntimeError):
    """The call needs a checkpoint saver and the graph has none."""


class ResumeError(HitlError):
    """An answer can't be taken."""


class UnknownInterruptError(ResumeError, LookupError, RuntimeError):
    """The resume names a question that isn't open.

    Raised before anything is written: the questions in ``pending_ids`` can still be answered.
    ``reason`` is ``not_pending``, ``ambiguous`` or ``empty_map``.
    """

    def __init__(
        self, message: str, *, reason: str, interrupt_ids: Sequence[str], pending_ids: Sequence[str]
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.interrupt_ids = tuple(sorted(interrupt_ids))
        self.pending_ids = tuple(sorted(pending_ids))


class NothingPendingError(ResumeError, RuntimeError):
    """The thread waits for no answer, so there is nothing to resume."""

    def __init__(self, *args: object, thread_id: str | None = None) -> None:
        super().__init__(*args)
        self.thread_id = thread_id


class PendingInterruptsError(ResumeError, RuntimeError):
    """The thread waits for answers and would lose them.

    ``pending_ids`` names the open questions, ``thread_id`` the thread.
    """

    def __init__(
        self, message: str, pending_ids: Sequence[str], *, thread_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.pending_ids, self.thread_id = tuple(sorted(pending_ids)), thread_id


class InvalidAnswerError(ResumeError, ValueError):
    """The answer doesn't fit the question's response schema; nothing was recorded.

    ``faults`` lists ``(JSON pointer, reason)`` pairs.
    """

    def __init__(self, message: str, faults: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class InterruptChangedError(ResumeError):
    """A task that ran again asked something else where an answer was already given."""


class PayloadError(HitlError, ValueError):
    """A value can't be stored or read back."""


class UnserializableError(PayloadError, TypeError):
    """The value has a part that can't be stored.

    ``path`` leads to it, as ``$.state.user``.
    """

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


class UnknownTagError(PayloadError):
    """Stored bytes carry a type tag that nothing is registered for."""


class CorruptPayloadError(PayloadError):
    """Stored bytes are damaged: they don't decode or don't match their digest."""


class PayloadLimitError(PayloadError):
    """The value is larger than the limit."""

    def __init__(self, message: str, *, limit: int, found: int) -> None:
        super().__init__(message)
        self.limit, self.found = limit, found


class LeaseError(HitlError):
    """A run doesn't have its thread to itself.

    ``thread_id`` is the thread, where it was named.
    """

    def __init__(self, *args: object, thread_id: str | None = None) -> None:
        super().__init__(*args)
        self.thread_id = thread_id


class LeaseHeldError(LeaseError):
    """Another run has the thread, in this process or elsewhere: this one has stored nothing."""


class LeaseLostError(LeaseError):
    """Another run has taken the thread over; nothing was written."""


class ThreadNotFound(HitlError, LookupError):
    """There is no such thread.

    ``thread_id`` is what was asked for, ``checkpoint_id`` the checkpoint that it doesn't have.
    """

    def __init__(
        self, *args: object, thread_id: str | None = None, checkpoint_id: str | None = None
    ) -> None:
        super().__init__(*args)
        self.thread_id, self.checkpoint_id = thread_id, checkpoint_id


class TaskNotFound(HitlError, LookupError):
    """There is no such task at the addressed checkpoint."""


class InvalidNamespaceError(HitlError, ValueError):
    """A store's namespace is a tuple of non-empty labels without periods."""


class GraphBubbleUp(BaseException):
    """Control flow between a node and the loop.

    A BaseException, so that a node's ``except Exception`` can't swallow it.
    """


class GraphInterrupt(GraphBubbleUp):
    """A task stops to ask; ``interrupts`` are its questions, in the order asked."""

    def __init__(self, interrupts: Sequence[Any] = ()) -> None:
        super().__init__(tuple(interrupts))
        self.interrupts: tuple[Any, ...] = tuple(interrupts)


class NodeInterrupt(GraphInterrupt):
    """A node stops to ask, in the way of old code: ``raise NodeInterrupt(value)``."""

    def __init__(self, value: Any, id: str | None = None, **_: Any) -> None:
        warnings.warn(
            "NodeInterrupt is deprecated; call interrupt().", DeprecationWarning, stacklevel=2
        )
        super().__init__([Interrupt(value) if id is None else Interrupt(value, id)])


class ParentCommand(GraphBubbleUp):
    """A node of a subgraph addresses a Command to the graph that called it."""

    def __init__(self, command: Any) -> None:
        super().__init__(command)
        self.command = command


class DrainSignal(GraphBubbleUp):
    """A graph that a node called has stopped at an edge, because the run was asked to."""


class SaverFailed(GraphBubbleUp):
    """An error that passes through a node and isn't a failure of the node's.

    ``error`` is what the saver raised, or what the task queue raised to stop its task; it comes out
    of the run as that.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


def iterate_leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors in a group, of whatever depth; an error that isn't a group yields itself."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from iterate_leaves(part)
    else:
        yield error


def resolve_group(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error or signal that a group of errors stands for.

    Task groups of asyncio and anyio raise groups. A group of pauses is one pause with all their
    questions. In a mixed group the failures count: the group is returned without its signals.
    Cancellations count only where there is nothing else.
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
    """Add a note to an error, unless its class, which may be the user's, takes none."""
    with suppress(Exception):
        error.add_note(note)


def is_invalid_resume(error: BaseException) -> bool:
    """Return whether an answer that doesn't fit its response schema raised the error."""
    return isinstance(error, InvalidAnswerError)
