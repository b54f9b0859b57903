"""A supervisor that assigns tasks to worker graphs one after the other."""

import operator
from typing import Annotated, Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command


class State(TypedDict):
    todo: list[str]
    done: Annotated[list[str], operator.add]


class WorkerState(TypedDict):
    todo: list[str]
    draft: str
    done: Annotated[list[str], operator.add]


class WorkerOutput(TypedDict):
    done: list[str]


def worker(name):
    def draft(state: WorkerState):
        return {"draft": f"{name} drafts {state['todo'][0]}"}

    def finish(state: WorkerState):
        return {"done": [state["draft"] + ", and finishes"]}

    builder = StateGraph(WorkerState, output_schema=WorkerOutput)
    builder.add_sequence([draft, finish])
    builder.add_edge(START, "draft")
    return builder.compile(name=name)


def supervisor(state: State) -> Command[Literal["writer", "coder", "__end__"]]:
    left = state["todo"][len(state["done"]) :]
    if not left:
        return Command(goto=END)
    return Command(goto="coder" if "code" in left[0] else "writer", update={"todo": state["todo"]})


def take_next(state: State):
    """Hand the remaining tasks to the worker."""
    return {"todo": state["todo"][1:] + state["todo"][:1]}


builder = StateGraph(State)
builder.add_node(supervisor)
builder.add_node(take_next)
for name in ("writer", "coder"):
    builder.add_node(name, worker(name))
    builder.add_edge(name, "take_next")
builder.add_edge(START, "supervisor")
builder.add_edge("take_next", "supervisor")
graph = builder.compile()

for chunk in graph.stream({"todo": ["text", "code"]}, {"recursion_limit": 12}):
    print(chunk)
print(graph.invoke({"todo": ["more text"], "done": []}))
drawing = graph.get_graph(xray=True)
print(sorted(drawing.nodes))
