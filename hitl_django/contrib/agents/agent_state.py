"""The states of agents."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any, NotRequired, get_type_hints

from pydantic import BaseModel, create_model
from typing_extensions import TypedDict

from hitl_django.engine.state.messages import add_messages
from hitl_django.engine.state.schema import RemainingSteps, is_model

#: What a hook before the model may have it see instead of the messages of the state.
LLM_INPUT = "llm_input_messages"


class AgentState(TypedDict):
    """The state of an agent: its messages."""

    messages: Annotated[Sequence[Any], add_messages]
    remaining_steps: NotRequired[RemainingSteps]


class AgentStatePydantic(BaseModel):
    """The state of an agent, as a model."""

    messages: Annotated[Sequence[Any], add_messages]
    remaining_steps: RemainingSteps = 25


class AgentStateWithStructuredResponse(AgentState):
    """The state of an agent whose answer has a schema."""

    structured_response: Any


class AgentStateWithStructuredResponsePydantic(AgentStatePydantic):
    """The state of an agent whose answer has a schema, as a model."""

    structured_response: Any


def check_state_schema(schema: Any, *, is_structured: bool) -> None:
    """Raise ValueError where a state has not the fields that an agent's has."""
    needed = {"messages", "remaining_steps"} | ({"structured_response"} if is_structured else set())
    missing = sorted(needed - set(get_type_hints(schema)))
    if missing:
        raise ValueError(f"state_schema is missing: {', '.join(missing)}.")


def add_llm_input(schema: Any) -> Any:
    """Return a state's schema with the messages that a hook has the model see instead."""
    if is_model(schema):
        return create_model("ModelInput", __base__=schema, **{LLM_INPUT: (list[Any] | None, None)})  # type: ignore[call-overload]
    if dataclasses.is_dataclass(schema):
        added = (LLM_INPUT, list[Any] | None, dataclasses.field(default=None, kw_only=True))
        return dataclasses.make_dataclass("ModelInput", [added], bases=(schema,))  # type: ignore[arg-type]
    hints = get_type_hints(schema, include_extras=True)
    return TypedDict("ModelInput", {**hints, LLM_INPUT: list[Any]}, total=False)  # type: ignore[operator]
