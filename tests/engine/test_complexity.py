"""Recursive values, which are counted before pydantic reads them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError

from hitl_django.contrib.agents.invocation_error import ToolInvocationError
from hitl_django.contrib.agents.tool import Tool
from hitl_django.engine.errors import InvalidInputError
from hitl_django.engine.state import complexity
from hitl_django.engine.state.complexity import contains_itself, is_too_complex
from hitl_django.engine.state.schema import MAX_FAULTS, check_input, coerce

seen: list[Any] = []


def look(value: Any) -> Any:
    seen.append(value)
    return value


class All(BaseModel):
    type: Literal["all"]
    of: list[Condition]


class Any_(BaseModel):
    type: Literal["any"]
    of: list[Condition]


class Not(BaseModel):
    type: Literal["not"]
    of: Condition


class Is(BaseModel):
    name: str


Condition = Annotated[All | Any_ | Not | Is, BeforeValidator(look)]


class TaggedNot(BaseModel):
    type: Literal["not"]
    of: Tagged


class TaggedIs(BaseModel):
    type: Literal["is"]


class TaggedAll(BaseModel):
    type: Literal["all"]
    of: list[Tagged]


Tagged = Annotated[TaggedNot | TaggedIs | TaggedAll, Field(discriminator="type")]

for model in (All, Any_, Not, TaggedNot, TaggedAll):
    model.model_rebuild()


class State(BaseModel):
    condition: Condition


class Plain(BaseModel):
    condition: dict[str, int | str]


def nested(levels: int, kind: str = "all", last: Any = None) -> Any:
    value = {"name": "paid"} if last is None else last
    for _ in range(levels):
        value = {"type": kind, "of": value if kind == "not" else [value]}
    return value


def described(annotation: Any) -> dict[str, Any]:
    return TypeAdapter(annotation).json_schema()


@pytest.mark.parametrize("levels", range(1, 7))
@pytest.mark.parametrize("kind", ["not", "all"])
def test_estimated_validator_calls_are_one_to_twenty_times_the_calls_of_pydantic(
    levels: int, kind: str
) -> None:
    def counted(depth: int) -> int:
        return complexity._Count(described(Condition)).calls(
            described(Condition), nested(depth, kind)
        )

    def looked(depth: int) -> int:
        seen.clear()
        try:
            TypeAdapter(Condition).validate_python(nested(depth, kind))
        finally:
            count = len(seen)
            seen.clear()
        return count

    # pydantic comes to the union; the count is of each type in it and of what they hold besides.
    assert looked(levels) <= counted(levels) <= 20 * looked(levels)


@pytest.mark.parametrize("last", [{"name": "paid"}, {"nam": 1}])
def test_too_complex_nested_value_raises_validation_error_before_pydantic_validates(
    last: Any,
) -> None:
    seen.clear()
    with pytest.raises(ValidationError, match="too complex"):
        coerce(Condition, nested(60, last=last))
    assert seen == []
    assert coerce(Condition, nested(5)).of[0].type == "all"
    # What only one type of the union goes into isn't multiplied.
    assert coerce(Condition, nested(60, "not")).of.type == "not"


def test_discriminated_union_nested_sixty_levels_is_validated() -> None:
    value = nested(60, last={"type": "is"})
    assert coerce(Tagged, value).model_dump() == value
    assert not is_too_complex(described(Tagged), value)


@pytest.mark.parametrize(
    "value", [{"type": "none", "of": {}}, {"type": 1}, {"type": "all", "of": 3}, "text", None, []]
)
def test_value_with_unknown_discriminator_raises_the_validation_error_of_pydantic(
    value: Any,
) -> None:
    assert not is_too_complex(described(Tagged), value)
    with pytest.raises(ValidationError, match=r"(?!too complex)"):
        coerce(Tagged, value)


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [(Condition, True), (list[Condition], True), (Tagged, True), (Plain, False), (int, False)],
)
def test_contains_itself_returns_true_only_for_recursive_types(
    annotation: Any, expected: bool
) -> None:
    assert contains_itself(described(annotation)) is expected


def test_coerce_of_self_referencing_value_raises_validation_error() -> None:
    round_: dict[str, Any] = {"type": "not"}
    round_["of"] = round_
    with pytest.raises(ValidationError):
        coerce(Condition, round_)


def test_value_nested_100000_levels_is_reported_as_too_complex() -> None:
    assert is_too_complex(described(Tagged), nested(100_000, last={"type": "is"}))


@pytest.mark.parametrize("schema", [State, dict])
def test_check_input_of_too_complex_value_reports_exactly_one_fault(schema: Any) -> None:
    fields = {"condition": Condition}
    with pytest.raises(InvalidInputError, match="too complex") as refused:
        check_input(fields, schema, {"condition": nested(60)})
    assert len(refused.value.faults) == 1


def test_tool_call_with_too_complex_arguments_raises_tool_invocation_error() -> None:
    def find(condition: Condition) -> str:
        return "found"

    tool = Tool(find)
    with pytest.raises(ToolInvocationError, match="too complex"):
        tool.arguments({"condition": nested(60)}, {})


def test_check_input_reports_at_most_max_faults() -> None:
    with pytest.raises(InvalidInputError) as refused:
        check_input({"names": list[str]}, dict, {"names": list(range(1_000))})
    assert len(refused.value.faults) == MAX_FAULTS
