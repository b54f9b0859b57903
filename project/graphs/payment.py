"""*payment*: an invoice of a supplier, which the finance team approves.

check ──▶ approve ─┬─ approved ──▶ transfer ──▶ book
                   └─ rejected ──▶ dispute
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, TypedDict

from django.utils.translation import gettext_lazy as _
from pydantic import BaseModel, ConfigDict, Field

from hitl_django import END, START, ReviewPolicy, StateGraph, register, review

from .refund import money

#: The group that sees and approves the payments.
FINANCE = "Finance"
#: Amount in cents from which two people must approve a payment.
LARGE = 500_000
#: Days for which a changed IBAN counts as new.
NEW_DAYS = 14
#: Priority of a payment to a new IBAN.
URGENT = 2


class Invoice(BaseModel):
    """The input of a run.

    The amount is in cents.
    """

    model_config = ConfigDict(extra="forbid")

    supplier: str = Field(min_length=1, max_length=200)
    invoice: str = Field(min_length=1, max_length=40)
    purchase_order: str = Field(min_length=1, max_length=40)
    invoice_date: str = Field(max_length=40)
    iban: str = Field(min_length=5, max_length=40)
    iban_changed_days: int | None = Field(default=None, ge=0)
    amount: int = Field(gt=0, le=100_000_000)
    currency: str = Field(pattern=r"^[A-Z]{3}$")
    note: str = Field(max_length=2000)


class PaymentDecision(BaseModel):
    """The response of an approver."""

    approved: bool = Field(title="Approved")
    reference: str = Field(default="", title="Payment reference", max_length=140)


class Payment(TypedDict, total=False):
    """The state of the graph."""

    supplier: str
    invoice: str
    purchase_order: str
    invoice_date: str
    iban: str
    iban_changed_days: int | None
    amount: int
    currency: str
    note: str
    why: str
    approved: bool
    reference: str
    outcome: str


def has_new_iban(state: Payment) -> bool:
    """Return whether the supplier's IBAN has changed recently."""
    days = state.get("iban_changed_days")
    return days is not None and days <= NEW_DAYS


def check(state: Payment) -> Payment:
    """Store the reason for the review."""
    reasons = ["every payment to a supplier needs an approval"]
    if state["amount"] >= LARGE:
        limit = money(LARGE, state["currency"])
        reasons = [f"two approvals are needed from {limit}"]
    if has_new_iban(state):
        reasons.append("the IBAN changed recently")
    return {"why": f"Review required: {' and '.join(reasons)}."}


def approve(state: Payment) -> Payment:
    """Request one or two approvals of the payment."""
    shown = money(state["amount"], state["currency"])
    days = state.get("iban_changed_days")
    decision = review(
        {
            "title": f"Pay invoice {state['invoice']} to {state['supplier']}, {shown}",
            "why": state["why"],
            "purchase_order": state["purchase_order"],
            "bank_account": state["iban"],
            "account_changed": "no" if days is None else f"{days} days ago",
            "invoice_date": state["invoice_date"],
            "note": state["note"],
        },
        response_schema=PaymentDecision,
        group=FINANCE,
        quorum=2 if state["amount"] >= LARGE else 1,
        priority=URGENT if has_new_iban(state) else None,
        due=timedelta(days=1),
    )
    return {"approved": decision.approved, "reference": decision.reference}


def after_approve(state: Payment) -> Literal["transfer", "dispute"]:
    """Return the node that the decision selects."""
    return "transfer" if state["approved"] else "dispute"


def transfer(state: Payment) -> Payment:
    """Simulate the transfer.

    Raises:
        ValueError: if the IBAN is invalid. The run fails, and an operator can correct the IBAN.
    """
    if not has_valid_checksum(state["iban"]):
        raise ValueError(f"The bank rejected the IBAN {state['iban']}: the checksum is wrong.")
    return {"outcome": f"Paid {money(state['amount'], state['currency'])} to {state['iban']}."}


def has_valid_checksum(iban: str) -> bool:
    """Return whether the check digits of an IBAN are correct."""
    compact = iban.replace(" ", "").upper()
    digits = "".join(str(int(char, 36)) for char in compact[4:] + compact[:4] if char.isalnum())
    return int(digits) % 97 == 1


def book(state: Payment) -> Payment:
    """Simulate the entry in the ledger."""
    return {"outcome": f"{state['outcome']} Booked as {state['purchase_order']}."}


def dispute(state: Payment) -> Payment:
    """Simulate an email to the supplier."""
    return {"outcome": f"Invoice {state['invoice']} was returned to {state['supplier']}."}


REVIEW = ReviewPolicy(
    facts=["purchase_order", "account_changed", "invoice_date", "note"],
    reasons=["The amount differs from the order.", "The IBAN could not be confirmed."],
)


@register("payment", version="1", title=_("Supplier payments"), review=REVIEW)
def payment() -> StateGraph:
    """Build the graph *payment*."""
    graph: StateGraph = StateGraph(Payment, input_schema=Invoice)
    graph.add_node(check)
    graph.add_node(approve)
    graph.add_node(transfer)
    graph.add_node(book)
    graph.add_node(dispute)
    graph.add_edge(START, "check")
    graph.add_edge("check", "approve")
    graph.add_conditional_edges("approve", after_approve)
    graph.add_edge("transfer", "book")
    graph.add_edge("book", END)
    graph.add_edge("dispute", END)
    return graph
