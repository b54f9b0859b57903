"""Input and output schemas of graphs, compared with LangGraph's."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from .engines import LANGGRAPH, OURS, Engine


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], operator.add]


@dataclass
class Point:
    x: int
    z: int | None
    y: int = 0
    log: list[int] = field(default_factory=list)


class Shape(BaseModel):
    x: int
    name: str = "s"


STATES: dict[str, Any] = {"typed dict": State, "dataclass": Point, "model": Shape}


def described(engine: Engine, state: Any) -> dict[str, Any]:
    graph = engine.StateGraph(state, context_schema=Point).add_node("n", lambda given: {"x": 1})
    made = graph.add_edge(engine.START, "n").compile(name="Named")
    return {
        "input": made.get_input_jsonschema(),
        "output": made.get_output_jsonschema(),
        "context": made.get_context_jsonschema(),
        "types": (made.InputType, made.OutputType),
        "names": (made.get_name(), made.get_name("Input"), made.get_name("out", name="low")),
        "models": made.get_input_schema().model_json_schema(),
        "out models": made.get_output_schema().model_json_schema()["properties"],
        "input_schema": made.input_schema.model_json_schema(),
        "output_schema": made.output_schema.model_json_schema()["properties"],
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("state", STATES)
def test_graph_json_schemas_match_langgraph(state: str) -> None:
    ours, theirs = described(OURS, STATES[state]), described(LANGGRAPH, STATES[state])
    assert ours == theirs


@pytest.mark.filterwarnings("ignore")
def test_entrypoint_json_schemas_match_langgraph() -> None:
    described = []
    for engine in (OURS, LANGGRAPH):

        @engine.entrypoint(context_schema=Shape)
        def flow(value: int) -> list[int]:
            return [value]

        def save(value: list[int]) -> Any:
            return value

        save.__annotations__["return"] = engine.entrypoint.final[str, int]
        saving = engine.entrypoint()(save)

        def open_save(value: int) -> Any:
            return value

        open_save.__annotations__["return"] = engine.entrypoint.final
        any_saved = engine.entrypoint()(open_save)

        @engine.entrypoint()
        def untyped(value):  # type: ignore[no-untyped-def]
            return value

        described.append(
            (
                *(each.get_input_jsonschema() for each in (flow, saving, any_saved, untyped)),
                *(each.get_output_jsonschema() for each in (flow, saving, any_saved, untyped)),
                (saving.OutputType, flow.get_input_schema().model_json_schema()),
                flow.get_context_jsonschema(),
                flow.get_config_jsonschema()["properties"].keys(),
                flow.get_config_jsonschema(include=["tags"])["properties"].keys(),
            )
        )
    assert described[0] == described[1]


def test_dataclass_field_with_default_can_be_omitted_from_input() -> None:
    seen: list[Any] = []
    graph = OURS.StateGraph(Point).add_node("n", lambda given: seen.append(given) or {})
    compiled = graph.add_edge(OURS.START, "n").compile()
    assert compiled.get_input_jsonschema()["required"] == ["x"]
    compiled.invoke({"x": 1})
    assert seen == [Point(x=1, z=None)]
