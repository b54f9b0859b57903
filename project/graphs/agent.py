"""*agent* and *travel*: concurrent tool calls, each of which needs an approval.

    plan ──▶ call (one task per tool call, in parallel) ──▶ report

The input contains the proposed tool calls, so that the demo needs no language model.
"""

from __future__ import annotations

import json
import operator
from datetime import timedelta
from typing import Annotated, Any, Literal, TypedDict

from django.utils.translation import gettext_lazy as _
from pydantic import BaseModel, ConfigDict, Field

from hitl_django import END, START, ReviewPolicy, StateGraph, register, review
from hitl_django.engine.types import Send

ToolName = Literal[
    "send_email", "book_travel", "delete_files", "update_record", "post_message", "issue_refund"
]


class ToolCall(BaseModel):
    """A tool with its arguments, as a model proposes it."""

    model_config = ConfigDict(extra="forbid")

    tool: ToolName
    args: dict[str, Any]


class AgentRequest(BaseModel):
    """The input of a run."""

    model_config = ConfigDict(extra="forbid")

    request: str = Field(min_length=1, max_length=5000)
    calls: list[ToolCall] = Field(min_length=1, max_length=10)


class Agent(TypedDict, total=False):
    """The state of the graph.

    Each call adds one line to ``results``.
    """

    request: str
    calls: list[dict[str, Any]]
    results: Annotated[list[str], operator.add]
    report: str


class Call(TypedDict):
    """The input of one tool call."""

    request: str
    tool: str
    args: dict[str, Any]


#: Titles by tool. The first title is used for which the call has all arguments.
TITLES = {
    "send_email": ("Send email to {to}: “{subject}”", "Send email to {to}"),
    "book_travel": (
        "Book travel to {destination}, {dates}, {price}",
        "Book travel to {destination}",
    ),
    "delete_files": ("Delete {files} files in {path}", "Delete {path}"),
    "update_record": ("Update {record}",),
    "post_message": ("Post “{subject}” to {channel}", "Post to {channel}"),
    "issue_refund": ("Issue refund: order {order}, {amount}", "Issue refund: order {order}"),
}
#: A channel to which nothing can be posted.
ARCHIVED = "#warehouse-old"
#: Groups by tool to which its calls are assigned, if the group exists.
GROUPS = {"delete_files": "Platform"}
DUE = {"delete_files": timedelta(hours=6), "send_email": timedelta(hours=24)}


def plan(state: Agent) -> Agent:
    """Return the tool calls from the input, instead of calling a model."""
    return {"results": []}


def each_call(state: Agent) -> list[Send]:
    """Run each tool call as a separate task."""
    return [
        Send("call", {"request": state["request"], "tool": call["tool"], "args": call["args"]})
        for call in state["calls"]
    ]


def call(state: Call) -> Agent:
    """Request an approval of the call, then run the tool with the approved or edited arguments."""
    tool, args = state["tool"], state["args"]
    payload = {
        "title": title_of(tool, args),
        "why": f"The assistant was asked: {state['request']}",
        "tool": tool,
        "args": args,
    }
    hours = args.get(
        "offer_hours"
    )  # Fares are valid for a few hours. Afterwards the run is parked.
    expires = timedelta(hours=hours) if isinstance(hours, int) and hours > 0 else None
    answer = review(payload, group=GROUPS.get(tool), due=DUE.get(tool), expires=expires)
    if answer is True:
        return {"results": [perform(tool, args)]}
    if answer is False:
        return {"results": [f"{tool} was rejected."]}
    if isinstance(answer, dict) and isinstance(answer.get("args"), dict):
        return {"results": [perform(tool, answer["args"])]}
    return {"results": [f"{tool} was not called. The reviewer responded: {answer}"]}


def title_of(tool: str, args: dict[str, Any]) -> str:
    """Return the title of the request, even if an argument is missing."""
    for title in TITLES.get(tool, ()):
        try:
            return title.format_map(args)
        except (KeyError, IndexError, AttributeError, ValueError):
            continue
    return f"Call {tool}"


def perform(tool: str, args: dict[str, Any]) -> str:
    """Return a fixed result instead of running the tool.

    Posting to an archived channel fails, as an example of a failed run.
    """
    if tool == "post_message" and args.get("channel") == ARCHIVED:
        raise LookupError(f"The channel {ARCHIVED} is archived.")
    return f"{tool} was called with {json.dumps(args, ensure_ascii=False, sort_keys=True)}."


def report(state: Agent) -> Agent:
    """Join the results in the order of the calls."""
    return {"report": "\n".join(state["results"])}


def build() -> StateGraph:
    """Build a graph that calls tools after their approval."""
    graph: StateGraph = StateGraph(Agent, input_schema=AgentRequest)
    graph.add_node(plan)
    graph.add_node(call)
    graph.add_node(report)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", each_call, ["call"])
    graph.add_edge("call", "report")
    graph.add_edge("report", END)
    return graph


FACTS = ["/args/size", "/args/newest", "/args/subject", "/args/record", "why"]


@register("agent", version="1", title=_("Ops agent"), review=ReviewPolicy(facts=FACTS))
def agent() -> StateGraph:
    """Build the graph *agent*."""
    return build()


TRAVEL_FACTS = ["/args/traveller", "/args/hotel", "why"]


@register("travel", version="1", title=_("Travel agent"), review=ReviewPolicy(facts=TRAVEL_FACTS))
def travel() -> StateGraph:
    """Build the graph *travel*."""
    return build()
