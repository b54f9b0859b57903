"""Interface between an agent of another framework and its graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .model_calls import ModelCalls
from .tool_requests import ToolDecision, ToolRequest


class AgentTurn(NamedTuple):
    """The result of running an agent until it ends or needs decisions on tool calls.

    ``run_state`` is the framework's own state as JSON. ``messages`` are the agent's new messages as
    dicts. ``output`` is the agent's result as JSON, or None if decisions are needed.
    """

    run_state: Any
    messages: Sequence[dict[str, Any]]
    requests: Sequence[ToolRequest] = ()
    output: Any = None


class FrameworkAgent(ABC):
    """An agent of another framework."""

    @abstractmethod
    async def run(
        self,
        run_state: Any,
        prompt: str | None,
        decisions: Mapping[str, ToolDecision],
        calls: ModelCalls,
    ) -> AgentTurn:
        """Run the agent until it ends or needs decisions on tool calls.

        Args:
            run_state: the state of the previous turn, or None.
            prompt: the user's new message, or None if the turn only continues with decisions.
            decisions: the decisions on all requests of the previous turn, by id of the request.
            calls: stores the results of model calls, so that a turn that runs again doesn't repeat
                the calls.
        """


def build_model_message(
    id: str | None,  # noqa: A002
    text: str,
    tool_calls: Sequence[tuple[str, str, dict[str, Any]]],
) -> dict[str, Any]:
    """Return a message of the model with its tool calls, each as id, name and arguments."""
    calls = [
        {"type": "tool_call", "id": call_id, "name": name, "args": args}
        for call_id, name, args in tool_calls
    ]
    return {"role": "assistant", "id": id, "content": text, "tool_calls": calls}


def build_tool_message(call_id: str, name: str, content: str) -> dict[str, Any]:
    """Return a message with the result of a tool call."""
    return {"role": "tool", "content": content, "name": name, "tool_call_id": call_id}
