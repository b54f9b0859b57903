"""Types of the dicts that a stream with ``version="v2"`` yields.

The key ``type`` of a dict contains the stream mode.
"""

from __future__ import annotations

from typing import Any, Generic, Literal, NotRequired, TypedDict

from .types import Interrupt, OutputT, RunnableConfig, StateSnapshot, StateT


class TaskPayload(TypedDict):
    """A started task: its input and the channels that triggered it."""

    id: str
    name: str
    input: Any
    triggers: list[str]
    metadata: NotRequired[dict[str, Any]]


class TaskResultPayload(TypedDict):
    """A finished task: its writes by channel, its interrupts, or its error."""

    id: str
    name: str
    error: str | None
    interrupts: list[dict[str, Any]]
    result: dict[str, Any]


class CheckpointTask(TypedDict):
    """A task of a checkpoint: its ``error`` or ``result``, and the ``state`` of its subgraph."""

    id: str
    name: str
    error: NotRequired[str]
    result: NotRequired[Any]
    interrupts: NotRequired[list[dict[str, Any]]]
    state: StateSnapshot | RunnableConfig | None


class CheckpointPayload(TypedDict, Generic[StateT]):
    """A stored checkpoint, with its state and the tasks that follow."""

    config: RunnableConfig | None
    metadata: dict[str, Any]
    values: StateT
    next: list[str]
    parent_config: RunnableConfig | None
    tasks: list[CheckpointTask]


class _CheckpointEvent(TypedDict, Generic[StateT]):
    step: int
    timestamp: str
    type: Literal["checkpoint"]
    payload: CheckpointPayload[StateT]


class _TaskEvent(TypedDict):
    step: int
    timestamp: str
    type: Literal["task"]
    payload: TaskPayload


class _TaskResultEvent(TypedDict):
    step: int
    timestamp: str
    type: Literal["task_result"]
    payload: TaskResultPayload


#: An item of the stream mode "debug"; ``type`` distinguishes the kinds.
DebugPayload = _CheckpointEvent[StateT] | _TaskEvent | _TaskResultEvent


class ValuesStreamPart(TypedDict, Generic[OutputT]):
    """The state after a super-step, and the interrupts of the super-step."""

    type: Literal["values"]
    ns: tuple[str, ...]
    data: OutputT
    interrupts: tuple[Interrupt, ...]


class UpdatesStreamPart(TypedDict):
    """The return values of nodes, by node name.

    If the run pauses, the interrupts are under the key ``__interrupt__``.
    """

    type: Literal["updates"]
    ns: tuple[str, ...]
    data: dict[str, Any]


class MessagesStreamPart(TypedDict):
    """A chat model's message or a chunk of a message, with metadata about the model call."""

    type: Literal["messages"]
    ns: tuple[str, ...]
    data: tuple[Any, dict[str, Any]]


class CustomStreamPart(TypedDict):
    """A value written with a node's stream writer."""

    type: Literal["custom"]
    ns: tuple[str, ...]
    data: Any


class CheckpointStreamPart(TypedDict, Generic[StateT]):
    """A stored checkpoint."""

    type: Literal["checkpoints"]
    ns: tuple[str, ...]
    data: CheckpointPayload[StateT]


class TasksStreamPart(TypedDict):
    """A started or finished task."""

    type: Literal["tasks"]
    ns: tuple[str, ...]
    data: TaskPayload | TaskResultPayload


class DebugStreamPart(TypedDict, Generic[StateT]):
    """A checkpoint, a started task or a finished task, with its super-step and time."""

    type: Literal["debug"]
    ns: tuple[str, ...]
    data: DebugPayload[StateT]


#: Any part of a stream.
StreamPart = (
    ValuesStreamPart[OutputT]
    | UpdatesStreamPart
    | MessagesStreamPart
    | CustomStreamPart
    | CheckpointStreamPart[StateT]
    | TasksStreamPart
    | DebugStreamPart[StateT]
)
