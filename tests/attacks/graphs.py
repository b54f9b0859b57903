"""Graphs for attacks: one with restricted interrupts, and one with an integer response."""

from __future__ import annotations

from typing import Any, TypedDict

from pydantic import BaseModel

from hitl_django import END, START, StateGraph, interrupt
from hitl_django.graph_registry.registry import ReviewPolicy, register, unregister


class Seats(BaseModel):
    seats: int


class State(TypedDict, total=False):
    title: str
    answer: Any


def reserved() -> StateGraph:

    def ask(state: State) -> State:
        return {"answer": interrupt({"title": state["title"]})}

    return StateGraph(State).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)


def seats() -> StateGraph:

    def ask(state: State) -> State:
        return {"answer": interrupt(state["title"], response_schema=Seats).seats}

    return StateGraph(State).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)


def register_graphs() -> None:
    keepers = ReviewPolicy(groups=["attacked keepers"])
    register("attacked reserved", review=keepers)(reserved)
    register("attacked seats")(seats)


def unregister_graphs() -> None:
    unregister("attacked reserved")
    unregister("attacked seats")
