"""The demo's graphs, executed in memory."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from hitl_django import Command, decide, register, start, testing
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.engine.errors import InvalidInputError
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.graph_registry.registry import hide_graphs
from hitl_django.models import Interrupt
from hitl_django.services import run_result
from project.graphs import agent, desk, newsletter, payment, refund, support

THREADS = itertools.count()
ORDER = {
    "customer": "Dana K.",
    "order": "A-1",
    "amount": 12000,
    "currency": "EUR",
    "reason": "Too small.",
    "days_since_purchase": 6,
}
LETTER = {"subject": "Frost", "audience": "the gardeners", "draft": "Water off on the 9th."}
CALLS = [
    {"tool": "send_email", "args": {"to": "dana@example.com"}},
    {"tool": "delete_files", "args": {"path": "/tmp/old"}},
]


class Thread:
    """A run of a graph, with its interrupts and responses."""

    def __init__(self, build: Any, given: dict[str, Any]) -> None:
        self.graph = build().compile(checkpointer=InMemorySaver())
        self.config = {"configurable": {"thread_id": str(next(THREADS))}}
        self.state = self.graph.invoke(given, self.config)

    @property
    def interrupts(self) -> list[Any]:
        return list(self.graph.get_state(self.config).interrupts)

    def answer(self, value: Any) -> None:
        self.state = self.graph.invoke(Command(resume=value), self.config)


def test_demo_refund_below_the_limit_is_paid_without_review() -> None:
    thread = Thread(refund.refund, {**ORDER, "amount": 1500})
    assert thread.interrupts == []
    assert thread.state["outcome"] == "Paid 15.00 EUR for A-1."


def test_demo_refund_above_the_limit_pays_the_amount_of_the_response() -> None:
    thread = Thread(refund.refund, ORDER)
    (interrupt,) = thread.interrupts
    assert interrupt.value["title"] == "Refund 120.00 EUR to Dana K."
    assert interrupt.value["amount"] == 12000
    assert set(interrupt.response_schema["properties"]) == {"approved", "amount", "note"}

    thread.answer({"approved": True, "amount": 6000, "note": "Half, as agreed."})
    assert thread.state["outcome"] == "Paid 60.00 EUR for A-1."
    assert thread.interrupts == []


def test_demo_refund_rejected_by_the_reviewer_is_declined() -> None:
    thread = Thread(refund.refund, ORDER)
    thread.answer({"approved": False, "amount": 12000})
    assert thread.state["outcome"] == "Refund of A-1 declined."


@pytest.mark.parametrize(
    ("change", "doubt"),
    [
        ({"amount": 1600}, "above the automatic limit"),
        ({"days_since_purchase": 15}, "15 days old"),
        ({"days_since_purchase": 31}, "returns end after 30"),
        ({"earlier_refunds": 1}, "not the customer's first"),
        ({"reason": "  "}, "no reason was given"),
    ],
)
def test_demo_refund_with_each_doubt_requires_review_and_names_the_doubt(
    change: dict[str, Any], doubt: str
) -> None:
    thread = Thread(refund.refund, {**ORDER, "amount": 1500, **change})
    assert doubt in thread.interrupts[0].value["why"]


@pytest.mark.parametrize(
    ("amount", "currency", "text"),
    [
        (1, "EUR", "0.01 EUR"),
        (123456, "USD", "1,234.56 USD"),
        (4980, "JPY", "4,980 JPY"),
        (24500, "KWD", "24.500 KWD"),
    ],
)
def test_demo_money_text_has_the_decimals_of_its_currency(
    amount: int, currency: str, text: str
) -> None:
    assert refund.money(amount, currency) == text


@pytest.mark.parametrize(
    "change", [{"amount": 0}, {"amount": "much"}, {"currency": "euro"}, {"colour": "red"}]
)
def test_demo_refund_with_invalid_input_raises_invalid_input_error(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        refund.refund().compile().validate_input({**ORDER, **change})


def test_demo_newsletter_is_sent_with_the_edited_text() -> None:
    thread = Thread(newsletter.newsletter, LETTER)
    assert thread.interrupts[0].value["text"] == "Water off on the 9th."
    thread.answer({"approved": True, "text": "Water off on the 10th."})
    assert thread.state["text"] == "Water off on the 10th."
    assert thread.state["outcome"].startswith("Sent 22 characters")


def test_demo_newsletter_with_unsendable_edited_text_is_reviewed_again() -> None:
    thread = Thread(newsletter.newsletter, {**LETTER, "limit": 50})
    thread.answer({"approved": True, "text": "x" * 51})
    (second,) = thread.interrupts
    assert second.value["why"] == "Not ready to send: the text has 51 characters, 1 too many."
    assert second.value["text"] == "x" * 51

    thread.answer({"approved": True, "text": "See [LINK]"})
    assert "placeholder [LINK]" in thread.interrupts[0].value["why"]

    thread.answer({"approved": True, "text": "See you."})
    assert thread.interrupts == []
    assert thread.state["rounds"] == 3


def test_demo_newsletter_rejected_by_the_reviewer_is_saved_as_draft_even_with_too_long_text() -> (
    None
):
    thread = Thread(newsletter.newsletter, {**LETTER, "limit": 50})
    thread.answer({"approved": False, "text": "x" * 51})
    assert thread.state["outcome"] == "Kept as a draft."


def test_demo_agent_tool_calls_are_reviewed_separately_and_reported_in_order() -> None:
    thread = Thread(agent.agent, {"request": "Tidy up.", "calls": CALLS})
    first, second = thread.interrupts
    assert first.value["title"] == "Send email to dana@example.com"
    assert second.value["title"] == "Delete /tmp/old"

    thread.answer({second.id: False})
    assert [interrupt.id for interrupt in thread.interrupts] == [first.id]
    thread.answer({first.id: {**first.value, "args": {"to": "ann@example.com"}}})
    assert thread.state["report"].splitlines() == [
        'send_email was called with {"to": "ann@example.com"}.',
        "delete_files was rejected.",
    ]


def test_demo_agent_reports_the_reply_of_the_reviewer() -> None:
    thread = Thread(agent.agent, {"request": "Tidy up.", "calls": CALLS[:1]})
    thread.answer("Ask Dana first.")
    assert thread.state["report"].endswith("The reviewer responded: Ask Dana first.")


def test_demo_agent_title_of_tool_call_with_missing_arguments_names_the_tool() -> None:
    assert agent.title_of("send_email", {"subject": "Hello"}) == "Call send_email"
    assert agent.title_of("delete_files", {"path": "{0.__class__}"}) == "Delete {0.__class__}"


INVOICE = {
    "supplier": "Kletterwerk GmbH",
    "invoice": "2026-1",
    "purchase_order": "PO 1",
    "invoice_date": "1 Nov",
    "iban": "DE89 3704 0044 0532 0130 00",
    "amount": 10_000,
    "currency": "EUR",
    "note": "Rope.",
}


def test_demo_payment_is_transferred_and_booked_after_approval() -> None:
    thread = Thread(payment.payment, INVOICE)
    (interrupt,) = thread.interrupts
    assert interrupt.value["title"] == "Pay invoice 2026-1 to Kletterwerk GmbH, 100.00 EUR"
    assert interrupt.value["account_changed"] == "no"
    thread.answer({"approved": True})
    assert thread.state["outcome"] == (
        "Paid 100.00 EUR to DE89 3704 0044 0532 0130 00. Booked as PO 1."
    )


def test_rejected_demo_payment_is_returned_to_the_supplier() -> None:
    thread = Thread(payment.payment, INVOICE)
    thread.answer({"approved": False})
    assert thread.state["outcome"] == "Invoice 2026-1 was returned to Kletterwerk GmbH."


def test_demo_payment_to_invalid_iban_fails_with_the_reason() -> None:
    thread = Thread(payment.payment, {**INVOICE, "iban": "DE89 3704 0044 0532 0130 01"})
    with pytest.raises(ValueError, match=r"The bank rejected the IBAN DE89 .* checksum is wrong"):
        thread.answer({"approved": True})


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("change", "quorum", "priority"),
    [
        ({}, 1, 0),
        ({"amount": 500_000}, 2, 0),
        ({"iban_changed_days": 3}, 1, 2),
        ({"iban_changed_days": 30}, 1, 0),
    ],
)
def test_demo_payment_quorum_and_priority_depend_on_amount_and_new_iban(
    change: dict[str, Any], quorum: int, priority: int
) -> None:
    with hide_graphs(), testing.inline() as advance:
        register("payment", review=payment.REVIEW)(payment.payment)
        run = start("payment", {**INVOICE, **change})
        advance()
        interrupt = Interrupt.objects.get(run=run.id)
    assert (interrupt.quorum, interrupt.priority) == (quorum, priority)


TICKET = {
    "customer": "Mara Lindqvist",
    "conversation": [{"role": "user", "content": "My lamp is broken."}],
    "proposal": "I'd like to refund the lamp and tell her.",
    "calls": [
        {"tool": "issue_refund", "args": {"order": "A-7", "amount": "49.90 EUR"}},
        {"tool": "send_email", "args": {"to": "mara@example.com", "subject": "Your lamp"}},
    ],
}


def test_demo_desk_requests_all_tool_calls_in_one_interrupt() -> None:
    thread = Thread(desk.desk, TICKET)
    (interrupt,) = thread.interrupts
    assert [action["name"] for action in interrupt.value["action_requests"]] == [
        "issue_refund",
        "send_email",
    ]
    assert [message["role"] for message in thread.state["messages"]] == ["user", "assistant"]


def test_demo_desk_reports_each_decision_as_a_tool_message() -> None:
    thread = Thread(desk.desk, TICKET)
    edited = {"name": "issue_refund", "args": {"order": "A-7", "amount": "20.00 EUR"}}
    thread.answer(
        {
            "decisions": [
                {"type": "edit", "edited_action": edited},
                {"type": "reject", "message": "Call her."},
            ]
        }
    )
    results = [each["content"] for each in thread.state["messages"] if each["role"] == "tool"]
    assert results == [
        'issue_refund was called with {"amount": "20.00 EUR", "order": "A-7"}.',
        "send_email was rejected. Call her.",
    ]
    assert thread.state["messages"][-1]["role"] == "assistant"


@pytest.mark.django_db
def test_demo_langchain_agent_refunds_the_approved_amount() -> None:
    given = {"messages": [{"role": "user", "content": "Order A-7 is broken."}]}
    with hide_graphs(), testing.inline() as advance:
        register_langgraph("support")(support.build_support)
        run = start("support", given)
        advance()
        (interrupt,) = Interrupt.objects.filter(run=run.id)
        assert interrupt.payload["action_requests"][0]["args"] == {"order": "A-7", "cents": 4990}
        decide(interrupt.pk, "approve")
        advance()
        said = run_result(run.id)["messages"][-1]["content"]
    assert said == "Order A-7: 49.90 EUR refunded."
