"""Streaming of model tokens with their origin."""

import asyncio

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.graph import START, MessagesState, StateGraph


def build():
    texts = ["Roses are red", "A good poem"]
    model = GenericFakeChatModel(messages=iter(AIMessage(text) for text in texts))
    silent = GenericFakeChatModel(messages=iter([AIMessage("nobody hears")]), tags=["nostream"])

    def write(state: MessagesState):
        silent.invoke("think")
        return {"messages": model.invoke(state["messages"], config={"tags": ["poem"]})}

    def review(state: MessagesState):
        return {"messages": [model.invoke(state["messages"]), AIMessage("The end.")]}

    builder = StateGraph(MessagesState)
    builder.add_sequence([write, review])
    builder.add_edge(START, "write")
    return builder.compile()


def show(message, metadata):
    kind = "token" if isinstance(message, AIMessageChunk) else "whole"
    print(f"{metadata['langgraph_step']} {metadata['langgraph_node']:6}", end=" ")
    print(kind, repr(message.content), metadata.get("tags"))


for message, metadata in build().stream({"messages": ["Write"]}, stream_mode="messages"):
    show(message, metadata)


async def main():
    modes = ["messages", "updates"]
    async for mode, data in build().astream({"messages": ["Write"]}, stream_mode=modes):
        if mode == "messages":
            show(*data)
        else:
            print(mode, *data)


asyncio.run(main())
