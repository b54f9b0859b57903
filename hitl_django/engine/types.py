"""Values that graphs, callers and savers pass to each other."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import typing_extensions
from xxhash import xxh3_128_hexdigest

N = TypeVar("N")

# What a program may name in annotations, as in StateGraph[State]; nothing looks at them.
StateT = typing_extensions.TypeVar("StateT", default=Any)
ContextT = typing_extensions.TypeVar("ContextT", default=Any)
InputT = typing_extensions.TypeVar("InputT", default=Any)
OutputT = typing_extensions.TypeVar("OutputT", default=Any)
ValueT = typing_extensions.TypeVar("ValueT", default=Any)
UpdateT = typing_extensions.TypeVar("UpdateT", default=Any)
CheckpointT = typing_extensions.TypeVar("CheckpointT", default=Any)
VersionT = typing_extensions.TypeVar("VersionT", default=Any)
KeyT = typing_extensions.TypeVar("KeyT", default=Any)
_NO_ID = "placeholder-id"

RunnableConfig = dict[str, Any]
"""``{"configurable": {"thread_id": …}, "recursion_limit": …, "metadata": …, "tags": …}``."""

All = Literal["*"]
StreamWriter = Callable[[Any], None]
Durability = Literal["sync", "async", "exit"]
StreamMode = Literal[
    "values", "updates", "custom", "messages", "tools", "tasks", "checkpoints", "debug"
]
#: What a stream is made of: the namespace by its levels, the stream mode, the data.
Chunk = tuple[tuple[str, ...], str, Any]


@dataclass(frozen=True, slots=True, init=False)
class Interrupt(Generic[ValueT]):
    """A question that a task asked; its ``id`` addresses the answer.

    ``value`` is what ``interrupt()`` was called with, ``response_schema`` the JSON schema of the
    answer, or None where any JSON value will do. The arguments ``ns``, ``resumable`` and ``when``
    of old code are taken and dropped; an id that isn't given follows from ``ns``.
    """

    value: Any
    id: str
    response_schema: dict[str, Any] | None

    def __init__(
        self,
        value: Any,
        id: str = _NO_ID,
        *,
        response_schema: dict[str, Any] | None = None,
        ns: Sequence[str] = (),
        resumable: bool = True,
        when: str = "during",
    ) -> None:
        if id == _NO_ID and ns:
            id = xxh3_128_hexdigest("|".join(ns).encode())
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "response_schema", response_schema)

    @classmethod
    def from_ns(cls, value: Any, ns: str, *, response_schema: Any = None) -> Interrupt:
        """Return the question that the task with this namespace asks first."""
        return cls(value, xxh3_128_hexdigest(ns.encode()), response_schema=response_schema)

    @property
    def interrupt_id(self) -> str:
        """The id, by its old name."""
        warnings.warn(
            "Interrupt.interrupt_id is deprecated; use .id.", DeprecationWarning, stacklevel=2
        )
        return self.id


@dataclass(frozen=True, slots=True)
class Expiry:
    """When a question that nobody has answered expires, and what becomes of its run.

    ``after`` counts from when it is asked, on the database's clock. ``then`` is "park" (the run is
    set aside until an operator lets it go on, which asks again), "cancel" (it ends), "answer" (it
    goes on with ``answer``), "keep" (the question stays open, as overdue) or "escalate" (so does
    it, and it is assigned to the group of that name). For runs that a worker advances; the sweep
    looks for what is due.
    """

    after: timedelta
    then: Literal["park", "cancel", "answer", "keep", "escalate"] = "park"
    answer: Any = None
    group: str = ""

    def __post_init__(self) -> None:
        if self.after <= timedelta(0):
            raise ValueError("Expiry must be a positive duration.")
        if self.then not in ("park", "cancel", "answer", "keep", "escalate"):
            raise ValueError(
                f"then must be 'park', 'cancel', 'answer', 'keep' or 'escalate', not {self.then!r}."
            )
        if self.then != "answer" and self.answer is not None:
            raise ValueError("An answer requires then='answer'.")
        if (self.then == "escalate") != bool(self.group):
            raise ValueError("A group requires then='escalate', and vice versa.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutPolicy:
    """Limits how long one attempt at an async node may take.

    ``run_timeout`` is the whole attempt's time, ``idle_timeout`` the longest time without
    progress, both in seconds or as a timedelta. Progress is each call of ``runtime.heartbeat()``
    and, with ``refresh_on="auto"``, each custom stream chunk, each result of ``once()``, the
    beginning and the end of each @task and tool that the node calls, each event of langchain in it,
    such as a model's token, and each thing that a graph which it calls does.
    """

    run_timeout: float | timedelta | None = None
    idle_timeout: float | timedelta | None = None
    refresh_on: Literal["auto", "heartbeat"] = "auto"

    @classmethod
    def coerce(cls, value: Timeout | None) -> TimeoutPolicy | None:
        """Return a policy in seconds, or None where it limits nothing.

        A bare time is a ``run_timeout``. Raises ValueError unless each time is more than 0.
        """
        policy = value if isinstance(value, cls) else cls(run_timeout=value)  # type: ignore[arg-type]
        if policy.refresh_on not in ("auto", "heartbeat"):
            raise ValueError("refresh_on must be 'auto' or 'heartbeat'")
        run = _seconds("run_timeout", policy.run_timeout)
        idle = _seconds("idle_timeout", policy.idle_timeout)
        if run is None and idle is None:
            return None
        return cls(run_timeout=run, idle_timeout=idle, refresh_on=policy.refresh_on)


Timeout = float | timedelta | TimeoutPolicy


def _seconds(name: str, given: float | timedelta | None) -> float | None:
    if given is None:
        return None
    seconds = given.total_seconds() if isinstance(given, timedelta) else float(given)
    if not seconds > 0:
        raise ValueError(f"{name} must be greater than 0")
    return seconds


class Send:
    """Runs ``node`` in the next super-step with ``arg`` as its input, verbatim.

    ``timeout`` takes the place of the node's own for this call.
    """

    __slots__ = ("arg", "node", "timeout")

    def __init__(self, node: str, arg: Any, *, timeout: Timeout | None = None) -> None:
        self.node, self.arg = node, arg
        self.timeout = None if timeout is None else TimeoutPolicy.coerce(timeout)

    def __repr__(self) -> str:
        timeout = "" if self.timeout is None else f", timeout={self.timeout!r}"
        return f"Send(node={self.node!r}, arg={self.arg!r}{timeout})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Send) and (self.node, self.arg, self.timeout) == (
            other.node, other.arg, other.timeout
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.node, repr(self.arg), self.timeout))


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Generic[N]):
    """Updates the state, says where to go next, or answers what was asked.

    From a node: ``update`` is applied like its return value and ``goto`` adds to its edges;
    ``graph=Command.PARENT`` addresses both to the calling graph. As the input of a run:
    ``resume`` is the answer to the one open question, or ``{interrupt id: answer}``.
    """

    graph: str | None = None
    update: Any = None
    resume: Any = None
    goto: Send | Sequence[Send | N] | N = ()

    PARENT = "__parent__"


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Replaces a channel's value past its reducer.

    A caller that can only write JSON gives ``{"type": "__overwrite__", "value": ...}``.
    """

    value: Any
    type: Literal["__overwrite__"] = "__overwrite__"


@dataclass(frozen=True, slots=True)
class MissingResume:
    """Holds the place of an answer that isn't there while a later one is.

    Several questions of one task may be open at once, and be answered in any order.
    """


class RetryPolicy(NamedTuple):
    """Runs a failed task again.

    The wait before attempt n+1 is ``initial_interval * backoff_factor ** (n - 1)`` seconds, at
    most ``max_interval``, plus up to one second where ``jitter``. ``max_attempts`` counts the
    first attempt. ``retry_on`` is an exception class, several, or a predicate.
    """

    initial_interval: float = 0.5
    backoff_factor: float = 2.0
    max_interval: float = 128.0
    max_attempts: int = 3
    jitter: bool = True
    retry_on: type[Exception] | Sequence[type[Exception]] | Callable[[Exception], bool] | None = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePolicy(Generic[KeyT]):
    """Lets a node's result be used again for the same input, in a graph that has a cache.

    ``key_func`` makes the key (str or bytes) from the node's input; without it the key follows
    from the whole input. ``ttl`` is how long a result is good for, in seconds; None is for ever.
    """

    key_func: Callable[[Any], str | bytes] | None = None
    ttl: int | None = None


@dataclass(frozen=True, slots=True)
class NodeError:
    """What an error handler gets as its parameter ``error``: which node failed, and how.

    A handler that takes up a failure from storage gets an exception with the words of the
    original one, but not of its class.
    """

    node: str
    error: BaseException


class PregelTask(NamedTuple):
    """One node call of one super-step, as a snapshot shows it."""

    id: str
    name: str
    path: tuple[Any, ...]
    error: Any = None
    interrupts: tuple[Interrupt, ...] = ()
    state: Any = None
    result: Any = None


class StateSnapshot(NamedTuple):
    """The state of a thread at one checkpoint.

    ``next`` names the nodes that run next, ``config`` addresses the checkpoint,
    ``interrupts`` are the questions that wait for an answer.
    """

    values: Any
    next: tuple[str, ...]
    config: RunnableConfig
    metadata: dict[str, Any] | None
    created_at: str | None
    parent_config: RunnableConfig | None
    tasks: tuple[PregelTask, ...]
    interrupts: tuple[Interrupt, ...]


@dataclass(frozen=True, slots=True)
class GraphOutput(Generic[OutputT]):
    """What invoke returns with ``version="v2"``: the state, and the questions that stopped it."""

    value: Any
    interrupts: tuple[Interrupt, ...] = ()

    def __getitem__(self, key: str) -> Any:
        """Read the state by key, for code written for version 1."""
        warnings.warn(
            "GraphOutput[key] is deprecated; use .value and .interrupts.",
            DeprecationWarning,
            stacklevel=2,
        )
        if key == "__interrupt__":
            return self.interrupts
        return self.value[key] if isinstance(self.value, dict) else getattr(self.value, key)

    def __contains__(self, key: object) -> bool:
        warnings.warn(
            "`key in GraphOutput` is deprecated; use .value and .interrupts.",
            DeprecationWarning,
            stacklevel=2,
        )
        if key == "__interrupt__":
            return bool(self.interrupts)
        if isinstance(self.value, dict):
            return key in self.value
        return isinstance(key, str) and hasattr(self.value, key)


class ErrorCode(Enum):
    """Tells apart, as the ``code`` of an error, what one class of errors stands for."""

    GRAPH_RECURSION_LIMIT = "GRAPH_RECURSION_LIMIT"
    INVALID_CONCURRENT_GRAPH_UPDATE = "INVALID_CONCURRENT_GRAPH_UPDATE"
    INVALID_GRAPH_NODE_RETURN_VALUE = "INVALID_GRAPH_NODE_RETURN_VALUE"
    MULTIPLE_SUBGRAPHS = "MULTIPLE_SUBGRAPHS"
    INVALID_CHAT_HISTORY = "INVALID_CHAT_HISTORY"


class StateUpdate(NamedTuple):
    """One update of ``bulk_update_state``."""

    values: Any
    as_node: str | None = None
    task_id: str | None = None
