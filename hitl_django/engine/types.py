"""Values passed between graphs, callers and checkpoint savers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from enum import Enum
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

import typing_extensions
from xxhash import xxh3_128_hexdigest

N = TypeVar("N")

# Type variables for annotations such as StateGraph[State]. They have no effect at run time.
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
#: The values of Durability and StreamMode.
DURABILITIES: tuple[str, ...] = get_args(Durability)
STREAM_MODES: tuple[str, ...] = get_args(StreamMode)
#: An item of a stream: the namespace as a tuple of levels, the stream mode, and the data.
Chunk = tuple[tuple[str, ...], str, Any]


@dataclass(frozen=True, slots=True, init=False)
class Interrupt(Generic[ValueT]):
    """A task's pause until a person decides.

    ``id`` is the id with which a response is given. ``value`` is the payload given to
    ``interrupt()``. ``response_schema`` is the JSON schema of the response, or None if any JSON
    value is valid.

    The arguments ``ns``, ``resumable`` and ``when`` are accepted for compatibility and not stored.
    If no id is given, it is derived from ``ns``.
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
        """Create an interrupt with an id derived from ``ns``, the namespace of a task.

        When the task runs, its first interrupt gets the same id.
        """
        return cls(value, xxh3_128_hexdigest(ns.encode()), response_schema=response_schema)

    @property
    def interrupt_id(self) -> str:
        """The id under its deprecated name."""
        warnings.warn(
            "Interrupt.interrupt_id is deprecated; use .id.", DeprecationWarning, stacklevel=2
        )
        return self.id


@dataclass(frozen=True, slots=True)
class Expiry:
    """The time limit of a pending interrupt, and the effect when the limit is reached.

    ``after`` counts from the creation of the interrupt, on the database's clock. ``then`` is one
    of:

    - "park": the run is parked until an operator retries it, which creates the interrupt again.
    - "cancel": the run is cancelled.
    - "answer": the run resumes with the value of ``answer``.
    - "keep": the interrupt stays pending and is overdue.
    - "escalate": the interrupt stays pending, is overdue, and is assigned to the group named
      ``group``.

    The limit applies only to runs executed by a worker. The sweep, a periodic job, processes
    expired interrupts.
    """

    after: timedelta
    then: Literal["park", "cancel", "answer", "keep", "escalate"] = "park"
    answer: Any = None
    group: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.after, timedelta):
            raise TypeError(f"Expiry must be a timedelta, not {self.after!r}.")
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
    """Time limits for one attempt of an async node.

    ``run_timeout`` limits the duration of the attempt. ``idle_timeout`` limits the time without
    progress. Both are in seconds or a timedelta. ``runtime.heartbeat()`` always counts as progress.
    With ``refresh_on="auto"``, these events also count:

    - a custom stream chunk,
    - a result of ``once()``,
    - the start or end of a @task or tool,
    - an event of LangChain, such as a model's token,
    - any progress of a graph called by the node.
    """

    run_timeout: float | timedelta | None = None
    idle_timeout: float | timedelta | None = None
    refresh_on: Literal["auto", "heartbeat"] = "auto"

    @classmethod
    def coerce(cls, value: Timeout | None) -> TimeoutPolicy | None:
        """Return a policy with limits in seconds, or None if ``value`` sets no limit.

        A number or a timedelta is the ``run_timeout``.

        Raises:
            ValueError: a limit is not greater than 0.
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
    """A call of ``node`` in the next super-step, with ``arg`` as the node's input.

    ``timeout`` overrides the node's own timeout for this call.
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
    """A state update, a choice of the next nodes, or a resume value.

    If a node returns a Command, ``update`` is applied like a returned state update, and the nodes
    of ``goto`` run in addition to the targets of the node's edges. With ``graph=Command.PARENT``,
    ``update`` and ``goto`` apply to the graph that calls this graph.

    If a Command is the input of a run, ``resume`` is the response to the only pending interrupt, or
    a dict ``{interrupt id: response}``.
    """

    graph: str | None = None
    update: Any = None
    resume: Any = None
    goto: Send | Sequence[Send | N] | N = ()

    PARENT = "__parent__"

    def __repr__(self) -> str:
        """Return the text of a constructor call with the arguments that are set."""
        values = [(each.name, getattr(self, each.name)) for each in fields(self)]
        given = [f"{name}={value!r}" for name, value in values if value is not None and value != ()]
        return f"Command({', '.join(given)})"


@dataclass(frozen=True, slots=True)
class Overwrite:
    """A value that replaces the value of a channel. The channel's reducer isn't called.

    The JSON form is ``{"type": "__overwrite__", "value": ...}``.
    """

    value: Any
    type: Literal["__overwrite__"] = "__overwrite__"


@dataclass(frozen=True, slots=True)
class MissingResume:
    """A placeholder in a task's list of resume values, for an interrupt without a resume value.

    A task may have several pending interrupts, which can be resolved in any order. If a later
    interrupt is resolved first, the earlier ones get placeholders.
    """


class RetryPolicy(NamedTuple):
    """The rules for retries of a failed task.

    The delay after attempt n is ``initial_interval * backoff_factor ** (n - 1)`` seconds, but at
    most ``max_interval``. ``jitter`` adds a random delay of up to one second. ``max_attempts``
    includes the first attempt. ``retry_on`` is an exception class, a sequence of classes, or a
    predicate.
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
    """The rules for reusing the result of a node for the same input, in a graph with a cache.

    ``key_func`` computes the cache key (str or bytes) from the node's input. By default, the key is
    derived from the whole input. ``ttl`` is the lifetime of a result in seconds, or None for no
    limit.
    """

    key_func: Callable[[Any], str | bytes] | None = None
    ttl: int | None = None


@dataclass(frozen=True, slots=True)
class NodeError:
    """The failed node and its exception, which an error handler receives as the argument ``error``.

    If the failure was read from a checkpoint, the exception has the original message but another
    class.
    """

    node: str
    error: BaseException


class PregelTask(NamedTuple):
    """A task in a StateSnapshot: one call of a node in a super-step."""

    id: str
    name: str
    path: tuple[Any, ...]
    error: Any = None
    interrupts: tuple[Interrupt, ...] = ()
    state: Any = None
    result: Any = None


class StateSnapshot(NamedTuple):
    """The state of a thread at one checkpoint.

    ``next`` are the names of the nodes that run next. ``config`` selects the checkpoint.
    ``interrupts`` are the pending interrupts.
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
    """The result of ``invoke`` with ``version="v2"``: the state and the pending interrupts."""

    value: Any
    interrupts: tuple[Interrupt, ...] = ()

    def __getitem__(self, key: str) -> Any:
        """Return the value of a state key. Deprecated: use ``value`` and ``interrupts``.

        The key ``__interrupt__`` returns the interrupts.
        """
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
    """The values of the attribute ``code`` of errors that can have several causes."""

    GRAPH_RECURSION_LIMIT = "GRAPH_RECURSION_LIMIT"
    INVALID_CONCURRENT_GRAPH_UPDATE = "INVALID_CONCURRENT_GRAPH_UPDATE"
    INVALID_GRAPH_NODE_RETURN_VALUE = "INVALID_GRAPH_NODE_RETURN_VALUE"
    MULTIPLE_SUBGRAPHS = "MULTIPLE_SUBGRAPHS"
    INVALID_CHAT_HISTORY = "INVALID_CHAT_HISTORY"


class StateUpdate(NamedTuple):
    """One update for ``bulk_update_state``: the values, and optionally the node and the task."""

    values: Any
    as_node: str | None = None
    task_id: str | None = None
