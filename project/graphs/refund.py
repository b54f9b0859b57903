"""*refund*: a decision with typed fields.

check ─┬─ clear ──▶ pay
       └─ doubt ──▶ review ─┬─ approved ──▶ pay
                            └─ rejected ──▶ decline
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, TypedDict

from django.utils.translation import gettext_lazy as _
from pydantic import BaseModel, ConfigDict, Field

from hitl_django import END, START, ReviewPolicy, StateGraph, register
from hitl_django.contrib.insights import spot_check
from hitl_django.review_options import review as request_review

#: Number of decimal places by currency, for currencies that don't have two.
EXPONENTS = {"CLP": 0, "ISK": 0, "JPY": 0, "KRW": 0, "VND": 0, "BHD": 3, "KWD": 3, "TND": 3}

#: Limits of payments without a review: units of any currency, and days since the purchase.
SMALL_UNITS, SMALL_DAYS = 15, 14
RETURN_DAYS = 30
#: Hours in which a refund must be decided, by the lowest amount in units of any currency.
DUE_HOURS = ((300, 5), (100, 4), (50, 24))

#: Display hint of an amount in the smallest unit of its currency.
AMOUNT = "money /currency"


class RefundRequest(BaseModel):
    """The input of a run.

    Amounts are in the currency's smallest unit. For example, 12000 is 120.00 EUR.
    """

    model_config = ConfigDict(extra="forbid")

    customer: str = Field(min_length=1, max_length=200)
    order: str = Field(min_length=1, max_length=40)
    amount: int = Field(gt=0, le=100_000_000_000, json_schema_extra={"display": AMOUNT})
    currency: str = Field(pattern=r"^[A-Z]{3}$")
    reason: str = Field(max_length=5000)
    days_since_purchase: int = Field(ge=0)
    earlier_refunds: int = Field(default=0, ge=0)


class RefundDecision(BaseModel):
    """The response of a reviewer."""

    approved: bool = Field(title="Approved")
    amount: int = Field(
        title="Amount", ge=0, le=100_000_000_000, json_schema_extra={"display": AMOUNT}
    )
    note: str = Field(default="", title="Note to the customer", max_length=1000)


class Refund(TypedDict, total=False):
    """The state of the graph."""

    customer: str
    order: str
    amount: int
    currency: str
    reason: str
    days_since_purchase: int
    earlier_refunds: int
    doubts: list[str]
    approved: bool
    note: str
    outcome: str


def money(amount: int, currency: str) -> str:
    """Format an amount for display, for example ``1,234.50 EUR``."""
    digits = EXPONENTS.get(currency, 2)
    units, rest = divmod(amount, 10**digits)
    return f"{units:,}.{rest:0{digits}} {currency}" if digits else f"{units:,} {currency}"


def units_of(state: Refund) -> int:
    """Return the amount without decimals."""
    return state["amount"] // 10 ** EXPONENTS.get(state["currency"], 2)


def due_in(state: Refund) -> timedelta | None:
    """Return the time in which the refund must be decided, or None for a small amount."""
    units = units_of(state)
    if EXPONENTS.get(state["currency"]) == 0:
        units //= 100  # Units of these currencies are worth about as much as a cent.
    return next((timedelta(hours=hours) for least, hours in DUE_HOURS if units >= least), None)


def check(state: Refund) -> Refund:
    """Store the reasons for a review, if there are any."""
    doubts = []
    units = units_of(state)
    days, earlier = state["days_since_purchase"], state.get("earlier_refunds", 0)
    if units > SMALL_UNITS:
        doubts.append("the amount is above the automatic limit")
    if days > RETURN_DAYS:
        doubts.append(f"the order is {days} days old, but returns end after {RETURN_DAYS}")
    elif days > SMALL_DAYS:
        doubts.append(f"the order is {days} days old")
    if earlier:
        doubts.append("this is not the customer's first refund")
    if not state["reason"].strip():
        doubts.append("no reason was given")
    return {"doubts": doubts}


def after_check(state: Refund) -> Literal["review", "pay"]:
    """Return the review node if there are reasons for a review, otherwise the payment."""
    return "review" if state["doubts"] else "pay"


def review(state: Refund) -> Refund:
    """Request a decision, an amount and a note."""
    shown = money(state["amount"], state["currency"])
    doubts = state["doubts"]
    decision = request_review(
        {
            "title": f"Refund {shown} to {state['customer']}",
            "why": f"Review required: {' and '.join(doubts)}.",
            "order": state["order"],
            "amount": state["amount"],
            "currency": state["currency"],
            "customer_says": state["reason"],
            "days_since_purchase": state["days_since_purchase"],
            "earlier_refunds": state.get("earlier_refunds", 0),
        },
        response_schema=RefundDecision,
        due=due_in(state),
    )
    return {"approved": decision.approved, "amount": decision.amount, "note": decision.note}


def after_review(state: Refund) -> Literal["pay", "decline"]:
    """Return the node that the reviewer's decision selects."""
    return "pay" if state["approved"] else "decline"


def pay(state: Refund) -> Refund:
    """Simulate the payment."""
    return {"outcome": f"Paid {money(state['amount'], state['currency'])} for {state['order']}."}


def decline(state: Refund) -> Refund:
    """Simulate sending a rejection letter."""
    return {"outcome": f"Refund of {state['order']} declined."}


#: Suggested reasons for a decision.
REASONS = [
    "The item was not sent back.",
    "The return period has ended.",
    "The customer has already been refunded.",
]
#: Values that lists show below the title.
FACTS = ["order", "days_since_purchase", "earlier_refunds", "customer_says"]
REVIEW = ReviewPolicy(reasons=REASONS, facts=FACTS)
# A second reviewer checks one of four approvals.
spot_check("refund", rate=0.25)


@register("refund", version="1", title=_("Refunds"), review=REVIEW)
def refund() -> StateGraph:
    """Build the graph *refund*."""
    graph: StateGraph = StateGraph(Refund, input_schema=RefundRequest)
    graph.add_node(check)
    graph.add_node(review)
    graph.add_node(pay)
    graph.add_node(decline)
    graph.add_edge(START, "check")
    graph.add_conditional_edges("check", after_check)
    graph.add_conditional_edges("review", after_review)
    graph.add_edge("pay", END)
    graph.add_edge("decline", END)
    return graph
