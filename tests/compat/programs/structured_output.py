"""State as a pydantic model and as a dataclass, filled by a model's structured output."""

import operator
from dataclasses import dataclass, field
from typing import Annotated, Literal

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, Field, ValidationError, field_validator


class Ticket(BaseModel):
    """What a customer wants."""

    kind: Literal["bug", "wish"]
    urgency: int = Field(ge=1, le=5)


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **kwargs):
        return self


def call(**args):
    return AIMessage("", tool_calls=[{"name": "Ticket", "args": args, "id": "1"}])


script = [call(kind="bug", urgency=5), call(kind="wish", urgency=1)]
model = Model(messages=iter(script)).with_structured_output(Ticket)


class State(BaseModel):
    text: str
    ticket: Ticket | None = None
    log: Annotated[list[str], operator.add] = []

    @field_validator("text")
    @classmethod
    def has_words(cls, text):
        if not text.strip():
            raise ValueError("says nothing")
        return text


def classify(state: State):
    return {"ticket": model.invoke(state.text), "log": [type(state).__name__]}


def urgent(state: State):
    return {"log": [f"urgent {state.ticket.kind}"]}


builder = StateGraph(State)
builder.add_node(classify)
builder.add_node(urgent)
builder.add_edge(START, "classify")
builder.add_conditional_edges(
    "classify", lambda state: state.ticket.urgency > 3, {True: "urgent", False: END}
)
graph = builder.compile(checkpointer=InMemorySaver())
for number, given in enumerate([{"text": "It fails"}, State(text="More bees"), {"text": " "}]):
    config = {"configurable": {"thread_id": str(number)}}
    try:
        result = graph.invoke(given, config)
    except ValidationError as error:
        print("refused:", error.errors()[0]["msg"])
    else:
        stored = graph.get_state(config).values["ticket"]
        print(result["ticket"], result["log"], isinstance(stored, Ticket))


@dataclass
class Count:
    numbers: list[int]
    total: int = 0
    seen: Annotated[list[str], operator.add] = field(default_factory=list)


def add(state: Count):
    return Count(numbers=state.numbers[1:], total=state.total + state.numbers[0], seen=["add"])


builder = StateGraph(Count)
builder.add_node(add)
builder.add_edge(START, "add")
builder.add_conditional_edges("add", lambda state: "add" if state.numbers else END)
print(builder.compile().invoke(Count([1, 2, 3])))
