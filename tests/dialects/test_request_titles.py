"""Titles of requests for tool calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hitl_django import START, StateGraph, interrupt
from hitl_django.dialects import RequestedAction, describe_action
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.models import Interrupt
from tests.graphs import Reviewed
from tests.services.conftest import asked

Advance = Callable[[], int]
LONG = "The shade arrived cracked, and the customer has sent a photo of it."
REFUND = {"order": "A-7", "amount": 49.9, "currency": "EUR", "reason": LONG, "notify": True}


def request_of(*calls: tuple[str, dict[str, Any]], schema: Any = None) -> dict[str, Any]:
    """Return the payload of LangChain's middleware for the given tool calls."""
    allowed = {"allowed_decisions": ["approve", "reject"]}
    return {
        "action_requests": [{"name": name, "args": args} for name, args in calls],
        "review_configs": [
            {"action_name": name, **allowed, **({"args_schema": schema} if schema else {})}
            for name in dict.fromkeys(name for name, _ in calls)
        ],
    }


@pytest.fixture
def pose(advance: Advance, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Interrupt]:
    """Return a function that raises an interrupt in a graph with a review policy."""

    def make(payload: Any, **policy: Any) -> Interrupt:
        made = ReviewPolicy(**policy)
        monkeypatch.setattr(registry, "get_review_policy", lambda name: made)
        return asked("plain", {"payload": payload}, advance)

    return make


@pytest.mark.parametrize(
    ("payload", "dialect", "policy"),
    [
        (request_of(("issue_refund", REFUND)), "hitl_request", {}),
        (
            {
                "action_request": {"action": "issue_refund", "args": REFUND},
                "config": {"allow_accept": True},
            },
            "human_interrupt",
            {},
        ),
        (
            {
                "type": "tool_approval",
                "tool_call_id": "c",
                "name": "issue_refund",
                "args": REFUND,
                "description": "HumanInTheLoopMiddleware asks.",
            },
            "approval_request",
            {},
        ),
        (
            {"question": "May I?", "tool_call": {"name": "issue_refund", "args": REFUND}},
            "tool_call",
            {},
        ),
        ({"action": "issue_refund", **REFUND}, "tool_approval", {"dialect": "tool_approval"}),
    ],
)
def test_tool_call_in_each_dialect_is_titled_with_tool_and_identifying_arguments(
    payload: Any, dialect: str, policy: Any, pose: Callable[..., Interrupt]
) -> None:
    found = pose(payload, **policy)
    assert found.dialect == dialect
    assert found.title == "Issue refund: order A-7, 49.90 EUR"
    assert found.payload == payload


def test_tool_approval_with_message_is_titled_with_its_message(
    pose: Callable[..., Interrupt],
) -> None:
    payload = {"action": "issue_refund", "message": "Pay it back?", **REFUND}
    assert pose(payload, dialect="tool_approval").title == "Pay it back?"


@pytest.mark.parametrize(
    ("name", "args", "title"),
    [
        ("send_email", {"text": LONG, "to": "mara@example.se"}, "Send email: mara@example.se"),
        ("updateRecord", {"vip": True, "customer_id": 20311}, "Update record: customer 20311"),
        ("pay", {"cents": 1990, "to": "Ines"}, "Pay: Ines, amount 19.90"),
        ("runSQL", {"query": f"DELETE {'x' * 20} {'y' * 40}"}, f"Run SQL: DELETE {'x' * 20}…"),
        ("weather", {"city": "Rome", "days": 3}, "Weather: city Rome, days 3"),
        ("many", {"a": 1, "b": 2, "c": 3, "order": 4}, "Many: order 4, a 1, b 2"),
        ("large", {"order": 10**5000, "amount": 1e300}, "Large"),
        ("nested", {"lines": [{"order": 1}], "none": None, "empty": " "}, "Nested"),
        ("two\nlines", {"name": "one\n two"}, "Two lines: one two"),
        ("öffnen_büro", {"straße": "Am Weg"}, "Öffnen büro: straße Am Weg"),
        ("___", {}, "___"),
    ],
)
def test_tool_call_title_contains_its_short_arguments_in_order_of_importance(
    name: str, args: dict[str, Any], title: str
) -> None:
    assert describe_action(RequestedAction(name, args)) == title


@pytest.mark.parametrize(
    "name", ["password", "apiKey", "access_token", "client_secret", "PIN", "iban", "card_number"]
)
def test_tool_call_title_omits_argument_with_name_of_a_secret(name: str) -> None:
    assert describe_action(RequestedAction("log_in", {name: "hunter2"})) == "Log in"


def test_tool_call_title_omits_argument_that_its_schema_declares_secret(
    pose: Callable[..., Interrupt],
) -> None:
    schema = {"properties": {"word": {"type": "string", "format": "password"}}}
    payload = request_of(("log_in", {"word": "hunter2", "user": "ann"}), schema=schema)
    assert pose(payload).title == "Log in: user ann"
    titled = pose(payload, titles={"log_in": "{user}, {word}"}).title
    assert titled == "ann, [redacted]"


def test_tool_call_title_of_long_names_and_arguments_has_at_most_120_characters() -> None:
    args = {f"{'very_long_name' * 9}_{n}": "x" * 40 for n in range(3)}
    assert len(describe_action(RequestedAction("tool_" * 99, args))) <= 120


def test_tool_call_title_shows_invisible_characters_as_code_points(
    pose: Callable[..., Interrupt],
) -> None:
    payload = request_of(("pay\u202e", {"to": "Ines\u200b"}))
    assert pose(payload).title == "Pay\\u202e: Ines\\u200b"


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (
            ["issue_refund", "send_email", "update_record"],
            "3 tool calls: Issue refund, Send email, Update record",
        ),
        (["pay", "mail", "pay"], "3 tool calls: Pay (2), Mail"),
        (["pay", "pay"], "2 tool calls: Pay"),
        (list("abcdef"), "6 tool calls: A, B, C, D, …"),
    ],
)
def test_several_tool_calls_are_titled_with_their_number_and_names(
    names: list[str], title: str, pose: Callable[..., Interrupt]
) -> None:
    assert pose(request_of(*((name, REFUND) for name in names))).title == title


def test_tool_call_title_shows_argument_with_money_format_in_its_currency(
    pose: Callable[..., Interrupt],
) -> None:
    payload = request_of(("pay", {"order": "A-7", "price": 4990}))
    assert pose(payload, display={"price": "money EUR"}).title == "Pay: order A-7, 49.90 EUR"
    assert pose(payload, display={"price": "money JPY"}).title == "Pay: order A-7, 4990 JPY"
    payload["action_requests"][0]["args"]["currency"] = "KWD"
    shown = pose(payload, display={"price": "money /currency"})
    assert shown.title == "Pay: order A-7, 4.990 KWD"


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("Give {amount} {currency} back", "Give 49.90 EUR back"),
        (lambda args: f"{args['order']}: {args['amount']:.1f}", "A-7: 49.9"),
        ("Issue {{refund}}", "Issue {refund}"),
    ],
)
def test_tool_call_title_of_review_policy_replaces_default_title(
    title: Any, shown: str, pose: Callable[..., Interrupt]
) -> None:
    payload = request_of(("issue_refund", REFUND))
    assert pose(payload, titles={"issue_refund": title}).title == shown
    assert pose(payload, titles={"send_email": title}).title == "Issue refund: order A-7, 49.90 EUR"


@pytest.mark.parametrize("title", ["{missing}", lambda args: args["missing"], lambda args: " "])
def test_tool_call_title_of_review_policy_that_fails_is_replaced_by_default_title(
    title: Any, pose: Callable[..., Interrupt], caplog: pytest.LogCaptureFixture
) -> None:
    found = pose(request_of(("issue_refund", REFUND)), titles={"issue_refund": title})
    assert found.title == "Issue refund: order A-7, 49.90 EUR"
    assert "A-7" not in caplog.text


@pytest.mark.parametrize(
    ("titles", "error"),
    [
        ({"pay": 5}, TypeError),
        ({5: "Pay"}, TypeError),
        ({"pay": " "}, ValueError),
        ({"pay": "{order.id}"}, ValueError),
        ({"pay": "{order[0]}"}, ValueError),
        ({"pay": "{order!r}"}, ValueError),
        ({"pay": "{order:>99}"}, ValueError),
        ({"pay": "{}"}, ValueError),
        ({"pay": "{order"}, ValueError),
    ],
)
def test_review_policy_with_invalid_titles_raises_type_or_value_error(
    titles: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        ReviewPolicy(titles=titles)


def test_request_of_unknown_format_from_middleware_is_titled_without_its_class_name(
    advance: Advance,
) -> None:
    graph = StateGraph(Reviewed).add_edge(START, "GuardMiddleware.after_model")
    graph.add_node("GuardMiddleware.after_model", lambda state: {"answer": interrupt({"a": 1})})
    registry.register("guarded")(lambda: graph)
    try:
        assert asked("guarded", {}, advance).title == "The agent requests a review"
    finally:
        registry.unregister("guarded")


@pytest.mark.parametrize(
    ("description", "why"),
    [
        (f"Tool execution requires approval\n\nTool: pay\nArgs: {REFUND}", ""),
        (f"The tool moves money.\n\nTool: pay\nArgs: {REFUND}", "The tool moves money."),
        (
            "The customer waits.\n\nTool: pay\nArgs: none",
            "The customer waits.\n\nTool: pay\nArgs: none",
        ),
        ("", ""),
    ],
)
def test_description_of_tool_call_by_langchain_is_shown_without_tool_and_arguments(
    description: str, why: str, pose: Callable[..., Interrupt]
) -> None:
    payload = request_of(("pay", REFUND))
    payload["action_requests"][0]["description"] = description
    found = pose(payload)
    assert (found.why, found.payload) == (why, payload)
    call = {"type": "tool_approval", "tool_call_id": "c", "name": "pay", "args": REFUND}
    assert pose({**call, "description": description}).why == why
