"""Models of Google's ADK whose responses are stored."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Any
from uuid import uuid4

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.models import BaseLlm, LlmCapabilities
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai.types import Content, Part
from pydantic import PrivateAttr

from hitl_django.contrib.framework_agents import ModelCalls
from hitl_django.engine.ids import hash_json

#: Key of the message's id in the metadata of a response.
MESSAGE_ID = "hitl_message_id"


class StoredLlm(BaseLlm):
    """Model whose responses are stored.

    Each call of the model adds the JSON Schemas of the tools' arguments to ``schemas``, by tool
    name.
    """

    _agent: str = PrivateAttr()
    _llm: BaseLlm = PrivateAttr()
    _calls: ModelCalls = PrivateAttr()
    _schemas: dict[str, dict[str, Any]] = PrivateAttr()

    def __init__(
        self, agent: str, llm: BaseLlm, calls: ModelCalls, schemas: dict[str, dict[str, Any]]
    ) -> None:
        super().__init__(model=llm.model)
        self._agent, self._llm, self._calls, self._schemas = agent, llm, calls, schemas

    @property
    def capabilities(self) -> LlmCapabilities:
        return self._llm.capabilities

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,
    ) -> AsyncGenerator[LlmResponse, None]:
        self._schemas.update(_list_schemas(llm_request))

        async def respond(message_id: str) -> Any:
            response = await self._respond(message_id, llm_request)
            return response.model_dump(mode="json", exclude_none=True)

        # Agents can run in parallel, and call their models in any order.
        contents = [each.model_dump(mode="json") for each in llm_request.contents]
        key = hash_json([self._agent, contents])
        yield LlmResponse.model_validate(await self._calls.call(key, respond))

    async def _respond(self, message_id: str, llm_request: LlmRequest) -> LlmResponse:
        parts: list[Part] = []
        response = LlmResponse()
        async for response in self._llm.generate_content_async(
            llm_request, stream=self._calls.is_streaming
        ):
            given = (response.content and response.content.parts) or []
            if response.partial:
                text = "".join(part.text or "" for part in given if not part.thought)
                self._calls.stream_text(message_id, text)
            else:
                parts.extend(given)
        if not parts:
            reason = f"{response.error_code}: {response.error_message}"
            raise RuntimeError(
                f"The model of agent '{self._agent}' returned no content ({reason})."
            )
        for part in parts:
            if part.function_call and not part.function_call.id:
                # The ids that the ADK adds would differ when the task runs again.
                part.function_call.id = f"adk-{uuid4()}"
        content = Content(role="model", parts=parts)
        metadata = {**(response.custom_metadata or {}), MESSAGE_ID: message_id}
        return response.model_copy(update={"content": content, "custom_metadata": metadata})


def adapt_agent(
    agent: BaseAgent, calls: ModelCalls, schemas: dict[str, dict[str, Any]]
) -> BaseAgent:
    """Return a copy of an agent and its sub-agents in which each model is a StoredLlm."""
    adapted = agent.clone()
    for each in list_agents(adapted):
        if isinstance(each, LlmAgent):
            each.model = StoredLlm(each.name, each.canonical_model, calls, schemas)
    return adapted


def list_agents(agent: BaseAgent) -> Iterator[BaseAgent]:
    """Yield the sub-agents of an agent, and then the agent."""
    # Agents without a model use the model of their parent, which is therefore the last.
    for each in agent.sub_agents:
        yield from list_agents(each)
    yield agent


def _list_schemas(llm_request: LlmRequest) -> dict[str, dict[str, Any]]:
    schemas: dict[str, dict[str, Any]] = {}
    for tool in llm_request.config.tools or ():
        for declaration in getattr(tool, "function_declarations", None) or ():
            schema = declaration.parameters_json_schema
            if schema is None and declaration.parameters:
                schema = declaration.parameters.json_schema.model_dump(
                    mode="json", by_alias=True, exclude_none=True
                )
            if schema and declaration.name:
                schemas[declaration.name] = schema
    return schemas
