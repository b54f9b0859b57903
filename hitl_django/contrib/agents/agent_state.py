"""State schemas of agents."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any, NotRequired, get_type_hints

from pydantic import BaseModel, create_model
from typing_extensions import TypedDict

from hitl_django.engine.state.messages import add_messages
from hitl_django.engine.state.schema import RemainingSteps, is_model

#: Key under which a hook before the model returns messages that replace those of the state.
LLM_INPUT = "llm_input_messages"


class AgentState(TypedDict):
    """State of an agent."""

    messages: Annotated[Sequence[Any], add_messages]
    remaining_steps: NotRequired[RemainingSteps]


class AgentStatePydantic(BaseModel):
    """State of an agent as a pydantic model."""

    messages: Annotated[Sequence[Any], add_messages]
    remaining_steps: RemainingSteps = 25


class AgentStateWithStructuredResponse(AgentState):
    """State of an agent with a response schema."""

    structured_response: Any


class AgentStateWithStructuredResponsePydantic(AgentStatePydantic):
    """State of an agent with a response schema, as a pydantic model."""

    structured_response: Any


def check_state_schema(schema: Any, *, is_structured: bool) -> None:
    """Raise ValueError if a state schema doesn't have the fields that an agent needs."""
    needed = {"messages", "remaining_steps"} | ({"structured_response"} if is_structured else set())
    missing = sorted(needed - set(get_type_hints(schema)))
    if missing:
        raise ValueError(f"state_schema is missing: {', '.join(missing)}.")


def add_llm_input(schema: Any) -> Any:
    """Return the state schema with an additional field, ``llm_input_messages``.

    The model receives the messages in this field instead of ``messages``.
    """
    if is_model(schema):
        return create_model("ModelInput", __base__=schema, **{LLM_INPUT: (list[Any] | None, None)})  # type: ignore[call-overload]
    if dataclasses.is_dataclass(schema):
        added = (LLM_INPUT, list[Any] | None, dataclasses.field(default=None, kw_only=True))
        return dataclasses.make_dataclass("ModelInput", [added], bases=(schema,))  # type: ignore[arg-type]
    hints = get_type_hints(schema, include_extras=True)
    return TypedDict("ModelInput", {**hints, LLM_INPUT: list[Any]}, total=False)  # type: ignore[operator]
