"""``register_agent``: registration of agents of OpenAI's Agents SDK."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    ItemHelpers,
    MessageOutputItem,
    RunConfig,
    RunContextWrapper,
    RunItem,
    Runner,
    RunState,
    ToolCallItem,
    ToolCallOutputItem,
)
from agents.items import ToolApprovalItem
from agents.models.fake_id import FAKE_RESPONSES_ID
from pydantic_core import to_jsonable_python

from hitl_django.contrib.framework_agents import (
    APPROVAL,
    AgentTurn,
    FrameworkAgent,
    ModelCalls,
    ToolDecision,
    ToolRequest,
    build_model_message,
    build_tool_message,
    register_framework_agent,
)
from hitl_django.decision_types import EDIT, REJECT, RESPOND

from .adapted_agent import (
    EditableCall,
    StoredModelProvider,
    adapt_agent,
    current_calls,
    edited_args,
)


def register_agent(
    name: str,
    agent: Agent[Any],
    *,
    context: Callable[[], Any] | None = None,
    **options: Any,
) -> None:
    """Register an agent of OpenAI's Agents SDK as the graph ``name``.

    The input of a run is ``{"messages": [...]}``, and the result has the agent's ``messages`` and
    ``output``. Tool calls that need an approval become interrupts.

    Args:
        name: the name of the graph.
        agent: the agent. Its handoffs can be agents.
        context: a function that returns the agent's context, called each time the agent runs.
        options: the options of ``register``.
    """
    register_framework_agent(name, lambda: _OpenAIAgent(agent, context), options)


class _OpenAIAgent(FrameworkAgent):
    def __init__(self, agent: Agent[Any], context: Callable[[], Any] | None) -> None:
        self._agent, self._context = adapt_agent(agent), context

    async def run(
        self,
        run_state: Any,
        prompt: str | None,
        decisions: Mapping[str, ToolDecision],
        calls: ModelCalls,
    ) -> AgentTurn:
        current_calls.set(calls)
        context = self._context() if self._context else None
        run_state = run_state or {"items": []}
        given: Any
        if decisions:
            given = await self._resume(run_state["paused"], prompt, decisions, context)
        else:
            given = [*run_state["items"], {"role": "user", "content": prompt}]
        config = RunConfig(model_provider=StoredModelProvider())
        result = await Runner.run(
            self._agent, given, context=None if decisions else context, run_config=config
        )
        shown = run_state.get("shown", 0) if decisions else 0
        messages = list(_list_messages(result.new_items[shown:]))
        if result.interruptions:
            paused = result.to_state().to_json(context_serializer=lambda _: {})
            state = {"paused": to_jsonable_python(paused), "shown": len(result.new_items)}
            return AgentTurn(state, messages, [*map(_build_request, result.interruptions)])
        state = {"items": to_jsonable_python(result.to_input_list())}
        return AgentTurn(state, messages, output=to_jsonable_python(result.final_output))

    async def _resume(
        self,
        paused: dict[str, Any],
        prompt: str | None,
        decisions: Mapping[str, ToolDecision],
        context: Any,
    ) -> RunState[Any]:
        edited_args.set({k: each.args for k, each in decisions.items() if each.type == EDIT})
        state = await RunState.from_json(
            self._agent, paused, context_override=RunContextWrapper(context)
        )
        for item in state.get_interruptions():
            decision = decisions[item.call_id or ""]
            if decision.type in (REJECT, RESPOND):
                state.reject(item, rejection_message=decision.message or None)
            else:
                state.approve(item)
        if prompt is not None:
            state.add_input(prompt)
        return state


def _build_request(item: ToolApprovalItem) -> ToolRequest:
    tools = {tool.name: tool for tool in item.agent.tools if isinstance(tool, FunctionTool)}
    tool = tools.get(item.name or "")
    is_editable = tool is not None and isinstance(tool.on_invoke_tool, EditableCall)
    return ToolRequest(
        id=item.call_id or "",
        name=item.name or "",
        args=json.loads(item.arguments or "{}"),
        schema=None if tool is None else tool.params_json_schema,
        decisions=[each for each in APPROVAL if is_editable or each != EDIT],
    )


def _list_messages(items: Sequence[RunItem]) -> Iterator[dict[str, Any]]:
    names: dict[str, str] = {}
    for item in items:
        raw: Any = item.raw_item
        if isinstance(item, MessageOutputItem):
            message_id = None if raw.id == FAKE_RESPONSES_ID else raw.id
            yield build_model_message(message_id, ItemHelpers.text_message_output(item), [])
        elif isinstance(item, ToolCallItem) and getattr(raw, "type", "") == "function_call":
            names[raw.call_id] = raw.name
            call = raw.call_id, raw.name, json.loads(raw.arguments or "{}")
            yield build_model_message(None, "", [call])
        elif isinstance(item, ToolCallOutputItem):
            call_id = raw["call_id"]
            yield build_tool_message(call_id, names.get(call_id, ""), str(item.output))
