"""Graphs that tests start by name."""

from __future__ import annotations

import operator
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from pydantic import BaseModel, Field, field_validator

from hitl_django.engine.constants import END, START
from hitl_django.engine.graph.functional import entrypoint, task
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.task.node_api import interrupt
from hitl_django.engine.types import Expiry
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.review_options import review as ask_for_review

#: Registers a graph whose runs store events. Without this argument, runs store no events.
register = partial(registry.register, events=["states"])


class Approval(TypedDict, total=False):
    text: str
    answer: Any


@register("approval", title="Approval")
def approval() -> StateGraph:

    def ask(state: Approval) -> Approval:
        return {"answer": interrupt({"title": f"Publish {state['text']}?", "text": state["text"]})}

    return StateGraph(Approval).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)


class Plain(TypedDict, total=False):
    payload: Any
    answer: Any


@register("plain")
def plain() -> StateGraph:

    def ask(state: Plain) -> Plain:
        return {"answer": interrupt(state["payload"])}

    return StateGraph(Plain).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)


class Reviewed(TypedDict, total=False):
    payload: Any
    terms: dict[str, Any]
    answer: Any


def ask_in_terms(state: Reviewed) -> Reviewed:
    terms = dict(state.get("terms", {}))
    if terms.pop("typed", False):
        return {"answer": ask_for_review(state["payload"], response_schema=Booking, **terms).seats}
    return {"answer": ask_for_review(state["payload"], **terms)}


@register("reviewed")
def reviewed() -> StateGraph:
    graph = StateGraph(Reviewed).add_node("ask", ask_in_terms)
    return graph.add_edge(START, "ask").add_edge("ask", END)


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    answers: Annotated[list[Any], operator.add]


@register("interview")
def interview() -> StateGraph:
    """Build a graph with two interrupts in one node."""

    def ask(state: Log) -> Log:
        first = interrupt("First?")
        second = interrupt(f"Second, after {first}?")
        return {"answers": [first, second]}

    return StateGraph(Log).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)


@register("panel")
def panel() -> StateGraph:
    """Build a graph with two concurrent nodes that interrupt."""

    def asking(name: str) -> Any:
        def ask(state: Log) -> Log:
            return {"answers": [(name, interrupt(f"Question to {name}"))]}

        return ask

    graph = StateGraph(Log)
    for name in ("left", "right"):
        graph.add_node(name, asking(name)).add_edge(START, name).add_edge(name, END)
    return graph


@register("jury", review=ReviewPolicy(resume_on="all"))
def jury() -> StateGraph:
    """Build a graph with five concurrent nodes that interrupt, which continues after all
    responses.
    """

    def asking(name: str) -> Any:
        return lambda state: {"answers": [(name, interrupt(f"Question to {name}"))]}

    graph = StateGraph(Log)
    for name in ("a", "b", "c", "d", "e"):
        graph.add_node(name, asking(name)).add_edge(START, name).add_edge(name, END)
    return graph


class Refund(BaseModel):
    approved: bool
    amount: float
    note: str = ""


class Request(TypedDict, total=False):
    amount: float
    customer: str
    refunded: float


@register("typed")
def typed() -> StateGraph:
    """Build a graph with a typed response."""

    def ask(state: Request) -> Request:
        payload = {"title": f"Refund {state['customer']}?", "amount": state["amount"]}
        answer = interrupt(payload, response_schema=Refund)
        return {"refunded": answer.amount if answer.approved else 0.0}

    return StateGraph(Request).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)


class ByMail(BaseModel):
    kind: Literal["email"] = "email"
    address: str = Field(json_schema_extra={"format": "email"})


class ByPhone(BaseModel):
    kind: Literal["phone"] = "phone"
    number: str = Field(min_length=5, max_length=20)
    loud: bool = False


class Line(BaseModel):
    sku: str
    count: int = Field(ge=1, le=99)
    price: float | None = None


class Order(BaseModel):
    """Response with a union and a table."""

    approved: bool
    contact: Annotated[ByMail | ByPhone, Field(discriminator="kind")]
    wait: int | str | None = None
    site: Annotated[str, Field(json_schema_extra={"format": "uri"})] | None = None
    lines: list[Line] = Field(min_length=2)


@register("order")
def order() -> StateGraph:

    def ask(state: Plain) -> Plain:
        return {"answer": interrupt(state["payload"], response_schema=Order).model_dump()}

    return StateGraph(Plain).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)


class Booking(BaseModel):
    seats: int

    @field_validator("seats")
    @classmethod
    def check(cls, seats: int) -> int:
        if seats % 2:
            raise ValueError("seats are sold in pairs")
        return seats


@register("booking")
def booking() -> StateGraph:
    """Build a graph with interrupts by position and by key, whose responses only Python can
    validate.
    """

    def ask(state: Log) -> Log:
        by_position = [interrupt(f"Seats {n}?", response_schema=Booking) for n in (1, 2)]
        by_key = [interrupt(f"Seats {k}?", response_schema=Booking, key=k) for k in ("a", "b")]
        return {"answers": [answer.seats for answer in (*by_position, *by_key)]}

    inner = StateGraph(Log).add_node("ask", ask).add_edge(START, "ask").compile()
    return StateGraph(Log).add_node("inner", inner).add_edge(START, "inner").add_edge("inner", END)


#: Expiry options of the graph "patient", which a test sets.
PATIENCE: list[Expiry] = []


@register("patient")
def patient() -> StateGraph:
    """Build a graph with a typed response and the expiry options in PATIENCE."""

    def ask(state: Log) -> Log:
        expires = PATIENCE[0] if PATIENCE else None
        answer = interrupt("How many?", response_schema=Booking, expires=expires)
        return {"answers": [answer.seats]}

    graph = StateGraph(Log).add_node("ask", ask).add_edge(START, "ask")
    return graph.add_node("beside", lambda state: {"log": ["beside"]}).add_edge(START, "beside")


@register("steps")
def steps() -> StateGraph:
    """Build a graph with five super-steps, each of which leaves a mark."""
    names = ["a", "b", "c", "d", "e"]
    graph = StateGraph(Log)
    for name in names:
        graph.add_node(name, lambda state, name=name: {"log": [name]})
    for source, target in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(source, target)
    return graph


class Laps(TypedDict, total=False):
    book: str
    name: str
    laps: int
    done: int
    seconds: float


@register("laps")
def laps() -> StateGraph:
    """Build a graph that loops a given number of times, takes time, and logs its calls in a
    file.
    """

    def lap(state: Laps) -> Laps:
        done = state.get("done", 0)
        with Path(state["book"]).open("a") as book:
            book.write(f"{state['name']} {done}\n")
        time.sleep(state["seconds"])
        return {"done": done + 1}

    def further(state: Laps) -> str:
        return "lap" if state["done"] < state["laps"] else END

    graph = StateGraph(Laps).add_node("lap", lap).add_edge(START, "lap")
    return graph.add_conditional_edges("lap", further)


class Count(TypedDict, total=False):
    count: int
    fail: bool


@register("fragile")
def fragile() -> StateGraph:
    """Build a graph that fails a given number of times."""

    def work(state: Count) -> Count:
        if FAILING:
            raise RuntimeError("the printer is on fire")
        return {"count": state["count"] + 1}

    return StateGraph(Count).add_node("work", work).add_edge(START, "work").add_edge("work", END)


#: Read by "fragile". A test adds values to make the node fail.
FAILING: set[str] = set()


@register("unstorable")
def unstorable() -> StateGraph:

    def work(state: Approval) -> Approval:
        return {"answer": object()}

    return StateGraph(Approval).add_node("work", work).add_edge(START, "work").add_edge("work", END)


@register("endless")
def endless() -> StateGraph:
    """Build a graph that never ends."""

    def work(state: Count) -> Count:
        return {"count": state["count"] + 1}

    graph = StateGraph(Count).add_node("work", work)
    return graph.add_edge(START, "work").add_edge("work", "work")


@register("gated")
def gated() -> Any:
    """Build a graph with a breakpoint before its only node."""

    def work(state: Approval) -> Approval:
        return {"answer": "done"}

    graph = StateGraph(Approval).add_node("work", work).add_edge(START, "work")
    return graph.add_edge("work", END).compile(interrupt_before=["work"])


@register("nested")
def nested() -> StateGraph:
    """Build a graph with interrupts at three levels of subgraphs."""

    def asking(name: str) -> Any:
        def ask(state: Log) -> Log:
            return {"answers": [(name, interrupt(f"Question to {name}"))]}

        return ask

    inner = StateGraph(Log).add_node("deep", asking("deep")).add_edge(START, "deep")
    middle = StateGraph(Log).add_node("inner", inner.compile()).add_node("mid", asking("mid"))
    middle.add_edge(START, "inner").add_edge("inner", "mid")
    outer = StateGraph(Log).add_node("middle", middle.compile()).add_node("top", asking("top"))
    return outer.add_edge(START, "middle").add_edge(START, "top")


#: The work of the tasks of "essay", in order.
WRITTEN: list[str] = []


@task
def write(topic: str) -> str:
    WRITTEN.append(topic)
    return f"An essay about {topic}"


@task
def review(text: str, reader: str) -> str:
    return f"{reader}: {interrupt({'title': f'What does {reader} say?', 'text': text})}"


class Essay(TypedDict):
    topic: str


@register("essay", title="Essay")
@entrypoint()
def essay(given: Essay, *, previous: Any = None) -> dict[str, Any]:
    text = write(given["topic"]).result()
    said = [called.result() for called in [review(text, "Ann"), review(text, "Bob")]]
    return {"text": write(f"{given['topic']}, again").result(), "said": said, "before": previous}


@register("keyed")
def keyed() -> StateGraph:
    """Build a graph with a node that interrupts by position and by key."""

    def ask(state: Log) -> Log:
        plain = interrupt("Plain?")
        named = [interrupt(f"{key}?", key=key) for key in ("b", "a")]
        return {"answers": [plain, *named]}

    return StateGraph(Log).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)


@register("broad")
def broad() -> StateGraph:
    """Build a graph with eight concurrent nodes, whose picture is wider than a phone."""

    def ask(state: Log) -> Log:
        return {"answers": [interrupt("Which?")]}

    graph = StateGraph(Log)
    for number in range(8):
        graph.add_node(f"branch_{number}", ask).add_edge(START, f"branch_{number}")
    return graph
