"""*newsletter*: a long text to edit, requested again until its length is within the limit.

compose ──▶ edit ─┬─ approved ──▶ send
                  └─ rejected ──▶ shelve
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Literal, TypedDict

from django.utils.translation import gettext_lazy as _
from pydantic import BaseModel, ConfigDict, Field

from hitl_django import END, START, ReviewPolicy, StateGraph, register, review

#: Time in which a newsletter must be edited.
DUE = timedelta(hours=6)
PLACEHOLDER = re.compile(r"\[(?:TODO|XXX|NAME|LINK)\]", re.IGNORECASE)


class NewsletterRequest(BaseModel):
    """The input of a run."""

    model_config = ConfigDict(extra="forbid")

    subject: str = Field(min_length=1, max_length=200)
    audience: str = Field(min_length=1, max_length=200)
    draft: str = Field(min_length=1, max_length=50_000)
    limit: int = Field(default=2000, ge=50, le=50_000)
    signature: str = Field(default="", max_length=500)
    approvals: int = Field(default=1, ge=1, le=3)
    editor: str = Field(default="", max_length=150)


class EditedText(BaseModel):
    """The response of an editor."""

    approved: bool = Field(title="Send it")
    text: str = Field(title="Text", max_length=60_000)


class Newsletter(TypedDict, total=False):
    """The state of the graph."""

    subject: str
    audience: str
    draft: str
    limit: int
    signature: str
    approvals: int
    editor: str
    text: str
    approved: bool
    rounds: int
    outcome: str


def compose(state: Newsletter) -> Newsletter:
    """Join the draft and the signature, without spaces at the ends of lines."""
    parts = [state["draft"], state.get("signature", "")]
    text = "\n\n".join(part.strip() for part in parts if part.strip())
    return {"text": re.sub(r"[^\S\n]+\n", "\n", text)}


def edit(state: Newsletter) -> Newsletter:
    """Send the text to an editor repeatedly, until the text is valid.

    Each round has its own interrupt. When the node runs again for the next response, the interrupts
    of earlier rounds return their responses immediately, so the loop continues with the current
    round.
    """
    limit = state.get("limit", 2000)
    payload = {
        "title": f"Send newsletter “{state['subject']}” to {state['audience']}",
        "why": "Nothing is published without a review.",
        "length": f"{len(state['text'].split()):,} words",
        "limit": limit,
        "text": state["text"],
    }
    rounds = 1
    while True:
        answer = review(
            payload,
            response_schema=EditedText,
            quorum=state.get("approvals", 1),
            assignee=state.get("editor") or None,
            priority=1 if state.get("approvals", 1) > 1 else None,
            due=DUE,
        )
        fault = fault_of(answer.text, limit)
        if not answer.approved or fault is None:
            return {"approved": answer.approved, "text": answer.text, "rounds": rounds}
        rounds += 1
        payload = {**payload, "why": f"Not ready to send: {fault}.", "text": answer.text}


def fault_of(text: str, limit: int) -> str | None:
    """Return the reason why a text can't be sent, or None if it can be sent."""
    if not text.strip():
        return "the text is empty"
    if len(text) > limit:
        return f"the text has {len(text):,} characters, {len(text) - limit:,} too many"
    found = PLACEHOLDER.search(text)
    return None if found is None else f"the placeholder {found.group()} is still in the text"


def after_edit(state: Newsletter) -> Literal["send", "shelve"]:
    """Return the node that the editor's decision selects."""
    return "send" if state["approved"] else "shelve"


def send(state: Newsletter) -> Newsletter:
    """Simulate sending the newsletter."""
    return {"outcome": f"Sent {len(state['text']):,} characters to {state['audience']}."}


def shelve(state: Newsletter) -> Newsletter:
    """Store the text without sending it."""
    return {"outcome": "Kept as a draft."}


REVIEW = ReviewPolicy(facts=["length", "text"])


@register("newsletter", version="1", title=_("Newsletter"), review=REVIEW)
def newsletter() -> StateGraph:
    """Build the graph *newsletter*."""
    graph: StateGraph = StateGraph(Newsletter, input_schema=NewsletterRequest)
    graph.add_node(compose)
    graph.add_node(edit)
    graph.add_node(send)
    graph.add_node(shelve)
    graph.add_edge(START, "compose")
    graph.add_edge("compose", "edit")
    graph.add_conditional_edges("edit", after_edit)
    graph.add_edge("send", END)
    graph.add_edge("shelve", END)
    return graph
