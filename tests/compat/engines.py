"""The two engines with the same names. This is the only module that imports LangGraph."""

from __future__ import annotations

import threading
import warnings
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import hitl_django
import hitl_django.langgraph.store.base.batch
import hitl_django.langgraph.store.memory
from hitl_django.engine import channels
from hitl_django.engine.task.pushed_messages import push_message
from hitl_django.langgraph import prebuilt
from hitl_django.langgraph.prebuilt import chat_agent_executor, tool_node

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import langgraph.channels
    import langgraph.channels.ephemeral_value
    import langgraph.channels.last_value
    import langgraph.channels.named_barrier_value
    import langgraph.channels.untracked_value
    import langgraph.checkpoint.memory
    import langgraph.graph.message
    import langgraph.prebuilt
    import langgraph.prebuilt.chat_agent_executor
    import langgraph.prebuilt.tool_node
    import langgraph.store.base.batch
    import langgraph.store.memory

Engine = Any  # Namespace of public names.

#: Names that both engines have, by module below their root.
NAMES = {
    "cache.memory": ("InMemoryCache",),
    "checkpoint.memory": ("InMemorySaver",),
    "config": ("get_config", "get_stream_writer"),
    "errors": ("NodeCancelledError", "NodeError", "NodeInterrupt", "NodeTimeoutError"),
    "func": ("entrypoint", "task"),
    "graph": ("END", "START", "MessagesState", "StateGraph"),
    "graph.message": ("add_messages",),
    "managed": ("IsLastStep", "RemainingSteps"),
    "pregel": ("NodeBuilder", "Pregel"),
    "runtime": ("RunControl", "Runtime", "get_runtime"),
    "types": (
        "CachePolicy", "Command", "Overwrite", "RetryPolicy", "Send", "StateUpdate",
        "TimeoutPolicy", "interrupt",
    ),
}  # fmt: skip


def load_names(root: str) -> dict[str, Any]:
    """Return the names of one engine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            name: getattr(import_module(f"{root}.{module}"), name)
            for module, names in NAMES.items()
            for name in names
        }


class LockedInMemorySaver(langgraph.checkpoint.memory.InMemorySaver):
    """LangGraph's saver without its race, which makes the expected results random.

    Its ``put_writes`` adds the first writes of a super-step to a defaultdict. Until Python 3.12, a
    garbage collection may change the OS thread there, and a task then replaces the writes of
    another.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._lock = threading.Lock()

    def put_writes(self, *writes: Any, **more: Any) -> None:
        with self._lock:
            super().put_writes(*writes, **more)


OURS: Engine = SimpleNamespace(
    channels=channels,
    agents=chat_agent_executor,
    prebuilt=prebuilt,
    push_message=push_message,
    tool_node=tool_node,
    store=hitl_django.langgraph.store,
    **load_names("hitl_django.langgraph"),
)

LANGGRAPH: Engine = SimpleNamespace(
    name="langgraph",
    agents=langgraph.prebuilt.chat_agent_executor,
    prebuilt=langgraph.prebuilt,
    tool_node=langgraph.prebuilt.tool_node,
    store=langgraph.store,
    channels=SimpleNamespace(
        AnyValue=langgraph.channels.AnyValue,
        BinaryOperatorAggregate=langgraph.channels.BinaryOperatorAggregate,
        DeltaChannel=langgraph.channels.DeltaChannel,
        EphemeralValue=langgraph.channels.ephemeral_value.EphemeralValue,
        LastValue=langgraph.channels.LastValue,
        LastValueAfterFinish=langgraph.channels.last_value.LastValueAfterFinish,
        NamedBarrierValue=langgraph.channels.named_barrier_value.NamedBarrierValue,
        NamedBarrierValueAfterFinish=(
            langgraph.channels.named_barrier_value.NamedBarrierValueAfterFinish
        ),
        Topic=langgraph.channels.Topic,
        UntrackedValue=langgraph.channels.untracked_value.UntrackedValue,
    ),
    push_message=langgraph.graph.message.push_message,
    **{**load_names("langgraph"), "InMemorySaver": LockedInMemorySaver},
)
