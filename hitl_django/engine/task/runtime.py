"""The runtime passed to nodes, and the control object with which a run can be stopped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from ..errors import SaverFailed, iterate_leaves

ContextT = TypeVar("ContextT")


class RunControl:
    """An object with which any OS thread can stop a run.

    After a stop request, the run stops at the end of a super-step, when the checkpoint is stored.
    An error in ``stop_errors``, such as a timeout of the task queue, also stops the run.
    ``around_task`` returns a context manager for one task. All attempts of the task run inside the
    context manager.
    """

    __slots__ = (
        "_cancels", "_drain", "_listeners", "around_task", "drain_reason", "on_stop",
        "stop_errors", "stopped",
    )  # fmt: skip

    def __init__(self) -> None:
        #: Errors that stop a run from outside, such as the timeout of a task queue. The errors are
        #: raised in the main OS thread and don't count as failures of the running node.
        self.stop_errors: tuple[type[BaseException], ...] = (KeyboardInterrupt,)
        #: The first error that stopped the run from outside, and callbacks that cancel nodes on
        #: event loops.
        self.stopped: BaseException | None = None
        self._cancels: set[Callable[[], object]] = set()
        #: Called with the error and the names of the running nodes, on the OS thread of the graph,
        #: before the graph waits for these nodes.
        self.on_stop: Callable[[BaseException, Sequence[str]], None] | None = None
        self.drain_reason: str | None = None
        self._drain = threading.Event()
        self._listeners: set[Callable[[], object]] = set()
        self.around_task: Callable[[Any], AbstractContextManager[object]] | None = None

    def request_drain(self, reason: str = "shutdown") -> None:
        """Request that the run stops before the next super-step."""
        self.drain_reason = reason
        self._drain.set()
        for function in tuple(self._listeners):
            function()

    @property
    def drain_requested(self) -> bool:
        """Whether a stop was requested."""
        return self.drain_reason is not None

    def is_stop(self, error: BaseException) -> bool:
        """Return whether an error, or an error in its exception group, is in ``stop_errors``."""
        return any(isinstance(leaf, self.stop_errors) for leaf in iterate_leaves(error))

    def note_stop(self, error: BaseException, nodes: Sequence[str]) -> None:
        """Call ``on_stop`` and cancel the running nodes if ``error`` is one of ``stop_errors``.

        After one of these errors has stopped the run, further errors have no effect. ``nodes`` are
        the names of the running nodes.
        """
        stopped = error.error if isinstance(error, SaverFailed) else error
        if self.stopped is not None or not self.is_stop(stopped):
            return
        self.stopped = stopped
        if self.on_stop is not None:
            self.on_stop(stopped, nodes)
        for cancel in tuple(self._cancels):
            cancel()

    @contextmanager
    def cancelling(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Call ``cancel`` if one of ``stop_errors`` stops the run before the end of the block."""
        self._cancels.add(cancel)
        try:
            if self.stopped is not None:
                cancel()
            yield
        finally:
            self._cancels.discard(cancel)

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for a stop request, and return whether a stop was requested."""
        return self._drain.wait(seconds)

    async def await_(self, seconds: float) -> bool:
        """Async variant of wait."""
        loop, drained = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            # A closed event loop has no waiting task.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(drained.set)

        self._listeners.add(wake)
        try:
            # The flag is checked after registering the listener, so that no request is missed.
            if not self.drain_requested:
                async with asyncio.timeout(seconds):
                    await drained.wait()
        except TimeoutError:
            return self.drain_requested
        finally:
            self._listeners.discard(wake)
        return True


@dataclass(frozen=True, slots=True)
class ExecutionInfo:
    """The position of a node call in its run: thread, checkpoint, task and attempt."""

    checkpoint_id: str
    checkpoint_ns: str
    task_id: str
    thread_id: str | None = None
    run_id: str | None = None
    node_attempt: int = 1
    node_first_attempt_time: float | None = None

    def patch(self, **changes: Any) -> ExecutionInfo:
        """Return a copy of this object with replaced fields."""
        return replace(self, **changes)


class BaseUser(Protocol):
    """The authenticated user of a server, as in ``ServerInfo``."""

    @property
    def is_authenticated(self) -> bool: ...

    @property
    def display_name(self) -> str:
        """The user's name for display."""

    @property
    def identity(self) -> str:
        """The unique identifier of the user."""

    @property
    def permissions(self) -> Sequence[str]:
        """The permissions of the user."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Information from the server that runs the graph, such as the user."""

    assistant_id: str
    graph_id: str
    user: BaseUser | None = None


def no_writer(chunk: Any) -> None:
    """Discard a custom stream chunk. Runs without a receiver of chunks use this function."""


def no_heartbeat() -> None:
    """Do nothing. Nodes without an idle timeout use this function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime(Generic[ContextT]):
    """The runtime of a node, injected as the parameter ``runtime``.

    ``context`` is the context given by the caller. ``previous`` is the value that the thread's
    previous run of an entrypoint returned or saved. ``stream_writer`` emits custom stream chunks.
    ``heartbeat`` reports progress of a node with an idle timeout. Any OS thread may call it.
    """

    context: ContextT = None  # type: ignore[assignment]
    store: Any = None
    stream_writer: Callable[[Any], None] = no_writer
    heartbeat: Callable[[], None] = no_heartbeat
    previous: Any = None
    execution_info: ExecutionInfo | None = None
    server_info: ServerInfo | None = None
    control: RunControl | None = None

    @property
    def drain_requested(self) -> bool:
        """Whether a stop was requested."""
        return self.control is not None and self.control.drain_requested

    @property
    def drain_reason(self) -> str | None:
        """The reason given with the stop request, or None if no stop was requested."""
        return None if self.control is None else self.control.drain_reason

    def merge(self, other: Runtime[ContextT]) -> Runtime[ContextT]:
        """Return a copy of this runtime. Values that are set in ``other`` take precedence."""
        return replace(
            self,
            context=other.context if other.context is not None else self.context,
            store=other.store if other.store is not None else self.store,
            stream_writer=(
                other.stream_writer if other.stream_writer is not no_writer else self.stream_writer
            ),
            heartbeat=other.heartbeat if other.heartbeat is not no_heartbeat else self.heartbeat,
            previous=other.previous if other.previous is not None else self.previous,
            execution_info=other.execution_info or self.execution_info,
            server_info=other.server_info or self.server_info,
            control=other.control or self.control,
        )

    def override(self, **changes: Any) -> Runtime[ContextT]:
        """Return a copy of this runtime with replaced fields."""
        return replace(self, **changes)

    def patch_execution_info(self, **changes: Any) -> Runtime[ContextT]:
        """Return a copy of this runtime with replaced fields of its ``execution_info``.

        Raises:
            RuntimeError: no node is running.
        """
        if self.execution_info is None:
            raise RuntimeError("There is no execution_info outside a node.")
        return replace(self, execution_info=self.execution_info.patch(**changes))
