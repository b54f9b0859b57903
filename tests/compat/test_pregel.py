"""Parameters of the low-level graph, in both engines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from .engines import LANGGRAPH, OURS, Engine

pytestmark = pytest.mark.filterwarnings("ignore")

BOTH = pytest.mark.parametrize("engine", [LANGGRAPH, OURS], ids=["langgraph", "ours"])


def build(engine: Engine, *functions: Any, **options: Any) -> Any:
    nodes: dict[str, Any] = {}
    channels: dict[str, Any] = {"a": engine.channels.EphemeralValue(int)}
    for number, function in enumerate(functions):
        source, target = chr(ord("a") + number), chr(ord("b") + number)
        builder = engine.NodeBuilder().subscribe_only(source).do(node=function)
        nodes[f"n{number}"] = builder.write_to(target)
        channels[target] = engine.channels.LastValue(int)
    last = chr(ord("a") + len(functions))
    return engine.Pregel(
        nodes=nodes, channels=channels, input_channels="a", output_channels=last, **options
    )


def failing(times: int, error: Exception) -> Any:
    calls: list[int] = []

    def node(value: int) -> int:
        calls.append(value)
        if len(calls) <= times:
            raise error
        return value + len(calls)

    return node


@BOTH
@pytest.mark.parametrize("several", [False, True])
def test_pregel_retry_policy_applies_to_every_node(engine: Engine, several: bool) -> None:
    policy = engine.RetryPolicy(max_attempts=3, initial_interval=0.001, retry_on=KeyError)
    graph = build(
        engine,
        failing(2, KeyError("x")),
        failing(1, KeyError("y")),
        retry_policy=[policy] if several else policy,
    )
    assert graph.invoke(1) == 6
    with pytest.raises(ValueError, match="z"):
        build(engine, failing(1, ValueError("z")), retry_policy=policy).invoke(1)


@BOTH
def test_pregel_cache_policy_caches_results_of_every_node(engine: Engine) -> None:
    calls: list[int] = []

    def node(value: int) -> int:
        calls.append(value)
        return value + 1

    graph = build(engine, node, cache_policy=engine.CachePolicy(), cache=engine.InMemoryCache())
    assert [graph.invoke(value) for value in (1, 1, 2)] == [2, 2, 3]
    assert calls == [1, 2]


@BOTH
def test_pregel_validate_returns_graph_and_aget_graph_draws_nodes(engine: Engine) -> None:
    graph = build(engine, lambda value: value, auto_validate=False)
    assert graph.validate() is graph
    drawn = asyncio.run(graph.aget_graph())
    assert "n0" in drawn.nodes


def test_compiled_graph_has_channels_and_breakpoints_as_attributes() -> None:
    def read(engine: Engine) -> Any:
        graph = (
            engine.StateGraph(dict).add_node("n", lambda state: state).add_edge(engine.START, "n")
        )
        flow = build(engine, lambda value: value, interrupt_after_nodes=["n0"])
        found = []
        for made in (graph.compile(interrupt_before=["n"]), flow, engine.entrypoint()(abs)):
            before, after = made.interrupt_before_nodes, made.interrupt_after_nodes
            found.append((made.input_channels, made.output_channels, list(before), list(after)))
        return found

    assert read(OURS) == read(LANGGRAPH)


def test_breakpoint_set_on_compiled_graph_pauses_the_run() -> None:
    for engine in (OURS, LANGGRAPH):
        graph = (
            engine.StateGraph(dict).add_node("n", lambda state: state).add_edge(engine.START, "n")
        )
        made = graph.compile(checkpointer=engine.InMemorySaver())
        made.interrupt_before_nodes = ["n"]
        config = {"configurable": {"thread_id": "t"}}
        made.invoke({"x": 1}, config)
        assert made.get_state(config).next == ("n",)


def test_command_repr_contains_only_given_arguments() -> None:
    def texts(engine: Engine) -> list[str]:
        below = engine.Send("n", 1)
        given = [{}, {"update": {"x": 1}}, {"goto": [below]}, {"graph": "__parent__", "resume": 3}]
        return [repr(engine.Command(**fields)) for fields in given]

    assert texts(OURS) == texts(LANGGRAPH)
