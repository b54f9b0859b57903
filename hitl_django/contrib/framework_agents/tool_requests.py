"""Tool calls that need a decision, and their presentation as interrupts."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from typing_extensions import TypedDict

from hitl_django.decision_types import DECISION_TYPES, REJECT, RESPOND
from hitl_django.review_options import review

#: Decisions on a call that the framework executes after its approval.
APPROVAL: Final = list(DECISION_TYPES)
#: Decisions on a call whose result is the reviewer's text.
REPLY: Final = [RESPOND, REJECT]


class ToolRequest(TypedDict):
    """A tool call that needs a decision.

    ``id`` is the framework's id of the tool call. ``schema`` is the JSON Schema of the arguments,
    or None.
    """

    id: str
    name: str
    args: dict[str, Any]
    schema: dict[str, Any] | None
    decisions: list[str]


class ToolDecision(NamedTuple):
    """A decision on a tool call.

    ``args`` are the call's arguments, with the reviewer's changes. ``message`` is the reason of a
    rejection or the text of a response.
    """

    type: str
    args: dict[str, Any]
    message: str


def request_decision(request: ToolRequest) -> ToolDecision:
    """Pause the node until a tool call is decided, and return the decision."""
    action = {"name": request["name"], "args": request["args"]}
    config: dict[str, Any] = {
        "action_name": request["name"],
        "allowed_decisions": request["decisions"],
    }
    if request["schema"] is not None:
        config["args_schema"] = request["schema"]
    response = review(
        {"action_requests": [action], "review_configs": [config]},
        dialect="hitl_request",
        editable=["/args"],
    )
    decision = response["decisions"][0]
    edited = decision.get("edited_action", action)
    return ToolDecision(decision["type"], edited["args"], decision.get("message", ""))
