"""The runtime of nodes, in both engines."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from .cases_asking import one
from .engines import LANGGRAPH, OURS, Engine

pytestmark = pytest.mark.filterwarnings("ignore")

BOTH = pytest.mark.parametrize("engine", [LANGGRAPH, OURS], ids=["langgraph", "ours"])
HOMES = {id(LANGGRAPH): "langgraph", id(OURS): "hitl_django.langgraph"}


def load(engine: Engine, module: str) -> Any:
    return importlib.import_module(f"{HOMES[id(engine)]}.{module}")


@BOTH
def test_drained_run_raises_graph_drained_with_the_reason(engine: Engine) -> None:
    seen: list[Any] = []
    control = engine.RunControl()

    def first(state: Any) -> dict[str, Any]:
        runtime = engine.get_runtime()
        seen.append((runtime.drain_requested, runtime.drain_reason))
        control.request_drain("deploy")
        seen.append((runtime.drain_requested, runtime.drain_reason))
        return {}

    graph = one(engine, first, "b")
    with pytest.raises(load(engine, "errors").GraphDrained) as drained:
        graph.compile().invoke({"x": 1}, control=control)
    assert (drained.value.reason, str(drained.value)) == ("deploy", "Graph drained: deploy")
    assert seen == [(False, None), (True, "deploy")]


@BOTH
def test_runtime_merge_and_override_preserve_server_info(engine: Engine) -> None:
    runtime = load(engine, "runtime")
    info = runtime.ServerInfo(assistant_id="a", graph_id="g")
    plain = runtime.Runtime()
    assert (plain.server_info, plain.drain_requested, plain.drain_reason) == (None, False, None)
    assert plain.merge(runtime.Runtime(server_info=info)).server_info.graph_id == "g"
    assert plain.override(server_info=info).merge(plain).server_info == info


@BOTH
def test_patch_execution_info_returns_a_changed_copy_of_the_runtime(engine: Engine) -> None:
    runtime = load(engine, "runtime")
    info = runtime.ExecutionInfo(checkpoint_id="c", checkpoint_ns="", task_id="t")
    whole = runtime.Runtime(execution_info=info)
    assert whole.patch_execution_info(node_attempt=2).execution_info == info.patch(node_attempt=2)
    assert info.node_attempt == 1
    with pytest.raises(RuntimeError, match="execution_info"):
        runtime.Runtime().patch_execution_info(node_attempt=2)


@BOTH
def test_version_2_stream_parts_have_keys_of_their_typed_dicts(engine: Engine) -> None:
    types = load(engine, "types")
    graph = one(engine, lambda state: {"log": ["a"]}).compile()
    parts = graph.stream(
        {"x": 1}, stream_mode=["values", "updates", "tasks", "debug"], version="v2"
    )
    kinds = {
        "values": types.ValuesStreamPart,
        "updates": types.UpdatesStreamPart,
        "tasks": types.TasksStreamPart,
        "debug": types.DebugStreamPart,
    }
    seen = set()
    for part in parts:
        seen.add(part["type"])
        assert set(part) == kinds[part["type"]].__required_keys__
        if part["type"] == "tasks":
            ends = "result" in part["data"]
            payload = types.TaskResultPayload if ends else types.TaskPayload
            assert set(part["data"]) <= set(payload.__annotations__)
    assert seen == set(kinds)


@BOTH
@pytest.mark.parametrize("is_node", [True, False])
def test_subgraph_inherits_metadata_of_calling_node_but_not_its_tags_or_name(
    engine: Engine, is_node: bool
) -> None:
    seen: list[Any] = []

    def look(state: Any) -> dict[str, Any]:
        seen.append(engine.get_config())
        return {}

    below = one(engine, look, "below").compile()
    graph = engine.StateGraph(dict)
    called: Any = below if is_node else lambda state: below.invoke(state)
    graph.add_node("call", called, metadata={"by": "call", "team": "a"})
    graph.add_edge(engine.START, "call")
    graph.compile().invoke({"x": 1}, {"metadata": {"by": "run", "of": "run"}, "tags": ["run"]})
    (config,) = seen
    metadata = config["metadata"]
    assert (metadata["by"], metadata["team"], metadata["of"]) == ("call", "a", "run")
    assert metadata["langgraph_node"] != "call"
    assert config["tags"] == ["run"]
