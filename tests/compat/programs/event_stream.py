"""LangChain events of a graph and its models."""

import asyncio

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"rain in {city}"


def answers():
    yield AIMessage("It is raining")


model = GenericFakeChatModel(messages=answers()).with_config(tags=["talks"])


async def look(state: MessagesState, config):
    return {"messages": [("ai", await weather.ainvoke({"city": "Berlin"}, config))]}


async def talk(state: MessagesState):
    return {"messages": [await model.ainvoke(state["messages"])]}


def decide(state: MessagesState):
    return END if len(state["messages"]) > 5 else "talk"


builder = StateGraph(MessagesState).add_node("look", look).add_node("talk", talk)
builder.add_edge(START, "look").add_conditional_edges("look", decide).add_edge("talk", END)
graph = builder.compile(name="forecast").with_config(tags=["outer"])


async def main():
    events = graph.astream_events({"messages": [("user", "And?")]}, version="v2")
    async for event in events:
        shown = ""
        if event["event"] == "on_chat_model_stream":
            shown = repr(event["data"]["chunk"].content)
        elif event["event"] == "on_tool_end":
            shown = (
                event["data"]["output"].content
                if hasattr(event["data"]["output"], "content")
                else event["data"]["output"]
            )
        tags = [tag for tag in event["tags"] if not tag.startswith("seq:")]
        node = event["metadata"].get("langgraph_node")
        print(event["event"], event["name"], node, tags, len(event["parent_ids"]), shown)


asyncio.run(main())
