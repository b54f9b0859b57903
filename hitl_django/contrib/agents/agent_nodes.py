"""Nodes of an agent that call the model."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from hitl_django.engine.task.nodes import build_action

from .agent_model import AgentModel, call_later, call_now, find_chat_model, make_message
from .agent_state import LLM_INPUT
from .tool_call import list_calls
from .tool_messages import get_messages, get_part, list_open_calls

#: Answer of an agent that has no steps left for the tool calls of its model.
_NO_STEPS = "Sorry, need more steps to process this request."


class ModelNode:
    """Node that calls the model and adds its response to the messages.

    ``speaker`` is the name of the agent. The model's messages get this name.

    Raises:
        ValueError: there are no messages, or a tool call has no result.
    """

    def __init__(self, model: AgentModel, speaker: str | None, *, has_hook: bool) -> None:
        self.name = "agent"
        self._model, self._speaker, self._has_hook = model, speaker, has_hook

    def invoke(self, state: Any) -> dict[str, Any]:
        return self._build_update(state, self._model.ask(self._view(state)))

    async def ainvoke(self, state: Any) -> dict[str, Any]:
        return self._build_update(state, await self._model.aask(self._view(state)))

    def _view(self, state: Any) -> Any:
        """Return the state as the prompt and the model see it.

        If ``pre_model_hook`` has set ``llm_input_messages``, these messages replace the messages of
        the state.
        """
        messages = (get_part(state, LLM_INPUT) if self._has_hook else None) or get_part(
            state, "messages"
        )
        if messages is None:
            also = f"{LLM_INPUT!r} or " if self._has_hook else ""
            raise ValueError(f"The agent's model requires {also}'messages' in the state.")
        _check_calls(messages)
        if isinstance(state, dict):
            return {**state, "messages": messages}
        seen = copy.copy(state)
        seen.messages = messages
        return seen

    def _build_update(self, state: Any, response: Any) -> dict[str, Any]:
        if isinstance(response, dict):
            response = {**response, "name": self._speaker} if self._speaker else response
        else:
            response.name = self._speaker
        if _lacks_steps(state, response):
            id = get_part(response, "id")
            response = make_message({"role": "assistant", "content": _NO_STEPS, "id": id})
        return {"messages": [response]}


def _lacks_steps(state: Any, response: Any) -> bool:
    left = get_part(state, "remaining_steps")
    return left is not None and left < 2 and bool(get_part(response, "tool_calls"))


class ResponseNode:
    """Node in which the model returns its answer in the format of a schema.

    ``format`` is the schema, or a pair of a system prompt and the schema.
    """

    def __init__(self, model: AgentModel, format: Any) -> None:
        self.name = "generate_structured_response"
        self._model = model
        self._told, self._schema = format if isinstance(format, tuple) else (None, format)

    def invoke(self, state: Any) -> dict[str, Any]:
        model = find_chat_model(self._model.resolve(state))
        asked = build_action(model.with_structured_output(self._schema))
        return {"structured_response": call_now(asked, self._read(state))}

    async def ainvoke(self, state: Any) -> dict[str, Any]:
        model = find_chat_model(await self._model.aresolve(state))
        asked = build_action(model.with_structured_output(self._schema))
        return {"structured_response": await call_later(asked, self._read(state))}

    def _read(self, state: Any) -> list[Any]:
        messages = get_messages(state, "messages")
        if self._told is None:
            return messages
        return [make_message({"role": "system", "content": self._told}), *messages]


def _check_calls(messages: Sequence[Any]) -> None:
    """Raise ValueError if a tool call has no result.

    Most providers of models reject messages with such a tool call.
    """
    left = list_open_calls(messages)
    if left:
        named = ", ".join(f"{call.name} ({call.id})" for call in list_calls(left[:3]))
        raise ValueError(
            f"Found tool calls without a result: {named}. Each tool call must be followed "
            "by its result before the next model call."
        )
