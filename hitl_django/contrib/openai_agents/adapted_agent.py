"""Models of OpenAI's Agents SDK whose responses are stored."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextvars import ContextVar
from copy import copy
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelBehaviorError,
    ModelProvider,
    ModelResponse,
    Usage,
)
from agents.models.fake_id import FAKE_RESPONSES_ID
from agents.models.multi_provider import MultiProvider
from agents.tool_context import ToolContext
from openai.types.responses import ResponseCompletedEvent, ResponseTextDeltaEvent
from pydantic import TypeAdapter

from hitl_django.contrib.framework_agents import ModelCalls
from hitl_django.engine.ids import hash_json

#: Model calls of the running turn.
current_calls: ContextVar[ModelCalls] = ContextVar("current_calls")
#: Arguments changed by reviewers, by id of the tool call. The SDK rejects a stored run whose tool
#: calls were changed, so the tools replace the arguments.
edited_args: ContextVar[dict[str, dict[str, Any]]] = ContextVar("edited_args")
_RESPONSE: TypeAdapter[ModelResponse] = TypeAdapter(ModelResponse)


class StoredModelProvider(ModelProvider):
    """Provider that returns models by name, and stores their responses."""

    def __init__(self) -> None:
        self._provider = MultiProvider()

    def get_model(self, model_name: str | None) -> Model:
        return StoredModel(self._provider.get_model(model_name))


class StoredModel(Model):
    """Model whose responses are stored."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],  # noqa: A002
        *args: Any,
        **kwargs: Any,
    ) -> ModelResponse:
        calls = current_calls.get()

        async def respond(_: str) -> Any:
            if calls.is_streaming:
                response = await self._stream(calls, system_instructions, input, *args, **kwargs)
            else:
                response = await self._model.get_response(
                    system_instructions, input, *args, **kwargs
                )
            return _RESPONSE.dump_python(response, mode="json")

        # Agents that are tools may call models in parallel, in any order.
        key = hash_json([system_instructions, input])
        return _RESPONSE.validate_python(await calls.call(key, respond))

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError("Turns of an agent aren't run with Runner.run_streamed().")

    async def _stream(self, calls: ModelCalls, *args: Any, **kwargs: Any) -> ModelResponse:
        response = None
        async for event in self._model.stream_response(*args, **kwargs):
            if isinstance(event, ResponseTextDeltaEvent) and event.item_id != FAKE_RESPONSES_ID:
                calls.stream_text(event.item_id, event.delta)
            elif isinstance(event, ResponseCompletedEvent):
                response = event.response
        if response is None:
            raise ModelBehaviorError("The model's stream ended without a complete response.")
        used = response.usage
        usage = (
            Usage()
            if used is None
            else Usage(
                requests=1,
                input_tokens=used.input_tokens,
                output_tokens=used.output_tokens,
                total_tokens=used.total_tokens,
            )
        )
        return ModelResponse(response.output, usage=usage, response_id=response.id)


def adapt_agent(agent: Agent[Any], known: dict[int, Agent[Any]] | None = None) -> Agent[Any]:
    """Return a copy of an agent with a StoredModel, and with function tools that use EditableCall.

    The agents in its handoffs are copied in the same way. ``known`` contains the copies that were
    already made, by the ``id()`` of the original agent. A model given by name isn't changed,
    because StoredModelProvider stores the responses of this model.
    """
    known = {} if known is None else known
    if id(agent) not in known:
        adapted = known[id(agent)] = agent.clone()
        if isinstance(agent.model, Model):
            adapted.model = StoredModel(agent.model)
        adapted.tools = [
            _make_editable(tool) if isinstance(tool, FunctionTool) else tool for tool in agent.tools
        ]
        adapted.handoffs = [
            adapt_agent(each, known) if isinstance(each, Agent) else each for each in agent.handoffs
        ]
    return known[id(agent)]


class EditableCall:
    """Invocation of a tool with the arguments changed by a reviewer."""

    def __init__(self, tool: FunctionTool) -> None:
        self._invoke = tool.on_invoke_tool

    async def __call__(self, context: ToolContext[Any], arguments: str) -> Any:
        edited = edited_args.get({}).get(context.tool_call_id)
        return await self._invoke(context, arguments if edited is None else json.dumps(edited))


def _make_editable(tool: FunctionTool) -> FunctionTool:
    adapted = copy(tool)
    adapted.on_invoke_tool = EditableCall(tool)
    return adapted
