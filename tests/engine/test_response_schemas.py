"""Response schemas that interrupt() rejects, with the path in the error."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Annotated, Any, Optional, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict, Field

from hitl_django import START, StateGraph, interrupt
from hitl_django.engine.errors import GraphDefinitionError, InvalidUpdateError, PayloadError
from hitl_django.engine.state import response_schemas
from hitl_django.engine.state.response_schemas import make_response_schema
from hitl_django.engine.state.schema import build_json_schema

from .graphs import CONFIG, line, saved

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


class Tree(BaseModel):
    below: Optional[list[Tree]] = None  # noqa: UP045


class Secretive(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")

    name: Annotated[str, Field(pattern="a(?=b)")]
    price: Decimal = Field(default=Decimal(1), max_digits=8, decimal_places=2)


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"properties": {"due": {"type": "date"}}}, "/properties/due/type"),
        ({"type": []}, "/type"),
        ({"type": ["string", "date"]}, "/type"),
        ({"required": True}, "/required"),
        ({"properties": {"a": {"required": True}}}, "/properties/a/required"),
        ({"properties": {"a/b": 5}}, "/properties/a~1b"),
        ({"properties": []}, "/properties"),
        ({"anyOf": []}, "/anyOf"),
        ({"anyOf": {}}, "/anyOf"),
        ({"prefixItems": [{"type": "x"}]}, "/prefixItems/0/type"),
        ({"items": [{"type": "x"}]}, "/items/0/type"),
        ({"items": 5}, "/items"),
        ({"dependencies": {"a": {"type": "x"}}}, "/dependencies/a/type"),
        ({"enum": []}, "/enum"),
        ({"minimum": "1"}, "/minimum"),
        ({"minimum": 1, "exclusiveMinimum": True}, "/exclusiveMinimum"),
        ({"maxItems": -1}, "/maxItems"),
        ({"multipleOf": 0}, "/multipleOf"),
        ({"uniqueItems": "yes"}, "/uniqueItems"),
        ({"$ref": "#/$defs/Nope"}, "/$ref"),
        ({"$ref": "https://example.com/s.json"}, "/$ref"),
        ({"$ref": DRAFT_7}, "/$ref"),
        ({"$ref": "#"}, "its root"),
        ({"anyOf": [{"type": "null"}, {"$ref": "#"}]}, "its root"),
        ({"$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}}, "/$defs/a"),
        ({"$ref": "#/x", "x": {"type": "y"}}, "/$ref/type"),
        ({"$recursiveRef": "#"}, "/$recursiveRef"),
        ({"properties": {"a": {"pattern": "a(?=b)"}}}, "/properties/a/pattern"),
        ({"pattern": "["}, "/pattern"),
        ({"patternProperties": {"a(?<=b)": {}}}, "/patternProperties"),
        ({"items": [{}], "unevaluatedItems": False}, "/unevaluatedItems"),
        (
            {"allOf": [{"patternProperties": {"a": {}}}], "unevaluatedProperties": False},
            "/unevaluatedProperties",
        ),
    ],
)
def test_make_response_schema_with_invalid_schema_raises_graph_definition_error_naming_path(
    schema: Any, path: str
) -> None:
    with pytest.raises(GraphDefinitionError) as refusal:
        make_response_schema(schema)
    assert f"can't be applied at {path}: " in str(refusal.value)


class _Plain:
    pass


@pytest.mark.parametrize("schema", [_Plain, list[_Plain], False])
def test_make_response_schema_with_unvalidatable_type_raises_graph_definition_error(
    schema: Any,
) -> None:
    """After a decision, the node could not receive a value of the type."""
    with pytest.raises(GraphDefinitionError, match="neither a JSON schema nor a type"):
        make_response_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"$schema": DRAFT_7, "items": [{"type": "number"}], "additionalItems": False},
        {
            "definitions": {"a": {"type": "string"}},
            "properties": {"b": {"$ref": "#/definitions/a"}},
        },
        {"properties": {"a": {"items": [{}, {}]}, "b": {"$ref": "#/properties/a/items/0"}}},
        {"properties": {"type": {"type": "string"}, "required": {}, "$ref": {}}, "x-kind": 5},
        {"const": {"type": "date"}, "default": {"$ref": 1}, "examples": [{"required": True}]},
        {"$ref": "#node", "$defs": {"node": {"$anchor": "node", "items": {"$ref": "#node"}}}},
        {"$id": "https://example.com/a", "$ref": "b", "$defs": {"b": {"$id": "b", "type": "null"}}},
        {"$defs": {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(900)} | {"a900": True}},
        {"pattern": "^(?=.*[A-Z]).{8,}$", "format": "x-of-ours", "dependencies": {"a": ["b"]}},
    ],
    ids=str,
)
def test_make_response_schema_returns_valid_json_schema_unchanged(schema: Any) -> None:
    assert make_response_schema(schema) == schema


def test_make_response_schema_of_model_class_omits_unsupported_regex_patterns() -> None:
    made = make_response_schema(Secretive)
    assert "pattern" not in made["properties"]["name"]
    assert make_response_schema(Tree)["$defs"]["Tree"]["properties"]["below"]


def test_make_response_schema_describes_each_class_once_and_returns_independent_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Decision(BaseModel):
        approved: bool

    built: list[Any] = []

    def build(schema: Any) -> Any:
        built.append(schema)
        return build_json_schema(schema)

    monkeypatch.setattr(response_schemas, "build_json_schema", build)
    make_response_schema(Decision)["properties"].clear()
    assert make_response_schema(Decision)["properties"]["approved"]["type"] == "boolean"
    assert built == [Decision]


def test_build_json_schema_keeps_member_order_of_unions_that_compare_equal() -> None:
    for first, second in ((int | str, str | int), (list[int | str], list[str | int])):
        assert build_json_schema(first) != build_json_schema(second)


class Column:
    pass


class Row:
    title: Column[str]  # type: ignore[type-arg]


class RowState(TypedDict):
    row: Row


def test_class_whose_annotations_cannot_be_evaluated_can_be_the_type_of_a_state_field() -> None:
    graph = StateGraph(RowState).add_node("same", lambda state: {"row": Row()})
    described = graph.add_edge(START, "same").compile().get_input_jsonschema()
    assert described["properties"] == {"row": {}}
    with pytest.raises(InvalidUpdateError):
        StateGraph(RowState).add_node("row", lambda state: Row()).add_edge(
            START, "row"
        ).compile().invoke({"row": None})
    with pytest.raises(TypeError, match="not subscriptable"):
        StateGraph(Row)


def test_make_response_schema_with_decimal_raises_payload_error_naming_path() -> None:
    fault = r"The response schema contains a value of type Decimal at \$\.minimum"
    with pytest.raises(PayloadError, match=fault):
        make_response_schema({"minimum": Decimal(1)})


def test_interrupt_with_invalid_response_schema_fails_node_without_pending_interrupt() -> None:
    graph = saved(line(a=lambda state: interrupt("q", response_schema={"type": "date"})))
    with pytest.raises(GraphDefinitionError, match="at /type: it must be one of array, boolean"):
        graph.invoke({"x": 1}, CONFIG)
    assert graph.get_state(CONFIG).interrupts == ()


def test_make_response_schema_checks_recursive_schema_within_one_second() -> None:
    names = [f"a{n}" for n in range(60)]
    every = [{"$ref": f"#/$defs/{name}"} for name in names]
    schema = {"$defs": {name: {"items": {"anyOf": every}} for name in names}}
    begun = time.process_time()
    make_response_schema(schema)
    assert time.process_time() - begun < 1
