"""What a running node can ask of the engine: to stop for a person, its config, its stream.

One context variable holds the task that is running. The driver sets it around each node call;
everything a node calls finds its place in the run there.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from . import ids
from .checkpoint import BaseCheckpointSaver, Question
from .errors import GraphInterrupt, InvalidAnswerError, NoSaverError
from .payload import check_json
from .schema import coerce, json_schema
from .types import Interrupt, RunnableConfig

if TYPE_CHECKING:
    from .plan import Task

logger = logging.getLogger("hitl_django")
ContextT = TypeVar("ContextT")


class RunControl:
    """Asks a run to stop; may be called from any thread.

    The run stops at the next edge between super-steps, with its checkpoint saved.
    """

    __slots__ = ("drain_reason",)

    def __init__(self) -> None:
        self.drain_reason: str | None = None

    def request_drain(self, reason: str = "shutdown") -> None:
        """Asks for the run to stop at the next edge."""
        self.drain_reason = reason

    @property
    def drain_requested(self) -> bool:
        """Tells whether somebody asked."""
        return self.drain_reason is not None


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


def _no_writer(chunk: Any) -> None:
    """Drops what a node streams when nobody listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime(Generic[ContextT]):
    """What a run hands to its nodes: ask for it with a parameter named ``runtime``.

    ``context`` is the caller's, ``previous`` the last result of a functional graph,
    ``stream_writer`` emits custom stream chunks.
    """

    context: ContextT = None  # type: ignore[assignment]
    store: Any = None
    stream_writer: Callable[[Any], None] = _no_writer
    previous: Any = None
    execution_info: ExecutionInfo | None = None
    control: RunControl | None = None

    def merge(self, other: Runtime[ContextT]) -> Runtime[ContextT]:
        """Returns this runtime with what ``other`` sets."""
        return replace(
            self,
            context=other.context if other.context is not None else self.context,
            store=other.store if other.store is not None else self.store,
            stream_writer=(
                other.stream_writer if other.stream_writer is not _no_writer else self.stream_writer
            ),
            previous=other.previous if other.previous is not None else self.previous,
            execution_info=other.execution_info or self.execution_info,
            control=other.control or self.control,
        )

    def override(self, **changes: Any) -> Runtime[ContextT]:
        """Returns this runtime with fields replaced."""
        return replace(self, **changes)


class RunContext:
    """What all tasks of one run of one graph share.

    ``perform`` makes a saver call where saver calls may be made: on the thread of the outermost
    driver. ``answers`` are resume values by interrupt id, and go down whole into subgraphs.
    ``modes`` is what the loop tells, of which ``forwards`` goes on to the run above.
    """

    __slots__ = (
        "answers",
        "checkpoint_ids",
        "config",
        "control",
        "durability",
        "emit",
        "forwards",
        "live",
        "modes",
        "passes_breakpoints",
        "perform",
        "resuming",
        "runtime",
        "saver",
        "store",
        "subgraphs",
        "thread_id",
        "wildcard",
    )

    def __init__(
        self,
        *,
        config: RunnableConfig,
        saver: BaseCheckpointSaver | None,
        thread_id: str | None,
        store: Any,
        runtime: Runtime[Any],
        control: RunControl | None,
        durability: str,
        modes: frozenset[str],
        emit: Callable[[tuple[Any, ...]], None],
        forwards: frozenset[str],
        subgraphs: bool,
        live: bool,
        perform: Callable[..., Any],
        answers: dict[str, Any],
        passes_breakpoints: bool,
    ) -> None:
        self.config, self.saver, self.thread_id, self.store = config, saver, thread_id, store
        self.runtime, self.control, self.durability = runtime, control, durability
        self.modes, self.emit, self.live, self.perform = modes, emit, live, perform
        self.forwards, self.subgraphs = forwards, subgraphs
        self.answers, self.passes_breakpoints = answers, passes_breakpoints
        self.resuming = False
        #: The answer for whichever question comes first: only for a run from an older checkpoint
        #: that the caller addressed, where no question is known yet.
        self.wildcard: list[Any] = []
        self.checkpoint_ids: dict[str, str] = {}


class TaskContext:
    """One node call: its task, its answers so far, and what it asked.

    ``perform`` makes a saver call for a graph that the node calls.
    """

    __slots__ = (
        "_asked", "_children", "answers", "attempt", "consumed", "open", "perform", "retrying",
        "run", "task",
    )  # fmt: skip

    def __init__(self, task: Task, run: RunContext, answers: Sequence[Any]) -> None:
        self.task, self.run, self.perform = task, run, run.perform
        self.answers = answers
        self.attempt = 0
        self.retrying = False
        self.begin_attempt()

    def begin_attempt(self) -> None:
        """Forgets what an earlier attempt asked; its answers stay."""
        self.attempt += 1
        self.consumed = 0
        self.open: list[Question] = []
        self._asked = itertools.count()
        self._children = itertools.count()

    def ask(self, value: Any, schema: Any) -> Any:
        """Returns the answer to the task's next question, or stops the task to ask it."""
        index = next(self._asked)
        if index < len(self.answers):
            self.consumed = max(self.consumed, index + 1)
            return _checked(self.answers[index], schema, self.task)
        if self.run.wildcard:
            self.answers = [*self.answers, self.run.wildcard.pop()]
            self.consumed = index + 1
            return _checked(self.answers[index], schema, self.task)
        check_json(value, "The question's payload")
        question = Interrupt(
            value,
            ids.interrupt_id(self.task.ns, index),
            response_schema=None if schema is None else json_schema(schema),
        )
        self.open.append(self.task.question(question, index))
        raise GraphInterrupt(self.open)

    def child_ns(self) -> str:
        """Returns the namespace for the next graph that this task calls."""
        count = next(self._children)
        return f"{self.task.ns}|{count}" if count else self.task.ns

    def config(self) -> RunnableConfig:
        """Returns the config as this node call sees it."""
        task, run = self.task, self.run
        base = run.config
        return {
            **base,
            "tags": [*base.get("tags", ()), *task.node.tags],
            "metadata": {
                **base.get("metadata", {}),
                "langgraph_step": task.origin.step,
                "langgraph_node": task.name,
                "langgraph_triggers": task.triggers,
                "langgraph_path": task.path,
                "langgraph_checkpoint_ns": task.ns,
                **task.node.metadata,
            },
            "configurable": {
                **base.get("configurable", {}),
                "checkpoint_ns": task.ns,
                "checkpoint_id": None,
                "checkpoint_map": {**run.checkpoint_ids, task.origin.ns: task.origin.checkpoint_id},
            },
        }

    def runtime(self) -> Runtime[Any]:
        """Returns the runtime as this node call sees it."""
        task, run = self.task, self.run
        return replace(
            run.runtime,
            store=run.store,
            stream_writer=self.write,
            control=run.control,
            execution_info=ExecutionInfo(
                checkpoint_id=task.origin.checkpoint_id,
                checkpoint_ns=task.ns,
                task_id=task.id,
                thread_id=run.thread_id,
                run_id=run.config.get("run_id") or None,
                node_attempt=self.attempt,
            ),
        )

    def write(self, chunk: Any) -> None:
        """Emits a custom stream chunk."""
        if "custom" in self.run.modes:
            ns = tuple(self.task.origin.ns.split("|")) if self.task.origin.ns else ()
            self.run.emit((ns, "custom", chunk))


def _checked(answer: Any, schema: Any, task: Task) -> Any:
    if schema is None or isinstance(schema, dict):
        return answer
    from pydantic import ValidationError

    try:
        return coerce(schema, answer)
    except ValidationError as error:
        faults = [
            ("/" + "/".join(str(part) for part in fault["loc"]), fault["msg"])
            for fault in error.errors(include_url=False, include_input=False)
        ]
        said = "; ".join(f"{pointer}: {reason}" for pointer, reason in faults)
        raise InvalidAnswerError(
            f"The answer to node '{task.name}' doesn't fit its response schema: {said}.", faults
        ) from error


current: ContextVar[TaskContext | None] = ContextVar("hitl_task", default=None)


def _current() -> TaskContext:
    context = current.get()
    if context is None:
        raise RuntimeError("Called get_config outside of a runnable context")
    return context


def interrupt(value: Any, *, response_schema: Any = None) -> Any:
    """Stops the node to ask a person; returns the answer when the node runs again.

    The node runs again from its first line once the answer is there; the n-th call in the node
    gets the n-th answer. ``value`` is what the person is shown: plain JSON (None, bool, number,
    str, list, dict with str keys). ``response_schema`` says what an answer must look like: a
    pydantic model, TypedDict, dataclass or other type, by which each answer is validated and
    returned, or a JSON schema dict, which is only advertised.

    Raises UnserializableError, with the path, where ``value`` isn't JSON, InvalidAnswerError
    where the answer doesn't fit, RuntimeError outside of a running graph, and NoSaverError in a
    graph without a checkpointer, which could never go on.
    """
    context = _current()
    if context.run.saver is None and not context.run.config.get("configurable", {}).get(
        "allow_unsaved"
    ):
        raise NoSaverError(
            f"Node '{context.task.name}' asked a question, but the graph has no checkpointer, so "
            "it could never be answered. Compile the graph with one."
        )
    return context.ask(value, response_schema)


def get_config() -> RunnableConfig:
    """Returns the config of the running node."""
    return _current().config()


def get_runtime(context_schema: type[ContextT] | None = None) -> Runtime[ContextT]:
    """Returns the runtime of the running node."""
    return _current().runtime()


def get_store() -> Any:
    """Returns the store of the running graph."""
    return _current().run.store


def get_stream_writer() -> Callable[[Any], None]:
    """Returns what emits custom stream chunks from the running node."""
    return _current().write
