"""LangGraph's types of a question about an action, and of its answer."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class ActionRequest(TypedDict):
    """An action that waits for a person, and its arguments."""

    action: str
    args: dict[str, Any]


class HumanInterruptConfig(TypedDict):
    """What the person may do about it."""

    allow_ignore: bool
    allow_respond: bool
    allow_edit: bool
    allow_accept: bool


class HumanInterrupt(TypedDict):
    """The payload of a question about an action."""

    action_request: ActionRequest
    config: HumanInterruptConfig
    description: str | None


class HumanResponse(TypedDict):
    """The person's answer to a HumanInterrupt."""

    type: Literal["accept", "ignore", "response", "edit"]
    args: str | ActionRequest | None
