"""LangGraph's types for an interrupt about an action and for its response."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class ActionRequest(TypedDict):
    """Proposed action with its arguments."""

    action: str
    args: dict[str, Any]


class HumanInterruptConfig(TypedDict):
    """The decisions that an interrupt allows."""

    allow_ignore: bool
    allow_respond: bool
    allow_edit: bool
    allow_accept: bool


class HumanInterrupt(TypedDict):
    """Payload of an interrupt about an action."""

    action_request: ActionRequest
    config: HumanInterruptConfig
    description: str | None


class HumanResponse(TypedDict):
    """Response to a HumanInterrupt."""

    type: Literal["accept", "ignore", "response", "edit"]
    args: str | ActionRequest | None
