"""LangGraph's types for an interrupt about an action, and for the response."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class ActionRequest(TypedDict):
    """A tool call that the agent proposes: its name and its arguments."""

    action: str
    args: dict[str, Any]


class HumanInterruptConfig(TypedDict):
    """The decisions that an interrupt allows."""

    allow_ignore: bool
    allow_respond: bool
    allow_edit: bool
    allow_accept: bool


class HumanInterrupt(TypedDict):
    """The payload of an interrupt about an action."""

    action_request: ActionRequest
    config: HumanInterruptConfig
    description: str | None


class HumanResponse(TypedDict):
    """The response to a HumanInterrupt."""

    type: Literal["accept", "ignore", "response", "edit"]
    args: str | ActionRequest | None
