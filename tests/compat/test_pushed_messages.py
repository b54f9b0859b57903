"""``push_message``: a message in the stream and the state before its node returns."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from .engines import LANGGRAPH, OURS, Engine
from .test_tokens import plain

pytestmark = pytest.mark.filterwarnings("ignore")

HI = {"messages": [HumanMessage("hi", id="1")]}
PUSHED: dict[str, Any] = {
    "langchain": AIMessage("pushed", id="p"),
    "dict": {"role": "assistant", "content": "pushed", "id": "p"},
}


def compile_graph(engine: Engine, node: Any) -> Any:
    graph = engine.StateGraph(engine.MessagesState).add_node("push", node)
    graph.add_node("after", lambda state: {"messages": AIMessage("after", id="a")})
    graph.add_conditional_edges("push", lambda state: "after", ["after"])
    return graph.add_edge(engine.START, "push").compile()


def pushing(engine: Engine, message: Any, returned: Any, **how: Any) -> Any:
    def push(state: Any) -> Any:
        said = engine.push_message(message, **how)
        assert said.content == "pushed"
        return returned

    return push


def alone(engine: Engine) -> Any:
    return compile_graph(engine, pushing(engine, PUSHED["langchain"], None))


def of_a_dict(engine: Engine) -> Any:
    return compile_graph(engine, pushing(engine, PUSHED["dict"], {"messages": []}))


def with_others(engine: Engine) -> Any:
    returned = {"messages": [AIMessage("pushed and returned", id="p"), AIMessage("new", id="n")]}
    return compile_graph(engine, pushing(engine, PUSHED["langchain"], returned))


def streamed_only(engine: Engine) -> Any:
    node = pushing(engine, PUSHED["langchain"], None, state_key=None)
    return compile_graph(engine, node)


def unknown(engine: Engine) -> Any:
    node = pushing(engine, PUSHED["langchain"], None, state_key="nowhere")
    return compile_graph(engine, node)


def asynchronous(engine: Engine) -> Any:
    async def push(state: Any) -> Any:
        engine.push_message(PUSHED["langchain"])
        return {"messages": []}

    return compile_graph(engine, push)


def below(engine: Engine) -> Any:
    return compile_graph(engine, alone(engine))


def within_a_task(engine: Engine, **how: Any) -> Any:
    @engine.task
    def push(text: str) -> Any:
        engine.push_message(AIMessage(text, id="p"), **how)
        return AIMessage("returned", id="r")

    return compile_graph(engine, lambda state: {"messages": push("pushed").result()})


def streamed_in_a_task(engine: Engine) -> Any:
    return within_a_task(engine, state_key=None)


GRAPHS = [
    alone,
    of_a_dict,
    with_others,
    streamed_only,
    unknown,
    below,
    within_a_task,
    streamed_in_a_task,
]
OPTIONS: dict[str, dict[str, Any]] = {
    "messages": {"stream_mode": "messages"},
    "several": {"stream_mode": ["messages", "updates"]},
    "values": {"stream_mode": "values"},
    "subgraphs": {"stream_mode": "messages", "subgraphs": True},
    "v2": {"stream_mode": "messages", "version": "v2"},
}


WAYS = [(build, way) for build in GRAPHS for way in ("stream", "astream")]
WAYS.append((asynchronous, "astream"))
#: What a task pushed is in its caller's update as well, with which it is stored.
CASES = [
    (*way, options) for way in WAYS for options in OPTIONS
    if (way[0], options) != (within_a_task, "several")
]  # fmt: skip


@pytest.mark.parametrize(("build", "way", "options"), CASES)
def test_pushed_message_is_streamed_and_stored_as_in_langgraph(
    build: Any, way: str, options: str
) -> None:
    def result(engine: Engine) -> Any:
        graph = build(engine)

        async def collect() -> list[Any]:
            return [plain(chunk) async for chunk in graph.astream(HI, **OPTIONS[options])]

        if way == "astream":
            return asyncio.run(collect())
        return [plain(chunk) for chunk in graph.stream(HI, **OPTIONS[options])]

    assert result(OURS) == result(LANGGRAPH)


def test_pushed_message_without_id_raises_value_error() -> None:
    for engine in (OURS, LANGGRAPH):
        node = pushing(engine, AIMessage("pushed"), None)
        with pytest.raises(ValueError, match=r"id|ID"):
            compile_graph(engine, node).invoke(HI)


def test_message_pushed_to_unknown_state_key_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="hitl_django"):
        unknown(OURS).invoke(HI)
    assert "pushed a message to 'nowhere', which is not in the state" in caplog.text


@pytest.mark.parametrize("engine", [OURS, LANGGRAPH], ids=["ours", "langgraph"])
def test_message_pushed_by_failed_or_interrupted_attempt_is_not_stored(engine: Engine) -> None:
    tried: list[int] = []

    def push(state: Any) -> Any:
        tried.append(1)
        engine.push_message(AIMessage(f"attempt {len(tried)}", id=f"p{len(tried)}"))
        if len(tried) == 1:
            raise ValueError("not yet")
        return {"messages": [engine.interrupt("?")]} if len(tried) == 2 else None

    graph = engine.StateGraph(engine.MessagesState)
    policy = engine.RetryPolicy(initial_interval=0.001, jitter=False, retry_on=ValueError)
    graph.add_node("push", push, retry_policy=policy).add_edge(engine.START, "push")
    compiled = graph.compile(checkpointer=engine.InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    compiled.invoke(HI, config)
    result = compiled.invoke(engine.Command(resume="yes"), config)
    assert [message.content for message in result["messages"]] == ["hi", "attempt 3"]


def test_message_pushed_by_finished_tool_is_stored_despite_interrupt_of_parallel_tool() -> None:
    """The call that has ended doesn't run again, and what it pushed isn't lost."""

    def push(text: str) -> str:
        OURS.push_message(AIMessage(text, id=text))
        return f"did {text}"

    def ask() -> str:
        return str(OURS.interrupt("?"))

    graph = OURS.StateGraph(OURS.MessagesState)
    graph.add_node("tools", OURS.prebuilt.ToolNode([push, ask]))
    graph = graph.add_edge(OURS.START, "tools").compile(checkpointer=OURS.InMemorySaver())
    asked = [("push", {"text": "a"}), ("ask", {}), ("push", {"text": "b"})]
    calls = [{"name": name, "args": args, "id": f"c{at}"} for at, (name, args) in enumerate(asked)]
    config = {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": [AIMessage("", tool_calls=calls)]}, config)
    result = graph.invoke(OURS.Command(resume="yes"), config)
    said = [message.content for message in result["messages"]]
    assert said == ["", "a", "b", "did a", "yes", "did b"]
