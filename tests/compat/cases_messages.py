"""States with messages: formats and ids of messages."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

import pydantic
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from typing_extensions import TypedDict

from .driving import Case, answer, at, bulk, cases_of, command, go_on, start, update
from .engines import Engine

CASES: list[Case] = []
case = cases_of(CASES)
#: LangGraph's metadata contains the raw values that were written, which are not messages yet.
WRITTEN: Any = {
    "leaves_out": ("record",),
    "differs": "a written message is stored as one",
}
HI = start({"messages": [HumanMessage("hi", id="1")]})
REMOVE_ALL = "__remove_all__"


def chat(engine: Engine, *nodes: Any, state: Any = None) -> Any:
    """Return a graph with sequential nodes and a list of messages as its state."""
    graph = engine.StateGraph(state or engine.MessagesState)
    before = engine.START
    for position, node in enumerate(nodes):
        graph.add_node(f"n{position}", node).add_edge(before, f"n{position}")
        before = f"n{position}"
    return graph


def returns(*messages: Any) -> Any:
    """Return a node that returns messages."""
    return lambda state: {"messages": list(messages)}


def told(state: Any) -> Any:
    """Node that logs its state."""
    kinds = [f"{type(one).__name__} {one.text}" for one in state["messages"]]
    return {"messages": AIMessage("; ".join(kinds), id="told")}


FORMS = {
    "a_text": "hi",
    "texts": ["hi", "and?"],
    "a_pair": ("user", "hi"),
    "pairs": [("system", "s"), ("human", "h"), ("ai", "a"), ("assistant", "b")],
    "a_dict": {"role": "user", "content": "hi", "id": "d"},
    "dicts_of_all_roles": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u", "name": "ada"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"name": "f", "args": {"x": 1}, "id": "c", "type": "tool_call"}]},
        {"role": "tool", "content": "t", "tool_call_id": "c"},
    ],
    "dicts_by_type": [{"type": "human", "content": "h"}, {"type": "ai", "content": "a"}],
    "a_call_as_the_api_has_it": [{
        "role": "assistant", "content": None, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}],
    }],
    "content_in_blocks": {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    "a_message": HumanMessage("hi"),
    "a_chunk": [AIMessageChunk("in parts", id="c")],
    "all_kinds_mixed": ["hi", ("ai", "a"), {"role": "user", "content": "d"}, SystemMessage("s")],
    "no_messages": [],
}  # fmt: skip
REFUSED = {
    "a_role_that_is_none": [{"role": "clown", "content": "x"}],
    "a_pair_of_no_role": ("clown", "x"),
}


def _form(name: str, value: Any) -> None:
    def given(engine: Engine) -> Any:
        return chat(engine, told)

    given.__name__ = f"messages_as_{name}"
    case(start({"messages": value}), **WRITTEN)(given)


def _refused(name: str, value: Any) -> None:
    def given(engine: Engine) -> Any:
        return chat(engine, told)

    given.__name__ = f"no_message_as_{name}"
    how: Any = {"ways": ("invoke", "ainvoke"), "leaves_out": ("state", "record")}
    case(start({"messages": value}), differs="a broken step can be looked at", **how)(given)


for _name, _value in FORMS.items():
    _form(_name, _value)
for _name, _value in REFUSED.items():
    _refused(_name, _value)


@case(HI)
def a_message_is_replaced_by_its_id(engine: Engine) -> Any:
    return chat(engine, returns(AIMessage("a", id="2")), returns(AIMessage("b", id="2")))


@case(HI)
def a_message_of_another_kind_takes_the_place(engine: Engine) -> Any:
    return chat(engine, returns(AIMessage("instead", id="1"), AIMessage("after", id="2")))


@case(HI)
def one_id_twice_in_one_update(engine: Engine) -> Any:
    return chat(engine, returns(AIMessage("a", id="2"), AIMessage("b", id="2")))


@case(HI, start({"messages": [HumanMessage("again", id="1")]}), **WRITTEN)
def input_with_a_known_id(engine: Engine) -> Any:
    return chat(
        engine, lambda state: {"messages": [AIMessage(f"{len(state['messages'])}", id="n")]}
    )


@case(HI)
def a_message_is_removed(engine: Engine) -> Any:
    return chat(engine, returns(AIMessage("a", id="2")), returns(RemoveMessage(id="1")))


@case(
    HI,
    ways=("invoke", "ainvoke"),
    leaves_out=("state", "record"),
    differs="a broken step can be looked at",
)
def an_unknown_message_is_removed(engine: Engine) -> Any:
    return chat(engine, returns(RemoveMessage(id="nobody")))


@case(HI)
def a_message_is_removed_and_added_again(engine: Engine) -> Any:
    new = HumanMessage("new", id="1")
    return chat(engine, returns(AIMessage("a", id="2")), returns(RemoveMessage(id="1"), new))


@case(HI)
def a_message_is_added_and_removed_in_one_update(engine: Engine) -> Any:
    return chat(engine, returns(AIMessage("a", id="2"), RemoveMessage(id="2")))


@case(HI, start({"messages": "more"}), **WRITTEN)
def all_messages_are_removed(engine: Engine) -> Any:
    return chat(engine, returns(RemoveMessage(id=REMOVE_ALL)))


@case(HI)
def all_are_removed_but_what_follows(engine: Engine) -> Any:
    before, after = AIMessage("before", id="b"), AIMessage("after", id="a")
    return chat(engine, returns(before, RemoveMessage(id=REMOVE_ALL), after))


@case(HI)
def all_are_removed_twice(engine: Engine) -> Any:
    one = RemoveMessage(id=REMOVE_ALL)
    return chat(engine, returns(one, AIMessage("a", id="a"), one, AIMessage("b", id="b")))


@case(start({"messages": [HumanMessage("x", id="x"), RemoveMessage(id="x")]}))
def a_removal_in_the_input(engine: Engine) -> Any:
    return chat(engine, told)


@case(HI)
def parallel_nodes_add_messages(engine: Engine) -> Any:
    graph = engine.StateGraph(engine.MessagesState)
    for name in "abc":
        graph.add_node(name, returns(AIMessage(name, id=name))).add_edge(engine.START, name)
    return graph


@case(HI)
def one_node_removes_what_its_sibling_replaces(engine: Engine) -> Any:
    graph = engine.StateGraph(engine.MessagesState)
    graph.add_node("a", returns(RemoveMessage(id="1"))).add_edge(engine.START, "a")
    return graph.add_node("b", returns(HumanMessage("b", id="1"))).add_edge(engine.START, "b")


@case(HI, update({"messages": RemoveMessage(id="1")}), go_on(), interrupt_before=["n1"])
def a_message_is_removed_by_an_update(engine: Engine) -> Any:
    return chat(engine, returns(AIMessage("a", id="2")), told)


@case(HI, update({"messages": [("user", "by hand")]}, "n0"), update({"messages": "text"}, "n0"))
def messages_in_all_forms_by_an_update(engine: Engine) -> Any:
    return chat(engine, told)


@case(HI, bulk([({"messages": "one"}, "n0")], [({"messages": ("ai", "two")}, "n0")]), go_on())
def messages_by_updates_in_bulk(engine: Engine) -> Any:
    return chat(engine, returns(AIMessage("a", id="2")), told)


@case(HI, command(update={"messages": [("user", "told")]}), go_on(), interrupt_before=["n1"])
def messages_by_a_command_as_input(engine: Engine) -> Any:
    return chat(engine, returns(AIMessage("a", id="2")), told)


@case(HI, at(1, update({"messages": [AIMessage("other", id="2")]}, "n0")), go_on())
def another_answer_of_the_model_by_a_fork(engine: Engine) -> Any:
    return chat(engine, returns(AIMessage("a", id="2")), told)


@case(HI, answer({"role": "user", "content": "yes", "id": "y"}))
def a_message_as_an_answer(engine: Engine) -> Any:
    return chat(engine, lambda state: {"messages": [engine.interrupt(state["messages"][-1].text)]})


@case(HI)
def messages_sent_to_a_node(engine: Engine) -> Any:
    graph = chat(engine, returns(AIMessage("a", id="2")))
    graph.add_node("w", told)
    sent = {"messages": [HumanMessage("sent", id="s")]}
    return graph.add_conditional_edges("n0", lambda state: [engine.Send("w", sent)], ["w"])


@case(HI)
def messages_of_a_subgraph_come_back_once(engine: Engine) -> Any:
    child = chat(engine, returns(AIMessage("child", id="c")), told)
    return chat(engine, returns(AIMessage("a", id="2")), child.compile(), told)


@case(HI)
def a_command_with_one_message(engine: Engine) -> Any:
    return chat(engine, lambda state: engine.Command(update={"messages": AIMessage("c", id="c")}))


@case(HI, **WRITTEN)
def messages_as_pairs_of_a_command(engine: Engine) -> Any:
    pairs = [("messages", AIMessage("c", id="c")), ("messages", [AIMessage("d", id="d")])]
    return chat(engine, lambda state: engine.Command(update=pairs))


@case(HI)
def messages_are_overwritten(engine: Engine) -> Any:
    only = [AIMessage("only", id="o")]
    return chat(engine, lambda state: {"messages": engine.Overwrite(only)}, told)


@case(start({"messages": [("user", "x")], "calls": 3}), **WRITTEN)
def messages_beside_other_keys(engine: Engine) -> Any:
    class Counted(engine.MessagesState):  # type: ignore[name-defined, misc]
        calls: int

    return chat(engine, lambda state: {"calls": len(state["messages"])}, state=Counted)


@case(start({"messages": [HumanMessage("x", id="1")]}), **WRITTEN, ways=("invoke", "ainvoke"))
def messages_of_a_model_state(engine: Engine) -> Any:
    fields: Any = {"messages": (Annotated[list, engine.add_messages], [])}
    model = pydantic.create_model("Chat", **fields)

    def answer(state: Any) -> Any:
        return {"messages": [AIMessage(f"{state.messages[-1].text}!", id="n")]}

    return chat(engine, answer, state=model)


@case(start({"messages": [HumanMessage("one", id="1")]}), start({"other": ["two"]}), **WRITTEN)
def two_lists_of_messages(engine: Engine) -> Any:
    added = Annotated[list, engine.add_messages]
    fields: Any = {"messages": added, "other": NotRequired[added]}
    both = TypedDict("Both", fields)
    return chat(engine, lambda state: {"other": state["messages"][-1:]}, state=both)


@case(HI, start({"messages": "hi"}, stream_mode="messages"), ways=("stream", "astream"), **WRITTEN)
def whole_messages_in_the_stream(engine: Engine) -> Any:
    tool = ToolMessage("t", id="t", tool_call_id="c")
    return chat(
        engine,
        returns(AIMessage("a", id="2"), tool),
        lambda state: {"messages": AIMessage("b", id="b")},
    )


@case(HI)
def what_is_under_a_message_comes_back(engine: Engine) -> Any:
    rich = AIMessage(
        [{"type": "text", "text": "t"}, "plain"],
        id="r",
        name="ada",
        additional_kwargs={"more": [1]},
        response_metadata={"model": "m"},
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        invalid_tool_calls=[
            {"name": "f", "args": "{", "id": "i", "error": "e", "type": "invalid_tool_call"}
        ],
    )
    tool = ToolMessage("t", id="t", tool_call_id="c", artifact={"a": [1]}, status="error")
    return chat(engine, returns(rich, tool), told)
