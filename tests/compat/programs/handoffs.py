"""Agents as separate graphs that hand a conversation over to each other."""

from typing import Annotated

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, tools_condition
from langgraph.types import Command


class State(MessagesState):
    active: str


def transfer_to(agent):
    @tool(f"transfer_to_{agent}")
    def transfer(
        state: Annotated[dict, InjectedState], tool_call_id: Annotated[str, InjectedToolCallId]
    ) -> Command:
        """Hand the conversation over."""
        done = ToolMessage(f"now with {agent}", tool_call_id=tool_call_id, id=f"to-{agent}")
        return Command(
            goto=agent,
            graph=Command.PARENT,
            update={"messages": [*state["messages"], done], "active": agent},
        )

    return transfer


def agent(name, other, word):
    def model(state: State):
        text = state["messages"][-1].text
        if word in text:
            call = {"name": f"transfer_to_{other}", "args": {}, "id": f"{name}-1"}
            return {"messages": [AIMessage("", tool_calls=[call], id=f"{name}-calls")]}
        return {"messages": [AIMessage(f"{name} answers.", id=f"{name}-answers")]}

    builder = StateGraph(State)
    builder.add_node("model", model)
    builder.add_node("tools", ToolNode([transfer_to(other)]))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    return builder.compile()


builder = StateGraph(State)
builder.add_node("sales", agent("sales", "support", "broken"))
builder.add_node("support", agent("support", "sales", "buy"))
builder.add_conditional_edges(START, lambda state: state.get("active", "sales"))
graph = builder.compile(checkpointer=InMemorySaver())

config = {"configurable": {"thread_id": "t"}}
for text in ("hello", "it is broken", "thanks", "I buy another"):
    message = HumanMessage(text, id=text)
    for ns, chunk in graph.stream({"messages": [message]}, config, subgraphs=True):
        print([level.split(":")[0] for level in ns], sorted(chunk))
    state = graph.get_state(config).values
    print("->", state.get("active"), [one.text for one in state["messages"]])
