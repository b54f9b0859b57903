"""Graphs for agents of other frameworks: stored model calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hitl_django import decide, interrupt, start, testing
from hitl_django.contrib.framework_agents import (
    AgentTurn,
    FrameworkAgent,
    ModelCalls,
    ToolDecision,
    register_framework_agent,
)
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt
from hitl_django.services import run_result

pytestmark = pytest.mark.django_db(transaction=True)


class RetryingAgent(FrameworkAgent):
    """Agent whose first model call fails once, and that interrupts after its second call."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def run(
        self,
        run_state: Any,
        prompt: str | None,
        decisions: Mapping[str, ToolDecision],
        calls: ModelCalls,
    ) -> AgentTurn:
        async def respond(message_id: str) -> str:
            self.made.append(message_id)
            if len(self.made) == 1:
                raise OSError("the model is not available")
            return f"response {len(self.made)}"

        try:
            first = await calls.call("agent", respond)
        except OSError:
            first = await calls.call("agent", respond)
        second = await calls.call("agent", respond)
        interrupt("Continue?")
        return AgentTurn(None, [], output=[first, second])


def test_rerun_agent_turn_reuses_stored_responses_after_a_failed_chat_model_call() -> None:
    agent = RetryingAgent()
    with registry.hide_graphs(), testing.inline() as advance:
        register_framework_agent("retrying", lambda: agent, {})
        run = start("retrying", {"messages": [{"role": "user", "content": "Hello."}]})
        advance()
        decide(Interrupt.objects.get(run_id=run.id).pk, "approve")
        advance()
        assert run_result(run.id)["output"] == ["response 2", "response 3"]
    assert len(agent.made) == 3
