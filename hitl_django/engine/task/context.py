"""The context of the running node call: its task, its stored results and its interrupts.

A context variable contains the context. The driver sets it around each node call, so that all code
called by a node can read the context.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from .. import ids
from ..constants import ASKED, ATTEMPTS, CHANGED, KEYED, ONCE, PREVIOUS, RESUME
from ..errors import (
    GraphBubbleUp,
    GraphInterrupt,
    InterruptChangedError,
    InvalidAnswerError,
    PayloadError,
    SaverFailed,
    iterate_leaves,
)
from ..payload import check_json, check_payload, list_formats
from ..savers.checkpoint import Commit, PendingInterrupt, TaskWrites
from ..state.schema import coerce, list_faults
from ..types import Expiry, Interrupt, RunnableConfig
from .futures import AnyFuture
from .nodes import Node, Write
from .once_guard import OnceGuard
from .run_context import RunContext
from .runtime import ExecutionInfo, Runtime
from .task import Task
from .task_memory import UNANSWERED, TaskMemory

logger = logging.getLogger("hitl_django")
#: A node may call interrupt() and once() from several OS threads. This lock ensures that each call
#: gets a separate index and that no update is lost.
changing = threading.Lock()
ContextT = TypeVar("ContextT")


class TaskCallsProtocol(Protocol):
    """The calls of @task functions made by one running task. Drivers implement this protocol."""

    def make(
        self, seen: TaskContext, node: Node, name: str, value: Any, is_async: bool
    ) -> AnyFuture:
        """Start a call of a @task function, and return its future.

        If an earlier attempt of the calling task has made the same call, return the future of that
        call. ``seen`` is the context of the calling code.
        """

    def settle(self) -> None:
        """Wait until the called tasks have ended, and add their interrupts to the calling task."""

    async def asettle(self) -> None:
        """Async variant of settle."""

    async def wait(self) -> None: ...

    def drop(self) -> None:
        """Cancel the called tasks that are still running on the event loop."""


class TaskContext:
    """The context of one node call: its task, its stored results, and its interrupts.

    ``perform(function, *args)`` calls a function that uses the saver, on the OS thread on which the
    saver must be called. ``is_async`` is true if the task runs on the event loop on which the saver
    is called. ``changed`` are the ids of interrupts that were changed after their decision.
    """

    __slots__ = (
        "_children",
        "_config",
        "_first_attempt_time",
        "_has_prints",
        "_interrupt_count",
        "_memory",
        "_once_guard",
        "answers",
        "attempt",
        "calls",
        "changed",
        "consumed",
        "fingerprints",
        "is_async",
        "keyed",
        "once",
        "open",
        "perform",
        "pushed",
        "run",
        "task",
    )  # fmt: skip

    def __init__(self, task: Task, run: RunContext, memory: TaskMemory) -> None:
        self.task, self.run, self.perform = task, run, run.perform
        self.is_async = False
        #: The @task calls that this task has made.
        self.calls: TaskCallsProtocol | None = None
        self._memory = memory
        self.answers = memory.answers
        # Empty values are shared between tasks, so they are replaced and never changed in place.
        self.fingerprints, self.once = memory.fingerprints, memory.once
        #: Whether fingerprints are already stored, so that a change must also be stored.
        self._has_prints = bool(memory.fingerprints)
        self.attempt = 0
        self.begin_attempt()

    def begin_attempt(self) -> None:
        """Start the next attempt without the interrupts and writes of the previous attempt.

        Resume values remain.
        """
        self.attempt += 1
        self._config: RunnableConfig | None = None
        self.consumed = 0
        self.keyed: dict[str, Any] | None = None
        # Most tasks have no interrupts. The shared empty values are replaced and never changed in
        # place.
        self.open: Sequence[PendingInterrupt] = ()
        self.changed: Sequence[str] = ()
        self.pushed: Sequence[Write] = ()
        self._interrupt_count = self._children = 0

    @property
    def retrying(self) -> bool:
        """Whether an earlier attempt of this task has failed in this run."""
        return self.attempt > 1

    def get_first_attempt_time(self) -> float:
        """Return the Unix time of the task's first attempt.

        The first call of this method returns the current time, and later calls return the same
        time. If the task can be retried, the first call is made before the first attempt.
        """
        if not hasattr(self, "_first_attempt_time"):
            self._first_attempt_time = time.time()
        return self._first_attempt_time

    def take_up_attempts(self) -> float:
        """Restore the number of attempts made by an earlier process.

        Return the number of seconds to wait before the next attempt.
        """
        self.get_first_attempt_time()
        if self._memory.attempts is None:
            return 0.0
        made, self._first_attempt_time, next_at = self._memory.attempts
        self.attempt = made + 1
        return max(0.0, next_at - time.time())

    def count_attempt(self, seconds: float) -> Commit | None:
        """Count a failed attempt before a retry, and return the commit that stores the count.

        Return None if nothing can be stored. ``seconds`` is the delay before the next attempt.
        """
        counted = [self.attempt, self.get_first_attempt_time(), time.time() + seconds]
        self.task.memory = [*self.list_memory_writes(), (ATTEMPTS, counted)]
        return self._build_commit(self.task.memory)

    def ask(
        self,
        value: Any,
        schema: Any,
        key: str | None,
        expires: Expiry | None = None,
        review_options: Any = None,
    ) -> Any:
        """Return the resume value of the task's next interrupt, or pause the task.

        ``schema`` is the response schema, and ``review_options`` are the options of ``review()``.

        Raises:
            GraphInterrupt: no resume value is available.
            InvalidAnswerError: the resume value doesn't fit the response schema.
        """
        given, value = value, check_payload(value)
        index = -1 if key is not None else self._next_index()
        ns = self.task.ns
        name = ids.make_interrupt_id(ns, index) if key is None else ids.make_keyed_id(ns, key)
        found, answer = self._answer(index, key, name)
        slot = str(index) if key is None else f"#{key}"
        print_ = ids.hash_json(value)
        refusal = ""
        if found:
            self._check_fingerprint(slot, print_, name)
            try:
                return _checked(answer, schema, self.task)
            except InvalidAnswerError as error:
                if not self.run.reasks:
                    raise
                refusal = str(error)
                self._discard_answer(index, key, name)
        self.fingerprints = {**self.fingerprints, slot: print_}
        if expires is not None and expires.then == "answer":
            check_json(expires.answer, "The expiry response")
            _checked(expires.answer, schema, self.task)
        described = None if schema is None else _describe_schema(schema)
        payload = Interrupt(value, name, response_schema=described)
        formats = None if value is given else list_formats(given)
        self._add_open(
            self.task.build_interrupt(
                payload, max(index, 0), key, refusal, expires, review_options, formats
            )
        )
        raise GraphInterrupt(self.open)

    def push(self, name: str, value: Any) -> None:
        """Add a write to the channel ``name``.

        The write is applied before the writes of the node's result.
        """
        with changing:
            self.pushed = [*self.pushed, (name, value)]

    def _next_index(self) -> int:
        with changing:
            self._interrupt_count += 1
            return self._interrupt_count - 1

    def _add_open(self, payload: PendingInterrupt) -> None:
        with changing:
            self.open = [*self.open, payload]

    def withdraw_interrupts(self, raised: BaseException) -> None:
        """Remove the interrupts in ``raised`` from the task's pending interrupts.

        ``raised`` is an exception or an exception group.
        """
        pauses = [one for one in iterate_leaves(raised) if isinstance(one, GraphInterrupt)]
        interrupt_ids = [
            getattr(one, "interrupt", one).id for pause in pauses for one in pause.interrupts
        ]
        with changing:
            self.open = [
                payload for payload in self.open if payload.interrupt.id not in interrupt_ids
            ]

    def _discard_answer(self, index: int, key: str | None, name: str) -> None:
        """Discard the invalid resume value of the interrupt with the id ``name``.

        If the interrupt has no key, also discard the values at later positions, because they may
        depend on the invalid value.
        """
        self.changed = [changed for changed in self.changed if changed != name]
        if key is None:
            self.answers, self.consumed = self.answers[:index], index
            self._memory.voided |= {RESUME}
            return
        self.keyed = {other: answer for other, answer in (self.keyed or {}).items() if other != key}
        self._memory.keyed = {k: given for k, given in self._memory.keyed.items() if k != key}
        self._memory.voided |= {KEYED}

    def _answer(self, index: int, key: str | None, name: str) -> tuple[bool, Any]:
        if key is not None:
            given = {**self._memory.keyed, **({key: self.run.answers[name]}
                                              if name in self.run.answers else {})}  # fmt: skip
            if key not in given:
                return False, None
            self.keyed = {**(self.keyed or {}), key: given[key]}
            return True, given[key]
        if index >= len(self.answers) and self.run.wildcard:
            self.answers = [*self.answers, self.run.wildcard.pop()]
        if index >= len(self.answers) or self.answers[index] == UNANSWERED:
            return False, None
        self.consumed = max(self.consumed, index + 1)
        return True, self.answers[index]

    def _check_fingerprint(self, slot: str, print_: str, name: str) -> None:
        """Compare the hash ``print_`` of a decided interrupt with the interrupt's stored hash.

        ``slot`` is the position or the key of the interrupt, and ``name`` its id. If the hashes
        differ, log a warning or raise InterruptChangedError, depending on the config.
        """
        before = self.fingerprints.get(slot)
        if before is None:
            before = self._memory.get_fingerprint(name) or print_
            self.fingerprints = {**self.fingerprints, slot: before}
        if before != print_:
            message = (
                f"Node '{self.task.name}' asked something different after it was answered "
                f"(interrupt {name}). Code before interrupt() must be deterministic."
            )
            self.changed = [*self.changed, name]
            if self.run.config.get("configurable", {}).get("on_interrupt_change") == "error":
                raise InterruptChangedError(message)
            logger.warning("%s The response is used anyway.", message)

    def collect_interrupts(
        self, raised: Sequence[PendingInterrupt | Interrupt]
    ) -> tuple[PendingInterrupt, ...]:
        """Return the pending interrupts of the task and its subgraphs.

        ``raised`` are interrupts from exceptions of the node.
        """
        raised_here = [
            self.task.build_interrupt(self._assign_id(q), len(self.open))
            if isinstance(q, Interrupt)
            else q
            for q in raised
        ]
        return tuple({q.interrupt.id: q for q in (*self.open, *raised_here)}.values())

    def _assign_id(self, interrupt: Interrupt) -> Interrupt:
        if interrupt.id != "placeholder-id":
            return interrupt
        return Interrupt(interrupt.value, ids.make_interrupt_id(self.task.ns, self._next_index()))

    def copy_memory(self) -> TaskMemory:
        """Return the task's results and resume values, with which the task can run again."""
        keyed = {**self._memory.keyed, **(self.keyed or {})}
        memory = TaskMemory(self.answers, keyed, self.fingerprints, self.once)
        memory.voided = self._memory.voided
        return memory

    def list_exit_writes(self) -> list[tuple[str, Any]]:
        """Return the control writes to store when the task stops.

        They contain the results of once() and the resume values, and reset the number of attempts.
        """
        return (
            [*self.list_memory_writes(), (ATTEMPTS, None)]
            if self.attempt > 1
            else self.list_memory_writes()
        )

    def list_memory_writes(self) -> list[tuple[str, Any]]:
        """Return the control writes that store the results and resume values of a paused task."""
        kept: list[tuple[str, Any]] = []
        if self.consumed or RESUME in self._memory.voided:
            kept.append((RESUME, list(self.answers[: self.consumed])))
        if self.keyed or KEYED in self._memory.voided:
            kept.append((KEYED, {**self._memory.keyed, **(self.keyed or {})}))
        if self.fingerprints and not self._is_one_open_interrupt():
            self._has_prints = True
            kept.append((ASKED, dict(self.fingerprints)))
        if self.once:
            kept.append((ONCE, dict(self.once)))
        if self.changed:
            kept.append((CHANGED, list(self.changed)))
        return kept

    def _is_one_open_interrupt(self) -> bool:
        """Return whether the task has a single interrupt, which is pending and has no key."""
        if self._has_prints or len(self.fingerprints) != 1 or len(self.open) != 1:
            return False
        return self.open[0].key is None

    def progress(self) -> None:
        """Report progress to the node that called this graph, if that node has an idle timeout."""
        if self.run.progress is not None:
            self.run.progress()

    def check_in_time(self) -> None:
        """Raise an error if the attempt has timed out. Without a timeout, do nothing."""

    @property
    def once_guard(self) -> OnceGuard:
        """The guard against concurrent once() calls with the same key in this task."""
        with changing:
            if not hasattr(self, "_once_guard"):
                self._once_guard = OnceGuard()
            return self._once_guard

    def lock_key(self, key: str) -> AbstractContextManager[None]:
        """Lock ``key`` against concurrent calls of once() in this attempt."""
        return self.once_guard.lock_key(self.task.name, self.attempt, key)

    def remember(self, key: str, result: Any) -> None:
        with changing:
            self.once = {**self.once, key: result}

    def remember_stored(self, key: str, result: Any) -> None:
        """Save a result of once() in this context after a commit has stored the result.

        Unlike ``remember``, this method doesn't raise an error if the attempt has timed out.
        """
        self.remember(key, result)

    def build_results_with(self, key: str, result: Any) -> Commit | None:
        """Return a commit that stores all results of once(), including the new result.

        Return None if nothing can be stored.
        """
        return self._build_commit([(ONCE, {**self.once, key: result})])

    def build_results(self) -> Commit | None:
        """Return a commit that stores all results of once(), or None if nothing can be stored."""
        return self._build_commit([(ONCE, self.once)])

    def _build_commit(self, writes: list[tuple[str, Any]]) -> Commit | None:
        """Return a commit with control writes of this task, or None if nothing can be stored.

        Nothing can be stored if the run has no saver, or if the checkpoint before this task isn't
        stored yet because of the durability "exit".
        """
        origin = self.task.origin
        if self.run.saver is None or (
            self.run.deferred and self.run.loop_state.has_unsaved_commits
        ):
            return None
        configurable = {
            "thread_id": self.run.thread_id,
            "checkpoint_ns": origin.ns,
            "checkpoint_id": origin.checkpoint_id,
        }
        kept = TaskWrites(self.task.id, self.task.path_key, writes)
        return Commit({"configurable": configurable}, [kept], lease=self.run.lease)

    @property
    def full_context(self) -> TaskContext:
        """The context of the whole task. In a ``PartContext``, this is another object."""
        return self

    def next_call_index(self, numbers: Iterator[int]) -> int:
        """Return the index of the task's next call of a @task function, taken from ``numbers``."""
        return next(numbers)

    def child_ns(self) -> str:
        """Return the namespace of the next subgraph called by this task."""
        with changing:
            count, self._children = self._children, self._children + 1
        return f"{self.task.ns}|{count}" if count else self.task.ns

    def base_config(self) -> RunnableConfig:
        """Return the config of the run, with the callbacks of this node call."""
        trace = self.run.trace
        return self.run.config if trace is None else trace.get_config(self.task)

    def config(self) -> RunnableConfig:
        """Return the config passed to this node call.

        LangChain reads the config several times during a call, so it is built only once. In a
        traced run, it is built at each access, because the callbacks change during the call.
        """
        if self._config is None or self.run.trace is not None:
            self._config = self._build_config()
        return self._config

    def _build_config(self) -> RunnableConfig:
        task, run, ns = self.task, self.run, self.task.ns
        base = self.base_config()
        of_thread = {} if run.thread_id is None else {"thread_id": run.thread_id}
        return {
            **base,
            "tags": [*base.get("tags", ()), *task.node.tags],
            "metadata": {
                **of_thread,
                **base.get("metadata", {}),
                "langgraph_step": task.origin.step,
                "langgraph_node": task.name,
                "langgraph_triggers": task.triggers,
                "langgraph_path": task.path,
                "langgraph_checkpoint_ns": ns,
                **task.node.metadata,
            },
            "configurable": {
                **base.get("configurable", {}),
                "checkpoint_ns": ns,
                "checkpoint_id": None,
                "checkpoint_map": {**run.checkpoint_ids, task.origin.ns: task.origin.checkpoint_id},
            },
        }

    def runtime(self) -> Runtime[Any]:
        """Return the runtime passed to this node call."""
        task, run = self.task, self.run
        return replace(
            run.runtime,
            store=run.store,
            stream_writer=self.write,
            previous=self.previous,
            control=run.control,
            execution_info=ExecutionInfo(
                checkpoint_id=task.origin.checkpoint_id,
                checkpoint_ns=task.ns,
                task_id=task.id,
                thread_id=run.thread_id,
                run_id=run.config.get("run_id") or None,
                node_attempt=self.attempt,
                node_first_attempt_time=self.get_first_attempt_time(),
            ),
        )

    @property
    def previous(self) -> Any:
        """The value that the thread's previous run of the entrypoint has saved."""
        return self.task.origin.values.get(PREVIOUS)

    def write(self, chunk: Any) -> None:
        """Emit a custom stream chunk."""
        if "custom" in self.run.modes:
            ns = self.task.origin.levels
            if self.run.chunk_buffer is None:
                self.run.emit((ns, "custom", chunk))
            else:
                self.run.chunk_buffer.write(self.task.id, ns, chunk)


def _describe_schema(schema: Any) -> dict[str, Any]:
    from ..state.response_schemas import make_response_schema

    return make_response_schema(schema)


def _checked(answer: Any, schema: Any, task: Task) -> Any:
    if schema is None or isinstance(schema, dict):
        return answer
    from pydantic import ValidationError

    try:
        return coerce(schema, answer)
    except ValidationError as error:
        faults = [
            ("/" + "/".join(str(part) for part in path), reason)
            for path, reason in list_faults(error)
        ]
        listed = "; ".join(f"{pointer}: {reason}" for pointer, reason in faults)
        raise InvalidAnswerError(
            f"Invalid response for node '{task.name}': {listed}.", faults
        ) from error


current: ContextVar[TaskContext | None] = ContextVar("hitl_task", default=None)


#: Exceptions during a saver call that are not failures of the saver.
_PASSED_ON = (
    PayloadError, GraphBubbleUp, asyncio.CancelledError, GeneratorExit, KeyboardInterrupt,
)  # fmt: skip


class _SaverCalls:
    """A context manager that converts errors of a saver to SaverFailed.

    It has no state, so ``saver_calls`` always returns the same instance.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        if error is not None and not isinstance(error, _PASSED_ON):
            raise SaverFailed(error) from error


_SAVER_CALLS = _SaverCalls()


def saver_calls() -> AbstractContextManager[None]:
    """Return a context manager that converts an error of a saver call to SaverFailed.

    Inside a node, SaverFailed doesn't count as a failure of the node. An error for a value that
    can't be stored isn't converted, because it is a failure of the node.
    """
    return _SAVER_CALLS


def refuse_foreign_error(run: RunContext, error: BaseException) -> None:
    """Raise SaverFailed if unavailable storage or a requested stop has caused an error.

    The error was raised in the user's code, but it isn't a failure of the node. The node's retry
    policies and error handlers therefore don't apply. The code runs again later, including all work
    that was not stored.
    """
    if run.is_foreign_error(error):
        raise SaverFailed(error) from error


def store_commit(context: TaskContext, commit: Commit, run: RunContext | None = None) -> None:
    """Store a commit of a running task with the saver of ``run``, by default the task's own run."""
    with saver_calls():
        context.perform((run or context.run).commit, commit)


async def astore_commit(context: TaskContext, commit: Commit) -> None:
    """Async variant of store_commit."""
    with saver_calls():
        if context.is_async:
            await context.run.acommit(commit)
        else:
            await asyncio.to_thread(context.perform, context.run.commit, commit)


def store_steps(context: TaskContext) -> None:
    """Store the delayed commits of earlier super-steps.

    Call this function before a task stores its own results.
    """
    if context.run.deferred is not None:
        with saver_calls():
            context.perform(context.run.store_steps)


async def astore_steps(context: TaskContext) -> None:
    """Async variant of store_steps."""
    run = context.run
    if run.deferred is None or run.saver is None:
        return
    with saver_calls():
        if context.is_async:
            await run.deferred.await_()
            await run.saver.acall(run.store_steps)
        else:
            await asyncio.to_thread(context.perform, run.store_steps)


def store_results(context: TaskContext) -> None:
    """Store the results of once() immediately. Without a saver, do nothing."""
    if context.build_results() is not None:
        with saver_calls():
            context.perform(_store_results, context)


async def astore_results(context: TaskContext) -> None:
    """Async variant of store_results."""
    saver: Any = context.run.saver
    if context.build_results() is not None:
        with saver_calls():
            if context.is_async:
                await saver.acall(_store_results, context)
            else:
                await asyncio.to_thread(context.perform, _store_results, context)


def _store_results(context: TaskContext) -> None:
    with context.once_guard.storing:
        # The commit is built now, so that it includes the results of other OS threads.
        context.run.commit(context.build_results())  # type: ignore[arg-type]
