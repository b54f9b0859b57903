"""Semantic search for messages of other threads."""

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_store
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore

WORDS = ["cat", "dog", "purr", "bark", "car", "road"]
NEAR = {"kitten": "cat", "puppy": "dog", "driving": "car"}


def embed(texts: list[str]) -> list[list[float]]:
    found = []
    for text in texts:
        words = [NEAR.get(word, word) for word in text.lower().replace(".", "").split()]
        found.append([float(words.count(word)) + 0.01 for word in WORDS])
    return found


store = InMemoryStore(index={"embed": embed, "dims": len(WORDS), "fields": ["text"]})


def remember(state: MessagesState, config) -> dict:
    user = config["configurable"]["user"]
    said = state["messages"][-1].content
    known = get_store().search(("facts", user), query=said, limit=1)
    for item in known:
        print(f"  {item.key}: {item.value['text']} ({item.score:.2f})")
    number = len(get_store().search(("facts", user), limit=100)) + 1
    get_store().put(("facts", user), f"fact-{number}", {"text": said, "kind": len(known)})
    return {"messages": [("ai", f"I know {len(known)} thing like that.")]}


builder = StateGraph(MessagesState).add_node("remember", remember).add_edge(START, "remember")
graph = builder.compile(checkpointer=InMemorySaver(), store=store)

said = ["The cat can purr.", "The dog can bark.", "The dog saw a car.", "My kitten", "driving"]
for number, text in enumerate(said):
    config = {"configurable": {"thread_id": str(number), "user": "ann"}}
    print(text)
    found = graph.invoke({"messages": [("user", text)]}, config)
    print(" ", found["messages"][-1].content)

print([item.key for item in store.search(("facts",), filter={"kind": {"$gte": 1}})])
print(store.list_namespaces(prefix=("facts",)))
print(store.search(("facts", "bob"), query="cat"))
