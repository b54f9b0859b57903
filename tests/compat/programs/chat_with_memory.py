"""A chat that remembers its own thread, but no other thread."""

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

replies = ["Hello Ada.", "You are Ada.", "We haven't met."]
model = GenericFakeChatModel(messages=iter(map(AIMessage, replies)))


def chat(state: MessagesState):
    prompt = [SystemMessage("Be brief."), *state["messages"]]
    print(f"the model reads {len(prompt)} messages")
    return {"messages": model.invoke(prompt)}


builder = StateGraph(MessagesState)
builder.add_node("chat", chat)
builder.add_edge(START, "chat")
builder.add_edge("chat", END)
graph = builder.compile(checkpointer=InMemorySaver())


def say(text, thread):
    config = {"configurable": {"thread_id": thread}}
    result = graph.invoke({"messages": [{"role": "user", "content": text}]}, config)
    result["messages"][-1].pretty_print()


say("I am Ada.", "1")
say("Who am I?", "1")
say("Who am I?", "2")

state = graph.get_state({"configurable": {"thread_id": "1"}})
print([f"{message.type}: {message.text}" for message in state.values["messages"]])
print(state.next, state.metadata["step"])
