"""The two engines under one set of names; the only place that imports LangGraph."""

from __future__ import annotations

import warnings
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
    import langgraph.cache.memory
    import langgraph.channels
    import langgraph.channels.ephemeral_value
    import langgraph.channels.last_value
    import langgraph.channels.named_barrier_value
    import langgraph.channels.untracked_value
    import langgraph.checkpoint.memory
    import langgraph.config
    import langgraph.errors
    import langgraph.func
    import langgraph.graph
    import langgraph.graph.message
    import langgraph.managed
    import langgraph.prebuilt
    import langgraph.prebuilt.chat_agent_executor
    import langgraph.prebuilt.tool_node
    import langgraph.pregel
    import langgraph.runtime
    import langgraph.store.base.batch
    import langgraph.store.memory
    import langgraph.types

Engine = Any  # a namespace of public names

OURS: Engine = SimpleNamespace(
    channels=channels,
    agents=chat_agent_executor,
    prebuilt=prebuilt,
    push_message=push_message,
    tool_node=tool_node,
    store=hitl_django.langgraph.store,
    **{
        name: getattr(hitl_django, name)
        for name in (
            "END", "START", "CachePolicy", "Command", "InMemoryCache", "InMemorySaver",
            "IsLastStep", "MessagesState", "NodeBuilder", "NodeCancelledError", "NodeError",
            "NodeTimeoutError", "Overwrite", "Pregel", "RemainingSteps", "RetryPolicy",
            "RunControl", "Runtime", "Send", "StateGraph", "StateUpdate", "TimeoutPolicy",
            "add_messages", "entrypoint", "get_config", "get_runtime", "get_stream_writer",
            "interrupt", "task",
        )
    },
)  # fmt: skip

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
    END=langgraph.graph.END,
    START=langgraph.graph.START,
    CachePolicy=langgraph.types.CachePolicy,
    Command=langgraph.types.Command,
    InMemoryCache=langgraph.cache.memory.InMemoryCache,
    InMemorySaver=langgraph.checkpoint.memory.InMemorySaver,
    IsLastStep=langgraph.managed.IsLastStep,
    MessagesState=langgraph.graph.MessagesState,
    NodeBuilder=langgraph.pregel.NodeBuilder,
    NodeCancelledError=langgraph.errors.NodeCancelledError,
    NodeError=langgraph.errors.NodeError,
    NodeTimeoutError=langgraph.errors.NodeTimeoutError,
    Overwrite=langgraph.types.Overwrite,
    Pregel=langgraph.pregel.Pregel,
    RemainingSteps=langgraph.managed.RemainingSteps,
    RetryPolicy=langgraph.types.RetryPolicy,
    RunControl=langgraph.runtime.RunControl,
    Runtime=langgraph.runtime.Runtime,
    Send=langgraph.types.Send,
    StateGraph=langgraph.graph.StateGraph,
    StateUpdate=langgraph.types.StateUpdate,
    TimeoutPolicy=langgraph.types.TimeoutPolicy,
    add_messages=langgraph.graph.message.add_messages,
    entrypoint=langgraph.func.entrypoint,
    get_config=langgraph.config.get_config,
    get_runtime=langgraph.runtime.get_runtime,
    get_stream_writer=langgraph.config.get_stream_writer,
    interrupt=langgraph.types.interrupt,
    push_message=langgraph.graph.message.push_message,
    task=langgraph.func.task,
)
