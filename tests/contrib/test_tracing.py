"""LangSmith traces of graphs, nodes and models, enabled without a config."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.tracers.context import tracing_v2_enabled
from langchain_core.tracers.langchain import wait_for_all_tracers
from langsmith import Client
from langsmith import utils as langsmith_utils

from tests.compat.engines import LANGGRAPH, OURS, Engine

pytestmark = pytest.mark.filterwarnings("ignore")


def build(engine: Engine) -> Any:
    """Return a graph with a subgraph. Each of their nodes calls a model."""
    model = GenericFakeChatModel(messages=iter(["hello"] * 9))

    def say(state: Any) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    below = engine.StateGraph(engine.MessagesState).add_node("below", say)
    below = below.add_edge(engine.START, "below").compile(name="inner")
    graph = engine.StateGraph(engine.MessagesState).add_node("say", say).add_node("call", below)
    return graph.add_edge(engine.START, "say").add_edge("say", "call").compile(name="outer")


def trace(engine: Engine, form: str) -> list[tuple[str, str, str | None]]:
    """Return the traced runs: each name with its kind and its parent's name."""
    client, graph, given = MagicMock(spec=Client), build(engine), {"messages": "hi"}
    with tracing_v2_enabled(client=client):
        if form == "ainvoke":
            asyncio.run(graph.ainvoke(given))
        elif form == "stream":
            assert len([*graph.stream(given)]) == 2
        else:
            graph.invoke(given)
    wait_for_all_tracers()
    runs = [call.kwargs for call in client.create_run.call_args_list]
    names = {run["id"]: run["name"] for run in runs}
    assert client.update_run.call_count == len(runs)
    return [(run["name"], run["run_type"], names.get(run.get("parent_run_id"))) for run in runs]


@pytest.mark.parametrize("form", ["invoke", "stream", "ainvoke"])
def test_langchain_tracer_enabled_by_context_sees_nested_graphs_nodes_and_models(form: str) -> None:
    found = trace(OURS, form)
    assert sorted(found) == sorted(trace(LANGGRAPH, form))
    assert ("outer", "chain", None) in found
    assert ("GenericFakeChatModel", "llm", "below") in found


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Enable tracing by an environment variable, like a user."""
    langsmith_utils.get_env_var.cache_clear()
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    yield
    langsmith_utils.get_env_var.cache_clear()


def test_langsmith_tracing_environment_variable_alone_records_graph_nodes_and_models(
    environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from langchain_core.tracers import langchain as tracers

    client = MagicMock(spec=Client)
    monkeypatch.setattr(tracers, "get_client", lambda: client)
    build(OURS).invoke({"messages": "hi"})
    wait_for_all_tracers()
    names = [call.kwargs["name"] for call in client.create_run.call_args_list]
    assert names[:3] == ["outer", "say", "GenericFakeChatModel"]
