"""A durable graph engine with people in the loop, for Django.

Here is what an app needs; ``hitl_django.langgraph`` has LangGraph's names in LangGraph's modules,
``hitl_django.errors`` all errors, ``hitl_django.services`` all verbs. Importing this package pulls
in neither Django nor the engine: each name is loaded at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

#: Where each public name is defined. Those that aren't in ``__all__`` have another module to be
#: imported from; from here they are importable for code that was written before.
_NAMES = {
    "engine.graph.node_builder": ("NodeBuilder",),
    "engine.loop.node_cache": ("BaseCache", "InMemoryCache"),
    "engine.task.callbacks": ("GraphCallbackHandler", "GraphInterruptEvent", "GraphResumeEvent"),
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
    "engine.savers.checkpoint": (
        "BaseCheckpointSaver",
        "Checkpoint",
        "CheckpointMetadata",
        "CheckpointTuple",
        "Checkpointer",
        "Commit",
        "Outcome",
        "Question",
    ),
    "decision_types": ("VALUE",),
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
        "AlreadyUnderWayError",
        "AttemptOverError",
        "CorruptPayloadError",
        "EmptyInputError",
        "GraphChangedError",
        "GraphDefinitionError",
        "GraphDrained",
        "GraphError",
        "GraphInterrupt",
        "GraphRecursionError",
        "GraphBubbleUp",
        "HitlError",
        "InvalidAnswerError",
        "InvalidInputError",
        "InvalidNamespaceError",
        "InvalidUpdateError",
        "LeaseError",
        "NoSaverError",
        "NodeCancelledError",
        "NodeInterrupt",
        "NodeTimeoutError",
        "NothingPendingError",
        "OpenQuestionsError",
        "ParentCommand",
        "PayloadError",
        "PayloadLimitError",
        "QuestionChangedError",
        "ResumeError",
        "TaskNotFound",
        "ThreadNotFound",
        "UnknownInterruptError",
        "UnknownTagError",
        "UnserializableError",
        "is_invalid_resume",
    ),
    "engine.graph.functional": ("entrypoint", "task"),
    "engine.graph.state_graph": ("CompiledStateGraph", "StateGraph"),
    "engine.savers.memory": ("InMemorySaver", "MemorySaver"),
    "engine.state.messages": (
        "REMOVE_ALL_MESSAGES",
        "MessagesState",
        "RemoveMessage",
        "add_messages",
    ),
    "engine.task.node_api": (
        "get_config",
        "get_runtime",
        "get_store",
        "get_stream_writer",
        "interrupt",
        "once",
        "transact",
    ),
    "engine.savers.persistent_dict": ("PersistentDict",),
    "engine.graph.pregel": ("Pregel",),
    "engine.task.runtime": ("ExecutionInfo", "RunControl", "Runtime"),
    "engine.state.schema": ("IsLastStep", "RemainingSteps"),
    "engine.serde": ("Codec", "JsonPlusSerializer", "register_model", "register_type"),
    "engine.task.task_status": ("TaskStatus", "read_task_statuses"),
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
        "AsyncBatchedBaseStore",
        "BaseStore",
        "Embeddings",
        "GetOp",
        "InMemoryStore",
        "IndexConfig",
        "Item",
        "ListNamespacesOp",
        "MatchCondition",
        "PutOp",
        "SearchItem",
        "SearchOp",
        "TTLConfig",
    ),
    "errors": (
        "AlreadyApprovedError",
        "AlreadyDecidedError",
        "BrokenGraphError",
        "CheckpointNotFound",
        "ClaimRequiredError",
        "HeldError",
        "IdempotencyKeyReusedError",
        "InterruptNotFound",
        "LeaseHeldError",
        "LeaseLostError",
        "LinkNotFound",
        "LinkSpentError",
        "NotAllowedError",
        "OpenTransactionError",
        "RunNotFound",
        "RunStateError",
        "RunTimeoutError",
        "ScheduleNotFound",
        "ScheduleOfCodeError",
        "SelfApprovalError",
        "StaleQuestionError",
        "UnknownGraphError",
        "WebhookNotFound",
    ),
    "graph_registry.registry": ("register",),
    "graph_registry.review_policy": ("ReviewPolicy",),
    "review_terms": ("review",),
    "store": ("DjangoStore",),
    "services": (
        "acancel",
        "adecide",
        "afollow",
        "aretry",
        "arun_result",
        "astart",
        "astart_and_wait",
        "cancel",
        "decide",
        "follow",
        "fork",
        "retry",
        "run_result",
        "start",
        "start_and_wait",
    ),
}

HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "END",
    "START",
    "Command",
    "ReviewPolicy",
    "Send",
    "StateGraph",
    "afollow",
    "cancel",
    "decide",
    "entrypoint",
    "follow",
    "fork",
    "interrupt",
    "once",
    "register",
    "retry",
    "review",
    "run_result",
    "start",
    "start_and_wait",
    "task",
    "transact",
]

#: What ``import *`` gives is looked up by ``__getattr__``, since some of it needs Django set up.
_PUBLIC = __all__
del __all__

if TYPE_CHECKING:
    # Type checkers see what else these modules have, which ``__getattr__`` doesn't give.
    from hitl_django.decision_types import *
    from hitl_django.engine.channels import *
    from hitl_django.engine.constants import *
    from hitl_django.engine.errors import *
    from hitl_django.engine.graph.functional import entrypoint as entrypoint
    from hitl_django.engine.graph.functional import task as task
    from hitl_django.engine.graph.node_builder import *
    from hitl_django.engine.graph.pregel import Pregel as Pregel
    from hitl_django.engine.graph.state_graph import *
    from hitl_django.engine.loop.node_cache import *
    from hitl_django.engine.savers.checkpoint import *
    from hitl_django.engine.savers.memory import *
    from hitl_django.engine.savers.persistent_dict import *
    from hitl_django.engine.serde import *
    from hitl_django.engine.state.messages import *
    from hitl_django.engine.state.schema import *
    from hitl_django.engine.store import *
    from hitl_django.engine.task.callbacks import *
    from hitl_django.engine.task.node_api import get_config as get_config
    from hitl_django.engine.task.node_api import get_runtime as get_runtime
    from hitl_django.engine.task.node_api import get_store as get_store
    from hitl_django.engine.task.node_api import get_stream_writer as get_stream_writer
    from hitl_django.engine.task.node_api import interrupt as interrupt
    from hitl_django.engine.task.node_api import once as once
    from hitl_django.engine.task.node_api import transact as transact
    from hitl_django.engine.task.runtime import ExecutionInfo as ExecutionInfo
    from hitl_django.engine.task.runtime import RunControl as RunControl
    from hitl_django.engine.task.runtime import Runtime as Runtime
    from hitl_django.engine.task.task_status import *
    from hitl_django.engine.tools import *
    from hitl_django.engine.types import *
    from hitl_django.errors import *
    from hitl_django.graph_registry.registry import *
    from hitl_django.graph_registry.review_policy import *
    from hitl_django.review_terms import *
    from hitl_django.services import *
    from hitl_django.store import *


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return [public for public in _PUBLIC if _is_loadable(HOMES[public])]
    home = HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def _is_loadable(home: str) -> bool:
    """Returns whether a module can be imported: those over the models only with Django set up."""
    if home.startswith("engine."):
        return True
    from django.apps import apps

    return home == "review_terms" or apps.apps_ready


def __dir__() -> list[str]:
    return [*globals(), *HOMES]
