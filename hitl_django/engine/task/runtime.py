"""The runtime of a run, which nodes take as a parameter, and the control that stops it."""

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
    """Asks a run to stop; may be called from any thread.

    The run stops at the next edge between super-steps, with its checkpoint saved. Each of its
    tasks, with all attempts, is run within what ``around_task`` returns for the task's context.
    """

    __slots__ = (
        "_cancels", "_drain", "_listeners", "around_task", "drain_reason", "on_stop",
        "stop_errors", "stopped",
    )  # fmt: skip

    def __init__(self) -> None:
        #: The errors that stop a run from outside, such as the timeout of a task queue. They are
        #: raised wherever the main thread is, and are no failures of the node that runs there.
        self.stop_errors: tuple[type[BaseException], ...] = (KeyboardInterrupt,)
        #: The first of them, once there was one, and what cancels nodes on event loops then.
        self.stopped: BaseException | None = None
        self._cancels: set[Callable[[], object]] = set()
        #: Called with it and the names of the running nodes, on the thread that
        #: runs the graph, before it waits for those nodes.
        self.on_stop: Callable[[BaseException, Sequence[str]], None] | None = None
        self.drain_reason: str | None = None
        self._drain = threading.Event()
        self._listeners: set[Callable[[], object]] = set()
        self.around_task: Callable[[Any], AbstractContextManager[object]] | None = None

    def request_drain(self, reason: str = "shutdown") -> None:
        """Ask for the run to stop at the next edge."""
        self.drain_reason = reason
        self._drain.set()
        for function in tuple(self._listeners):
            function()

    @property
    def drain_requested(self) -> bool:
        """Whether the run was asked to stop."""
        return self.drain_reason is not None

    def is_stop(self, error: BaseException) -> bool:
        """Return whether an error, or one in a group, stops the run from outside."""
        return any(isinstance(leaf, self.stop_errors) for leaf in iterate_leaves(error))

    def note_stop(self, error: BaseException, nodes: Sequence[str]) -> None:
        """Call ``on_stop`` and cancel nodes at the first error that stops the run from outside."""
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
        """Call ``cancel`` if the run is stopped from outside during the block, or has been."""
        self._cancels.add(cancel)
        try:
            if self.stopped is not None:
                cancel()
            yield
        finally:
            self._cancels.discard(cancel)

    def wait(self, seconds: float) -> bool:
        """Wait for a request to stop, at most so long; returns whether there is one."""
        return self._drain.wait(seconds)

    async def await_(self, seconds: float) -> bool:
        """Like wait, on an event loop."""
        loop, drained = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            # A loop that is closed has nobody left who waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(drained.set)

        self._listeners.add(wake)
        try:
            # Looked at only now: what came before called nobody, what comes later calls wake.
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
    """Where in the run a node call stands."""

    checkpoint_id: str
    checkpoint_ns: str
    task_id: str
    thread_id: str | None = None
    run_id: str | None = None
    node_attempt: int = 1
    node_first_attempt_time: float | None = None

    def patch(self, **changes: Any) -> ExecutionInfo:
        """Return this with fields replaced."""
        return replace(self, **changes)


class BaseUser(Protocol):
    """Who a server has authenticated, as ``ServerInfo`` has it."""

    @property
    def is_authenticated(self) -> bool:
        """Whether it is anybody."""

    @property
    def display_name(self) -> str:
        """What the user is called."""

    @property
    def identity(self) -> str:
        """What the user is known by."""

    @property
    def permissions(self) -> Sequence[str]:
        """What the user may do."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server that runs the graph tells its nodes; None where there is no such server."""

    assistant_id: str
    graph_id: str
    user: BaseUser | None = None


def no_writer(chunk: Any) -> None:
    """Drop what a node streams when nobody listens."""


def no_heartbeat() -> None:
    """Note no progress where no idle timeout runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime(Generic[ContextT]):
    """What a run hands to its nodes: ask for it with a parameter named ``runtime``.

    ``context`` is the caller's, ``previous`` the last result of a functional graph,
    ``stream_writer`` emits custom stream chunks, ``heartbeat`` notes progress of a node that has
    an idle timeout, from any thread.
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
        """Whether the run was asked to stop."""
        return self.control is not None and self.control.drain_requested

    @property
    def drain_reason(self) -> str | None:
        """Why the run was asked to stop; None where it wasn't."""
        return None if self.control is None else self.control.drain_reason

    def merge(self, other: Runtime[ContextT]) -> Runtime[ContextT]:
        """Return this runtime with what ``other`` sets."""
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
        """Return this runtime with fields replaced."""
        return replace(self, **changes)

    def patch_execution_info(self, **changes: Any) -> Runtime[ContextT]:
        """Return this runtime with fields of ``execution_info`` replaced.

        Raises RuntimeError outside of a node, where there is none.
        """
        if self.execution_info is None:
            raise RuntimeError("There is no execution_info outside a node.")
        return replace(self, execution_info=self.execution_info.patch(**changes))
