"""Work that is divided, executed in parallel by Sends, and combined."""

import operator
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send


class Overall(TypedDict):
    text: str
    counts: Annotated[list[tuple[str, int]], operator.add]
    longest: str


class Line(TypedDict):
    number: int
    line: str


def split(state: Overall):
    return [
        Send("measure", {"number": number, "line": line})
        for number, line in enumerate(state["text"].splitlines())
    ] or END


def measure(task: Line) -> dict:
    return {"counts": [(task["line"], len(task["line"].split()) * 10 + task["number"])]}


def reduce(state: Overall):
    return {"longest": max(state["counts"], key=lambda one: one[1])[0]}


builder = StateGraph(Overall)
builder.add_node("measure", measure)
builder.add_node("reduce", reduce)
builder.add_conditional_edges(START, split, ["measure", END])
builder.add_edge("measure", "reduce")
builder.add_edge("reduce", END)
graph = builder.compile()

text = "one\ntwo words\nthree words here\nno"
print(graph.invoke({"text": text}))
print(graph.invoke({"text": ""}))
print(graph.invoke({"text": text}, {"max_concurrency": 1})["counts"])
