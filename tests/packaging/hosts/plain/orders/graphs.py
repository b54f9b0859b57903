"""Refunds that need an approval."""

from __future__ import annotations

from typing import TypedDict

from django.db.models import F
from pydantic import BaseModel, Field

from hitl_django import START, StateGraph, interrupt, register, transact

from .models import Order


class Refund(TypedDict, total=False):
    order: int
    cents: int


class Verdict(BaseModel):
    approved: bool
    cents: int = Field(ge=1)


def ask(refund: Refund) -> Refund:
    order = Order.objects.get(pk=refund["order"])
    verdict = interrupt(
        {"title": f"Refund {order.customer}?", "cents": refund["cents"]}, response_schema=Verdict
    )
    return {"cents": verdict.cents if verdict.approved else 0}


def pay(refund: Refund) -> Refund:
    if refund["cents"]:
        transact("pay", add_refund, refund["order"], refund["cents"])
    return {}


def add_refund(pk: int, cents: int) -> None:
    Order.objects.filter(pk=pk).update(refunded=F("refunded") + cents)


@register("refund", version="1")
def build_refund() -> StateGraph:
    graph = StateGraph(Refund).add_node(ask).add_node(pay)
    return graph.add_edge(START, "ask").add_edge("ask", "pay")
