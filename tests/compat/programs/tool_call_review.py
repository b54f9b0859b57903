"""Approval, edit or rejection of each tool call before its execution."""

from typing import Literal

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt


@tool
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}: {text}"


def model(state: MessagesState):
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage(f"Done: {last.content}")]}
    call = {
        "name": "send_mail",
        "args": {"to": "bob", "text": "hi"},
        "id": "c",
        "type": "tool_call",
    }
    return {"messages": [AIMessage("", tool_calls=[call], id="ai")]}


def route(state: MessagesState) -> Literal["review", "__end__"]:
    return "review" if state["messages"][-1].tool_calls else END


def review(state: MessagesState) -> Command[Literal["tools", "model"]]:
    message = state["messages"][-1]
    call = message.tool_calls[0]
    decision = interrupt({"question": "Is this right?", "call": call["args"]})
    if decision["action"] == "approve":
        return Command(goto="tools")
    if decision["action"] == "edit":
        edited = {**call, "args": {**call["args"], **decision["args"]}}
        new = AIMessage("", tool_calls=[edited], id=message.id)
        return Command(goto="tools", update={"messages": [new]})
    refusal = ToolMessage(decision["why"], tool_call_id=call["id"], name=call["name"])
    return Command(goto="model", update={"messages": [refusal]})


builder = StateGraph(MessagesState)
builder.add_node(model)
builder.add_node(review)
builder.add_node("tools", ToolNode([send_mail]))
builder.add_edge(START, "model")
builder.add_conditional_edges("model", route)
builder.add_edge("tools", "model")
graph = builder.compile(checkpointer=InMemorySaver())

for number, decision in enumerate(
    [
        {"action": "approve"},
        {"action": "edit", "args": {"text": "dear Bob"}},
        {"action": "reject", "why": "not to Bob"},
    ]
):
    config = {"configurable": {"thread_id": str(number)}}
    asked = graph.invoke({"messages": [HumanMessage("Greet Bob")]}, config)
    print(asked["__interrupt__"][0].value, graph.get_state(config).next)
    for chunk in graph.stream(Command(resume=decision), config, stream_mode="updates"):
        print("  ", ", ".join(chunk))
    messages = graph.get_state(config).values["messages"]
    print("  ", [message.type for message in messages], messages[-1].content)
