"""Several pending interrupts: some responses first, and the rest as a mapping."""

import operator
from typing import Annotated, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt


class State(TypedDict):
    answers: Annotated[dict, operator.or_]


def ask(subject):
    def node(state: State):
        return {"answers": {subject: interrupt({"about": subject})}}

    return node


def summary(state: State):
    print("summary of", sorted(state["answers"].items()))


builder = StateGraph(State)
for subject in ("budget", "date", "place"):
    builder.add_node(subject, ask(subject))
    builder.add_edge(START, subject)
builder.add_node("summary", summary)
builder.add_edge(["budget", "date", "place"], "summary")
graph = builder.compile(checkpointer=InMemorySaver())

config = {"configurable": {"thread_id": "party"}}
result = graph.invoke({"answers": {}}, config)
print(sorted(interrupt.value["about"] for interrupt in result["__interrupt__"]))

state = graph.get_state(config)
date = next(one for one in state.interrupts if one.value["about"] == "date")
graph.invoke(Command(resume={date.id: "1 May"}), config)

state = graph.get_state(config)
print(state.next, [one.value["about"] for task in state.tasks for one in task.interrupts])
open_now = [one for one in state.interrupts if one.value["about"] != "date"]
answers = {one.id: f"any {one.value['about']}" for one in open_now}
result = graph.invoke(Command(resume=answers), config)
print(sorted(result["answers"]), graph.get_state(config).next)
