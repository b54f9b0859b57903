"""A durable graph engine with people in the loop, for Django.

Importing this package pulls in neither Django nor the engine: each public name is loaded at its
first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_NAMES = {
    "engine.builder": ("NodeBuilder",),
    "engine.cache": ("BaseCache", "InMemoryCache"),
    "engine.callbacks": ("GraphCallbackHandler", "GraphInterruptEvent", "GraphResumeEvent"),
    "engine.channels": (
        "AnyValue",
        "BaseChannel",
        "BinaryOperatorAggregate",
        "EmptyChannelError",
        "EphemeralValue",
        "LastValue",
        "LastValueAfterFinish",
        "NamedBarrierValue",
        "NamedBarrierValueAfterFinish",
        "Topic",
        "UntrackedValue",
    ),
    "engine.checkpoint": (
        "BaseCheckpointSaver",
        "Checkpoint",
        "CheckpointMetadata",
        "CheckpointTuple",
        "Checkpointer",
        "Commit",
        "Outcome",
        "Question",
    ),
    "engine.constants": (
        "COPY",
        "END",
        "ERROR",
        "ERROR_SOURCE_NODE",
        "INPUT",
        "INTERRUPT",
        "NO_WRITES",
        "NS_END",
        "NS_SEP",
        "NULL_TASK_ID",
        "PREVIOUS",
        "PULL",
        "PUSH",
        "RESUME",
        "RETURN",
        "ROOT",
        "SCHEDULED",
        "START",
        "TAG_HIDDEN",
        "TASKS",
        "WRITES_IDX_MAP",
    ),
    "engine.errors": (
        "AlreadyApprovedError",
        "AlreadyDecidedError",
        "AlreadyUnderWayError",
        "AttemptOverError",
        "BrokenGraphError",
        "ClaimRequiredError",
        "CorruptPayloadError",
        "EmptyInputError",
        "GraphChangedError",
        "GraphDefinitionError",
        "GraphDrained",
        "GraphError",
        "GraphInterrupt",
        "GraphRecursionError",
        "GraphBubbleUp",
        "HeldError",
        "HitlError",
        "IdempotencyKeyReusedError",
        "InvalidAnswerError",
        "InvalidInputError",
        "InvalidNamespaceError",
        "InvalidUpdateError",
        "LeaseError",
        "LeaseHeldError",
        "LeaseLostError",
        "LinkSpentError",
        "NoSaverError",
        "NodeCancelledError",
        "NodeInterrupt",
        "NodeTimeoutError",
        "OpenTransactionError",
        "NothingPendingError",
        "OpenQuestionsError",
        "ParentCommand",
        "PayloadError",
        "PayloadLimitError",
        "QuestionChangedError",
        "ResumeError",
        "RunStateError",
        "StaleQuestionError",
        "TaskNotFound",
        "ThreadNotFound",
        "UnknownGraphError",
        "UnknownInterruptError",
        "UnknownTagError",
        "UnserializableError",
        "is_invalid_resume",
    ),
    "engine.functional": ("entrypoint", "task"),
    "engine.graph": ("CompiledStateGraph", "StateGraph"),
    "engine.memory": ("InMemorySaver", "MemorySaver"),
    "engine.messages": ("MessagesState", "RemoveMessage", "add_messages"),
    "engine.node_api": (
        "get_config",
        "get_runtime",
        "get_store",
        "get_stream_writer",
        "interrupt",
        "once",
        "review",
        "transact",
    ),
    "engine.persistent": ("PersistentDict",),
    "engine.pregel": ("Pregel",),
    "engine.runtime": ("ExecutionInfo", "RunControl", "Runtime"),
    "engine.schema": ("IsLastStep", "RemainingSteps"),
    "engine.serde": ("Codec", "JsonPlusSerializer", "register_model", "register_type"),
    "engine.slots": ("TaskStatus", "read_task_statuses"),
    "engine.tools": (
        "ActionRequest",
        "HumanInterrupt",
        "HumanInterruptConfig",
        "HumanResponse",
        "ToolNode",
        "tools_condition",
    ),
    "engine.types": (
        "All",
        "CachePolicy",
        "Command",
        "Expiry",
        "Durability",
        "ErrorCode",
        "GraphOutput",
        "Interrupt",
        "NodeError",
        "Overwrite",
        "PregelTask",
        "RetryPolicy",
        "RunnableConfig",
        "Send",
        "StateSnapshot",
        "StateUpdate",
        "StreamMode",
        "StreamWriter",
        "TimeoutPolicy",
    ),
    "engine.store": (
        "BaseStore",
        "GetOp",
        "InMemoryStore",
        "Item",
        "ListNamespacesOp",
        "MatchCondition",
        "PutOp",
        "SearchItem",
        "SearchOp",
    ),
    "errors": (
        "CheckpointNotFound",
        "InterruptNotFound",
        "LinkNotFound",
        "NotAllowedError",
        "RunNotFound",
        "SelfApprovalError",
        "WebhookNotFound",
    ),
    "registry": ("register",),
    "reviewing": ("VALUE", "ReviewPolicy"),
    "services": ("afollow", "cancel", "decide", "follow", "fork", "retry", "start"),
}

_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from .engine.channels import *  # noqa: F403
    from .engine.constants import END as END
    from .engine.constants import START as START
    from .engine.functional import entrypoint as entrypoint
    from .engine.functional import task as task
    from .engine.graph import StateGraph as StateGraph
    from .engine.memory import InMemorySaver as InMemorySaver
    from .engine.messages import add_messages as add_messages
    from .engine.node_api import get_config as get_config
    from .engine.node_api import interrupt as interrupt
    from .engine.node_api import review as review
    from .engine.runtime import RunControl as RunControl
    from .engine.runtime import Runtime as Runtime
    from .engine.types import Command as Command
    from .engine.types import Interrupt as Interrupt
    from .engine.types import RetryPolicy as RetryPolicy
    from .engine.types import Send as Send
    from .registry import register as register
    from .reviewing import ReviewPolicy as ReviewPolicy
    from .services import decide as decide
    from .services import start as start


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
