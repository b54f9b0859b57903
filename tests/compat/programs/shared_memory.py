"""Threads of one user that share a store."""

import asyncio
from dataclasses import dataclass

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore


@dataclass
class Context:
    user: str


def remember(state: MessagesState, runtime: Runtime[Context]):
    text = state["messages"][-1].content
    if text.startswith("I like "):
        place = ("users", runtime.context.user, "likes")
        likes = runtime.store.search(place)
        runtime.store.put(place, str(len(likes)), {"what": text.removeprefix("I like ")})


async def answer(state: MessagesState, *, store: BaseStore, runtime: Runtime[Context]):
    found = await store.asearch(("users", runtime.context.user))
    likes = [item.value["what"] for item in sorted(found, key=lambda item: item.key)]
    return {"messages": [AIMessage(f"{runtime.context.user} likes {' and '.join(likes) or '?'}")]}


store = InMemoryStore()
builder = StateGraph(MessagesState, context_schema=Context)
builder.add_sequence([remember, answer])
builder.add_edge(START, "remember")
graph = builder.compile(checkpointer=InMemorySaver(), store=store)


async def main():
    for thread, user, text in [
        ("1", "ada", "I like tea"),
        ("2", "ada", "I like bees"),
        ("3", "bob", "What do I like?"),
        ("4", "ada", "What do I like?"),
    ]:
        result = await graph.ainvoke(
            {"messages": [("user", text)]},
            {"configurable": {"thread_id": thread}},
            context=Context(user=user),
        )
        print(thread, len(result["messages"]), result["messages"][-1].content)


asyncio.run(main())
print(store.list_namespaces(prefix=("users",)))
item = store.get(("users", "ada", "likes"), "1")
print(item.key, item.namespace, item.value)
store.delete(("users", "ada", "likes"), "1")
print([item.key for item in store.search(("users",), filter={"what": "tea"})])
