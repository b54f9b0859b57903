"""Claims settled after two reviews, with one entry in the ledger."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, TypedDict
from uuid import UUID

from hitl_django import (
    START,
    ReviewPolicy,
    StateGraph,
    once,
    register,
    review,
)

from .models import Claim


class Settlement(TypedDict, total=False):
    claim: Annotated[str, "its number"]
    damage: Decimal
    settled: bool


def look(settlement: Settlement) -> Settlement:
    claim = Claim.objects.get(pk=UUID(settlement["claim"]))
    answer = review({"title": f"Settle {claim.holder}?", "damage": str(claim.damage)}, quorum=2)
    return {"settled": bool(answer), "damage": claim.damage}


def settle(settlement: Settlement) -> Settlement:
    # The ledger is in another database, so no transaction spans both. The call can be repeated.
    once(
        "settle",
        write_state,
        settlement["claim"],
        "settled" if settlement["settled"] else "refused",
    )
    return {}


def write_state(number: str, state: str) -> None:
    Claim.objects.filter(pk=number).update(state=state)


@register("settlement", version="2024-11", review=ReviewPolicy())
def build_settlement() -> StateGraph:
    graph = StateGraph(Settlement).add_node(look).add_node(settle)
    return graph.add_edge(START, "look").add_edge("look", "settle")
