"""A graph as part of a LangChain chain, and in parallel with other Runnables."""

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict


class State(TypedDict, total=False):
    topic: str
    draft: str
    grade: int


def write(state: State) -> State:
    return {"draft": f"All about {state['topic']}."}


def grade(state: State) -> State:
    return {"grade": len(state["draft"])}


def build():
    builder = StateGraph(State).add_node("write", write).add_node("grade", grade)
    builder.add_edge(START, "write").add_edge("write", "grade")
    return builder.compile(name="author")


def answers():
    yield AIMessage("Cats, shorter.")
    yield AIMessage("Dogs, shorter.")


author = build()
prompt = ChatPromptTemplate.from_template("Shorten: {draft} (graded {grade})")
model = GenericFakeChatModel(messages=answers())
chain = RunnablePassthrough() | author | prompt | model | StrOutputParser()

print(chain.invoke({"topic": "cats"}))
print(chain.invoke({"topic": "dogs"}))

both = RunnableParallel(written=author, topic=lambda given: given["topic"].upper())
print(both.invoke({"topic": "fish"}))

counted = author | (lambda state: state["grade"]) | RunnableLambda(lambda n: n * 2)
print(counted.batch([{"topic": "a"}, {"topic": "bcd"}]))
print(author.get_name(), "|", sorted(author.get_input_jsonschema()["properties"]))
print(author.pick("draft").invoke({"topic": "ants"}))
print(author.assign(length=lambda state: len(state["topic"])).invoke({"topic": "bees"}))

for drawn in (RunnablePassthrough() | author | print, author | print):
    picture = drawn.get_graph()
    print(sorted(node.name for node in picture.nodes.values()), len(picture.edges))
    print("write" in picture.draw_mermaid())
