"""Article on the implementation of interrupt: resuming, several interrupts, changed graphs."""

from __future__ import annotations

from typing import Any, TypedDict

from hitl_django import START, Command, StateGraph, interrupt


def values(pending_interrupts: Any) -> list[Any]:
    return [pending.value for pending in pending_interrupts]


class State(TypedDict):
    some_text: str


def test_resumed_run_repeats_only_the_interrupted_node(checkpointer: Any, config: Any) -> None:
    """Follow 5.1: A -> B -> C, where B asks."""
    entered = []

    def a(state: State) -> None:
        entered.append("A")

    def b(state: State) -> Any:
        entered.append("B")
        return {"some_text": interrupt(state["some_text"])}

    def c(state: State) -> None:
        entered.append("C")

    builder = StateGraph(State)
    builder.add_sequence([("A", a), ("B", b), ("C", c)])
    builder.add_edge(START, "A")
    graph = builder.compile(checkpointer=checkpointer)
    asked = graph.invoke({"some_text": "t"}, config)
    (pending,) = asked["__interrupt__"]
    assert pending.value == "t"
    assert graph.get_state(config).next == ("B",)
    assert graph.invoke(Command(resume="u"), config) == {"some_text": "u"}
    assert entered == ["A", "B", "B", "C"]


def asking_twice(checkpointer: Any) -> Any:
    def human_node(state: State) -> Any:
        print(f"[human_node-before] state: {state}")
        for _ in range(2):
            value = interrupt({"text_to_revise": state["some_text"]})
        print(f"[human_node-after] value: {value}")
        return {"some_text": value}

    builder = StateGraph(State)
    builder.add_node("human_node", human_node)
    builder.add_edge(START, "human_node")
    return builder.compile(checkpointer=checkpointer)


def test_second_interrupt_of_a_node_returns_the_second_response(
    checkpointer: Any, config: Any, printed: Any
) -> None:
    """Follow 5.2: the n-th call in the node gets the n-th answer."""
    graph = asking_twice(checkpointer)
    before = "[human_node-before] state: {'some_text': 'original'}"
    payload = {"text_to_revise": "original"}

    (first,) = graph.invoke({"some_text": "original"}, config)["__interrupt__"]
    assert first.value == payload
    assert printed.lines() == [before]
    (second,) = graph.invoke(Command(resume="回复1"), config)["__interrupt__"]
    assert second.value == payload
    assert second.id != first.id
    assert printed.lines() == [before]
    assert graph.invoke(Command(resume="回复2"), config) == {"some_text": "回复2"}
    assert printed.lines() == [before, "[human_node-after] value: 回复2"]


def test_thread_is_resumed_by_a_new_graph_object_with_the_checkpointer(
    checkpointer: Any, config: Any
) -> None:
    """Follow 5.3: the thread is the checkpointer's, whichever graph object reads it."""
    asking_twice(checkpointer).invoke({"some_text": "original"}, config)
    asked = asking_twice(checkpointer).invoke(Command(resume="one"), config)
    assert values(asked["__interrupt__"]) == [{"text_to_revise": "original"}]
    assert asking_twice(checkpointer).invoke(Command(resume="two"), config) == {"some_text": "two"}


def test_thread_with_another_id_has_no_state_or_interrupts(checkpointer: Any, config: Any) -> None:
    """Follow 5.3: another thread_id knows nothing of the question."""
    graph = asking_twice(checkpointer)
    graph.invoke({"some_text": "original"}, config)
    other = {"configurable": {"thread_id": "another"}}
    assert graph.get_state(other).values == {}
    assert graph.get_state(other).interrupts == ()
    assert values(graph.get_state(config).interrupts) == [{"text_to_revise": "original"}]
