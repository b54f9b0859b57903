"""Graph that runs an agent of another framework, with a task for each requested decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from typing_extensions import TypedDict

from hitl_django.db.node_connections import close_node_connections
from hitl_django.decision_types import REJECT
from hitl_django.engine.constants import END, START
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.state.messages import add_messages
from hitl_django.engine.types import Overwrite, Send
from hitl_django.graph_registry.registry import register

from .framework_agent import FrameworkAgent
from .model_calls import ModelCalls
from .tool_requests import ToolDecision, ToolRequest, request_decision

#: Reason given to the agent if the user wrote again instead of waiting for the decision.
UNDECIDED = "Not decided, because the user sent a new message."
_USER = ("user", "human")


def _merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {**old, **new}


class FrameworkAgentState(TypedDict, total=False):
    """State of an agent's thread.

    ``messages`` is the conversation. ``run_state`` is the framework's own state. ``requests`` are
    the tool calls that need decisions, and ``decisions`` the decisions by request id.
    """

    messages: Annotated[list[Any], add_messages]
    run_state: Any
    requests: list[dict[str, Any]]
    decisions: Annotated[dict[str, Any], _merge]
    output: Any


class FrameworkAgentInput(TypedDict):
    """Input of a run of an agent."""

    messages: Annotated[list[Any], add_messages]


def register_framework_agent(
    name: str, build: Callable[[], FrameworkAgent], options: Mapping[str, Any]
) -> None:
    """Register the graph of an agent. ``options`` are the options of ``register``."""

    def build_graph() -> StateGraph:
        return build_agent_graph(build())

    register(name, **options)(build_graph)


def build_agent_graph(agent: FrameworkAgent) -> StateGraph:
    """Return the graph of an agent.

    The node "agent" runs the agent. The node "review" runs once for each requested decision, so
    that the requests of a turn can be decided in any order and by different people.
    """

    async def run_agent(state: FrameworkAgentState) -> dict[str, Any]:
        requests = state.get("requests") or []
        prompt = _read_prompt(state.get("messages") or [])
        if prompt is None and not requests:
            raise ValueError("The last message must be a message of the user.")
        decisions = _read_decisions(requests, state.get("decisions") or {})
        with close_node_connections():
            turn = await agent.run(state.get("run_state"), prompt, decisions, ModelCalls())
        return {
            "run_state": turn.run_state,
            "messages": list(turn.messages),
            "requests": list(turn.requests),
            "decisions": Overwrite({}),
            "output": turn.output,
        }

    def review(request: ToolRequest) -> dict[str, Any]:
        return {"decisions": {request["id"]: list(request_decision(request))}}

    def route(state: FrameworkAgentState) -> Sequence[Send] | str:
        return [Send("review", request) for request in state.get("requests", ())] or END

    graph: StateGraph = StateGraph(FrameworkAgentState, input_schema=FrameworkAgentInput)
    graph.add_node("agent", run_agent, input_schema=FrameworkAgentState)
    graph.add_node("review", review)
    graph.add_edge(START, "agent").add_edge("review", "agent")
    graph.add_conditional_edges("agent", route, ["review", END])
    return graph


def _read_decisions(
    requests: Sequence[dict[str, Any]], decided: Mapping[str, Any]
) -> dict[str, ToolDecision]:
    undecided = {
        request["id"]: ToolDecision(REJECT, request["args"], UNDECIDED) for request in requests
    }
    return undecided | {call_id: ToolDecision(*decision) for call_id, decision in decided.items()}


def _read_prompt(messages: Sequence[Any]) -> str | None:
    """Return the text of the user's messages after the last message of another role, or None."""
    texts: list[str] = []
    for message in reversed(messages):
        if _get_part(message, "type", "role") not in _USER:
            break
        texts.append(_read_text(_get_part(message, "content")))
    return "\n\n".join(reversed(texts)) if texts else None


def _get_part(message: Any, *names: str) -> Any:
    if isinstance(message, dict):
        return next((message[name] for name in names if name in message), None)
    return getattr(message, names[0], None)


def _read_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    if not blocks or any(not isinstance(b, dict) or b.get("type") != "text" for b in blocks):
        raise ValueError("The user's message must be a text.")
    return "\n".join(block["text"] for block in blocks)
