"""``register_agent``: registration of Pydantic AI's agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic_ai import (
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    RetryPromptPart,
    ToolApproved,
    ToolCallPart,
    ToolDenied,
    ToolReturnPart,
)
from pydantic_ai.agent import AbstractAgent, AgentRunResult
from pydantic_core import to_jsonable_python

from hitl_django.contrib.framework_agents import (
    APPROVAL,
    REPLY,
    AgentTurn,
    FrameworkAgent,
    ModelCalls,
    ToolDecision,
    ToolRequest,
    build_model_message,
    build_tool_message,
    register_framework_agent,
)
from hitl_django.decision_types import REJECT, RESPOND

from .stored_model import AGENT, StoredModelCalls


def register_agent(
    name: str,
    agent: AbstractAgent[Any, Any],
    *,
    deps: Callable[[], Any] | None = None,
    **options: Any,
) -> None:
    """Register an agent of Pydantic AI as the graph ``name``.

    The input of a run is ``{"messages": [...]}``, and the result has the agent's ``messages`` and
    ``output``. Tool calls that need an approval, and calls of tools that raise CallDeferred, become
    interrupts.

    Args:
        name: the name of the graph.
        agent: the agent.
        deps: a function that returns the agent's dependencies, called each time the agent runs.
        options: the options of ``register``.
    """
    register_framework_agent(name, lambda: _PydanticAgent(agent, deps), options)


class _PydanticAgent(FrameworkAgent):
    def __init__(self, agent: AbstractAgent[Any, Any], deps: Callable[[], Any] | None) -> None:
        self._agent, self._deps = agent, deps

    async def run(
        self,
        run_state: Any,
        prompt: str | None,
        decisions: Mapping[str, ToolDecision],
        calls: ModelCalls,
    ) -> AgentTurn:
        stored = StoredModelCalls(calls)
        results = _convert_decisions(decisions) if decisions else None
        result: AgentRunResult[Any] = await self._agent.run(
            prompt,
            message_history=ModelMessagesTypeAdapter.validate_python(run_state or []),
            deferred_tool_results=results,
            output_type=[self._agent.output_type, DeferredToolRequests],
            deps=self._deps() if self._deps else None,
            capabilities=[stored],
        )
        state = to_jsonable_python(result.all_messages())
        messages = list(_list_messages(result.new_messages(), calls))
        if isinstance(result.output, DeferredToolRequests):
            return AgentTurn(state, messages, _list_requests(result.output, stored.schemas))
        return AgentTurn(state, messages, output=to_jsonable_python(result.output))


def _convert_decisions(decisions: Mapping[str, ToolDecision]) -> DeferredToolResults:
    results = DeferredToolResults()
    for call_id, decision in decisions.items():
        if decision.type == RESPOND:
            results.calls[call_id] = decision.message
        elif decision.type == REJECT:
            denied = ToolDenied(decision.message) if decision.message else ToolDenied()
            results.approvals[call_id] = denied
        else:
            results.approvals[call_id] = ToolApproved(override_args=decision.args)
    return results


def _list_requests(
    deferred: DeferredToolRequests, schemas: Mapping[str, dict[str, Any]]
) -> list[ToolRequest]:
    return [
        ToolRequest(
            id=call.tool_call_id,
            name=call.tool_name,
            args=call.args_as_dict(),
            schema=schemas.get(call.tool_name),
            decisions=allowed,
        )
        for parts, allowed in ((deferred.approvals, APPROVAL), (deferred.calls, REPLY))
        for call in parts
    ]


def _list_messages(messages: Sequence[ModelMessage], calls: ModelCalls) -> Iterator[dict[str, Any]]:
    number = 0
    for message in messages:
        if isinstance(message, ModelResponse):
            number += 1
            yield build_model_message(
                calls.get_message_id(AGENT, number),
                message.text or "",
                [
                    (part.tool_call_id, part.tool_name, part.args_as_dict())
                    for part in message.parts
                    if isinstance(part, ToolCallPart)
                ],
            )
            continue
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                yield build_tool_message(
                    part.tool_call_id, part.tool_name, part.model_response_str()
                )
            elif isinstance(part, RetryPromptPart) and part.tool_name:
                yield build_tool_message(part.tool_call_id, part.tool_name, part.model_response())
