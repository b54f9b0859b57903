"""A graph whose interrupt has a response class, in a module that other processes can import."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypedDict

import pydantic

from hitl_django import START, StateGraph, interrupt


class Grade(StrEnum):
    GOOD = "good"


@dataclass
class Verdict:
    grade: Grade


class Note(pydantic.BaseModel):
    text: str


class State(TypedDict, total=False):
    """A state without types of its values."""

    found: Any


def ask(state: State) -> State:
    verdict = interrupt("Good?", response_schema=Verdict)
    note = interrupt("Why?", response_schema=Note)
    return {"found": [verdict, note]}


BUILDER = StateGraph(State).add_node("ask", ask).add_edge(START, "ask")
