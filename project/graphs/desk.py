"""*desk*: a support agent, whose tool calls a person approves together.

reply ──▶ act ──▶ close

The input contains the conversation and the proposed tool calls, so the demo needs no language model
and no LangChain. The state contains the messages in LangChain's format.
"""

from __future__ import annotations

import operator
from datetime import timedelta
from typing import Annotated, Any, Literal, TypedDict

from django.utils.translation import gettext_lazy as _
from pydantic import BaseModel, ConfigDict, Field

from hitl_django import END, START, ReviewPolicy, StateGraph, register, review

from .agent import ToolCall, perform

#: Time in which the calls must be decided.
DUE = timedelta(hours=2)
DECISIONS = ["approve", "edit", "reject", "respond"]


class Message(BaseModel):
    """A message of the conversation before the tool calls."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["user", "assistant"]
    content: str = Field(min_length=1, max_length=5000)


class DeskRequest(BaseModel):
    """The input of a run."""

    model_config = ConfigDict(extra="forbid")

    customer: str = Field(min_length=1, max_length=200)
    conversation: list[Message] = Field(min_length=1, max_length=50)
    proposal: str = Field(min_length=1, max_length=5000)
    calls: list[ToolCall] = Field(min_length=1, max_length=10)
    urgent: bool = False


class Desk(TypedDict, total=False):
    """The state of the graph."""

    customer: str
    conversation: list[dict[str, Any]]
    proposal: str
    calls: list[dict[str, Any]]
    urgent: bool
    messages: Annotated[list[dict[str, Any]], operator.add]


def reply(state: Desk) -> Desk:
    """Add the conversation and the proposed calls as messages, instead of calling a model."""
    calls = [
        {"id": f"call-{number}", "name": call["tool"], "args": call["args"], "type": "tool_call"}
        for number, call in enumerate(state["calls"], start=1)
    ]
    proposal = {"role": "assistant", "content": state["proposal"], "tool_calls": calls}
    return {"messages": [*state["conversation"], proposal]}


def act(state: Desk) -> Desk:
    """Request a decision of each call, then run the approved calls."""
    calls = state["calls"]
    actions = [{"name": call["tool"], "args": call["args"]} for call in calls]
    configs = [
        {"action_name": name, "allowed_decisions": DECISIONS}
        for name in dict.fromkeys(call["tool"] for call in calls)
    ]
    answer = review(
        {"action_requests": actions, "review_configs": configs},
        why=f"{state['customer']} wrote: {state['conversation'][-1]['content']}",
        due=DUE,
        priority=1 if state.get("urgent") else None,
    )
    pairs = zip(actions, answer["decisions"], strict=True)
    results = [run_decided(action, decision) for action, decision in pairs]
    return {
        "messages": [
            {"role": "tool", "tool_call_id": f"call-{number}", "content": result}
            for number, result in enumerate(results, start=1)
        ]
    }


def run_decided(action: dict[str, Any], decision: dict[str, Any]) -> str:
    """Run a call as decided, and return its result for the conversation."""
    if decision["type"] == "approve":
        return perform(action["name"], action["args"])
    if decision["type"] == "edit":
        edited = decision["edited_action"]
        return perform(edited["name"], edited["args"])
    message = decision.get("message", "")
    if decision["type"] == "respond":
        return f"{action['name']} was not called. The reviewer replied: {message}"
    return f"{action['name']} was rejected. {message}".strip()


def close(state: Desk) -> Desk:
    """Add the last message of the agent."""
    results = [one["content"] for one in state["messages"] if one["role"] == "tool"]
    return {"messages": [{"role": "assistant", "content": "\n".join(results)}]}


TITLES = {
    "issue_refund": "Issue refund: order {order}, {amount}",
    "send_email": "Send email to {to}: “{subject}”",
}


@register("desk", version="1", title=_("Support agent"), review=ReviewPolicy(titles=TITLES))
def desk() -> StateGraph:
    """Build the graph *desk*."""
    graph: StateGraph = StateGraph(Desk, input_schema=DeskRequest)
    graph.add_node(reply)
    graph.add_node(act)
    graph.add_node(close)
    graph.add_edge(START, "reply")
    graph.add_edge("reply", "act")
    graph.add_edge("act", "close")
    graph.add_edge("close", END)
    return graph
