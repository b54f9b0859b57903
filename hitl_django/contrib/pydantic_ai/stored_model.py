"""Model calls of Pydantic AI whose responses are stored."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import (
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    RunContext,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models import (
    CompletedStreamedResponse,
    Model,
    ModelRequestParameters,
    StreamedResponse,
)
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from hitl_django.contrib.framework_agents import ModelCalls

#: Name of the agent in the keys of its model calls. A run of Pydantic AI has one agent.
AGENT = "agent"
_RESPONSE: TypeAdapter[ModelResponse] = TypeAdapter(ModelResponse)


class StoredModelCalls(AbstractCapability[Any]):
    """A Pydantic AI capability (agent extension) that stores the responses of the agent's model.

    ``schemas`` are the JSON Schemas of the tools' arguments, by tool name.
    """

    def __init__(self, calls: ModelCalls) -> None:
        self.calls = calls
        self.schemas: dict[str, dict[str, Any]] = {}

    def get_wrapper_model(self, model: Model) -> Model:
        return _StoredModel(model, self)


class _StoredModel(WrapperModel):
    def __init__(self, model: Model, stored: StoredModelCalls) -> None:
        super().__init__(model)
        self._stored = stored

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        for tool in model_request_parameters.function_tools:
            self._stored.schemas[tool.name] = tool.parameters_json_schema

        async def respond(message_id: str) -> Any:
            request = messages, model_settings, model_request_parameters
            if self._stored.calls.is_streaming:
                response = await self._stream(message_id, *request)
            else:
                response = await self.wrapped.request(*request)
            return _RESPONSE.dump_python(response, mode="json")

        return _RESPONSE.validate_python(await self._stored.calls.call(AGENT, respond))

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(
            response, model_request_parameters=model_request_parameters, replay_events=True
        )

    async def _stream(self, message_id: str, *request: Any) -> ModelResponse:
        async with self.wrapped.request_stream(*request) as stream:
            async for event in stream:
                match event:
                    case PartStartEvent(part=TextPart(content=text)):
                        self._stored.calls.stream_text(message_id, text)
                    case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                        self._stored.calls.stream_text(message_id, text)
            return stream.get()
