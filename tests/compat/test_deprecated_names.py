"""Deprecated parameter names of LangGraph, with a warning in both engines."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest

from .engines import LANGGRAPH, OURS, Engine

BOTH = pytest.mark.parametrize("engine", [LANGGRAPH, OURS], ids=["langgraph", "ours"])
CONFIG = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    x: int
    y: int


class Given(TypedDict):
    x: int


class Told(TypedDict):
    y: int


class Context(TypedDict):
    by: int


@BOTH
def test_state_graph_with_deprecated_schema_parameters_runs_with_deprecation_warning(
    engine: Engine,
) -> None:
    def node(state: State, runtime: engine.Runtime[Context]) -> State:  # type: ignore[name-defined]
        return {"y": state["x"] * runtime.context["by"]}

    with pytest.deprecated_call():
        graph = engine.StateGraph(State, config_schema=Context, input=Given, output=Told)
    compiled = graph.add_node("a", node).add_edge(engine.START, "a").compile()
    assert compiled.invoke({"x": 2}, context={"by": 3}) == {"y": 6}


@BOTH
def test_add_node_with_deprecated_parameters_retry_and_input_runs_with_deprecation_warning(
    engine: Engine,
) -> None:
    calls: list[Any] = []

    def node(state: Any) -> State:
        calls.append(dict(state))
        if len(calls) < 2:
            raise KeyError
        return {"y": 1}

    policy = engine.RetryPolicy(initial_interval=0.001, retry_on=KeyError)
    graph = engine.StateGraph(State)
    with pytest.deprecated_call():
        graph.add_node("a", node, retry=policy, input=Given)
    compiled = graph.add_edge(engine.START, "a").compile()
    assert compiled.invoke({"x": 2, "y": 5})["y"] == 1
    assert calls == [{"x": 2}, {"x": 2}]


@BOTH
def test_task_with_deprecated_retry_parameter_runs_with_deprecation_warning(engine: Engine) -> None:
    calls: list[int] = []
    policy = engine.RetryPolicy(initial_interval=0.001, retry_on=KeyError)
    with pytest.deprecated_call():

        @engine.task(retry=policy)
        def work(value: int) -> int:
            calls.append(value)
            if len(calls) < 2:
                raise KeyError
            return value + 1

    with pytest.deprecated_call():

        @engine.entrypoint(config_schema=Context)
        def flow(value: int) -> int:
            done: int = work(value).result()
            return done

    assert flow.invoke(1) == 2
    assert calls == [1, 1]


@BOTH
@pytest.mark.parametrize(("during", "stored"), [(True, 3), (False, 1)])
@pytest.mark.parametrize("form", ["invoke", "stream", "ainvoke", "astream"])
def test_checkpoint_during_argument_sets_durability_with_deprecation_warning(
    engine: Engine, during: bool, stored: int, form: str
) -> None:
    graph = engine.StateGraph(State).add_node("a", lambda state: {"y": 1})
    compiled = graph.add_edge(engine.START, "a").compile(checkpointer=engine.InMemorySaver())

    async def acall() -> None:
        if form == "ainvoke":
            await compiled.ainvoke({"x": 1}, CONFIG, checkpoint_during=during)
        else:
            _ = [c async for c in compiled.astream({"x": 1}, CONFIG, checkpoint_during=during)]

    with pytest.deprecated_call():
        if form.startswith("a"):
            asyncio.run(acall())
        else:
            _ = [*getattr(compiled, form)({"x": 1}, CONFIG, checkpoint_during=during)]
    assert len(list(compiled.get_state_history(CONFIG))) == stored


def test_current_and_deprecated_parameter_given_together_raise_type_or_value_error() -> None:
    with pytest.raises(TypeError, match="input and input_schema"):
        OURS.StateGraph(State, input=Given, input_schema=Given)
    graph = OURS.StateGraph(State).add_node("a", lambda state: {}).add_edge(OURS.START, "a")
    with pytest.raises(ValueError, match="not both"):
        graph.compile().invoke({"x": 1}, durability="sync", checkpoint_during=True)
    with pytest.raises(TypeError, match="nonsense"):
        OURS.StateGraph(State, nonsense=1)
