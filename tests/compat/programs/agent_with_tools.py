"""An agent that calls tools until it has an answer."""

import asyncio

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


@tool
def divide(a: int, b: int) -> float:
    """Divide two numbers."""
    return a / b


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **kwargs):
        print("tools:", ", ".join(one.name for one in tools))
        return self


def script():
    calls = [
        {"name": "multiply", "args": {"a": 6, "b": 7}, "id": "1", "type": "tool_call"},
        {"name": "divide", "args": {"a": 1, "b": 0}, "id": "2", "type": "tool_call"},
    ]
    yield AIMessage("I calculate.", tool_calls=calls)
    yield AIMessage("It is 42, and the rest can't be done.")


def excuse(error: ZeroDivisionError) -> str:
    return f"can't be done: {error}"


def build():
    tools = [multiply, divide]
    model = Model(messages=script()).bind_tools(tools)

    async def acall_model(state: MessagesState):
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", acall_model)
    builder.add_node("tools", ToolNode(tools, handle_tool_errors=excuse))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile()


async def main():
    graph = build()
    interrupt = {"messages": [("user", "What is 6 * 7, and 1 / 0?")]}
    async for chunk in graph.astream(interrupt, stream_mode="updates"):
        for node, update in chunk.items():
            for message in update["messages"]:
                status = getattr(message, "status", None)
                print(f"{node} [{message.type} {status}]", message.content)


asyncio.run(main())
