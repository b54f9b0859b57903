"""ToolNode compared with LangGraph's: wrappers, error rules, inputs, outputs and injected
arguments.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import InjectedToolCallId, tool

from .engines import LANGGRAPH, OURS, Engine

pytestmark = pytest.mark.filterwarnings("ignore")

WAYS = ["invoke", "ainvoke"]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def fail(word: str) -> str:
    """Fail."""
    raise ValueError(word)


def calling(*calls: tuple[str, dict[str, Any]]) -> AIMessage:
    asked = [{"name": n, "args": a, "id": f"c{at}"} for at, (n, a) in enumerate(calls)]
    return AIMessage("", tool_calls=asked, id="asker")


ADDS = calling(("add", {"a": 1, "b": 2}))
FAILS = calling(("fail", {"word": "no luck"}))


def state_of(engine: Engine) -> Any:
    messages = Annotated[list[Any], engine.add_messages]
    return TypedDict("State", {"messages": messages, "note": str}, total=False)


def typed(function: Callable[..., Any], **hints: Any) -> Any:
    """Return a function with annotations of one engine's classes, as a tool."""
    function.__annotations__.update(hints)
    return tool(function)


def graph_of(engine: Engine, node: Any) -> Any:
    graph = engine.StateGraph(state_of(engine)).add_node("tools", node)
    return graph.add_edge(engine.START, "tools").compile()


def run(graph: Any, value: Any, way: str = "invoke") -> Any:
    return graph.invoke(value) if way == "invoke" else asyncio.run(graph.ainvoke(value))


def plain(value: Any) -> Any:
    """Return the contents of messages; of an exception only its class."""
    if isinstance(value, BaseException):
        return type(value).__name__
    if isinstance(value, ToolMessage):
        return (value.content, value.name, value.tool_call_id, value.status)
    if isinstance(value, BaseMessage):
        return (value.type, value.content)
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list) else value


def outcome(graph: Any, value: Any, way: str) -> Any:
    try:
        return plain(run(graph, value, way))
    except Exception as error:
        return plain(error)


# Wrappers.


def passing(request: Any, execute: Any) -> Any:
    return execute(request)


def doubling(request: Any, execute: Any) -> Any:
    call = request.tool_call
    args = {name: value * 2 for name, value in call["args"].items()}
    return execute(request.override(tool_call={**call, "args": args}))


def short_cut(request: Any, execute: Any) -> Any:
    call = request.tool_call
    return ToolMessage("cached", name=call["name"], tool_call_id=call["id"])


def retrying(request: Any, execute: Any) -> Any:
    first = execute(request)
    again = request.override(tool=add, tool_call={**request.tool_call, "args": {"a": 5, "b": 5}})
    return execute(again) if first.status == "error" else first


def looking(request: Any, execute: Any) -> Any:
    name = request.tool.name if request.tool else None
    said = f"{name} {len(request.state['messages'])} {request.runtime.tool_call_id}"
    said += f" {[each.name for each in request.runtime.tools]}"
    said += f" {request.runtime.config['metadata']['langgraph_node']}"
    return ToolMessage(said, tool_call_id=request.tool_call["id"])


def breaking(request: Any, execute: Any) -> Any:
    raise KeyError("wrapper")


def unregistered(request: Any, execute: Any) -> Any:
    @tool
    def nothing(x: int) -> str:
        """Comes from nowhere."""
        return f"came {x}"

    return execute(request.override(tool=nothing))


WRAPPERS = [passing, doubling, short_cut, retrying, looking, breaking, unregistered]
MESSAGES = {
    "adds": ADDS,
    "fails": FAILS,
    "unknown": calling(("nothing", {"x": 1})),
    "unfit": calling(("add", {"a": "x"})),
    "several": calling(("add", {"a": 1, "b": 2}), ("fail", {"word": "x"}), ("nothing", {})),
}


def make_async(wrap: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper's async form: what it calls is awaited where it can be."""

    async def awrap(request: Any, execute: Any) -> Any:
        loop = asyncio.get_running_loop()

        def call(again: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(execute(again), loop).result()

        return await asyncio.to_thread(wrap, request, call)

    return awrap


@pytest.mark.parametrize("form", ["sync", "async wrapper", "sync wrapper on a loop"])
@pytest.mark.parametrize("rule", [True, False, (KeyError,), "default"], ids=str)
@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("wrap", WRAPPERS, ids=lambda wrap: wrap.__name__)
def test_tool_node_result_with_tool_call_wrapper_matches_langgraph(
    wrap: Callable[..., Any], message: str, rule: Any, form: str
) -> None:
    def result(engine: Engine) -> Any:
        how: dict[str, Any] = {} if rule == "default" else {"handle_tool_errors": rule}
        if form == "async wrapper":
            how["awrap_tool_call"] = make_async(wrap)
        else:
            how["wrap_tool_call"] = wrap
        node = engine.prebuilt.ToolNode([add, fail], **how)
        way = "invoke" if form == "sync" else "ainvoke"
        return outcome(graph_of(engine, node), {"messages": [MESSAGES[message]]}, way)

    assert result(OURS) == result(LANGGRAPH)


def test_tool_node_with_sync_and_async_wrapper_uses_the_async_wrapper_in_async_run() -> None:
    async def awrap(request: Any, execute: Any) -> Any:
        return ToolMessage("async", tool_call_id="c0")

    for engine in (OURS, LANGGRAPH):
        how = {"wrap_tool_call": short_cut, "awrap_tool_call": awrap}
        graph = graph_of(engine, engine.prebuilt.ToolNode([add], **how))
        said = {way: run(graph, {"messages": [ADDS]}, way)["messages"][-1].content for way in WAYS}
        assert said == {"invoke": "cached", "ainvoke": "async"}


def test_tool_node_with_only_async_wrapper_uses_the_wrapper_in_sync_run() -> None:
    """LangGraph makes the call without it, where the run is a sync one."""

    async def refuse(request: Any, execute: Any) -> Any:
        return ToolMessage("refused", tool_call_id="c0")

    said = {
        name: run(
            graph_of(engine, engine.prebuilt.ToolNode([add], awrap_tool_call=refuse)),
            {"messages": [ADDS]},
        )["messages"][-1].content
        for name, engine in (("ours", OURS), ("langgraph", LANGGRAPH))
    }
    assert said == {"ours": "refused", "langgraph": "3"}


def test_tool_call_request_override_returns_a_changed_copy() -> None:
    for engine in (OURS, LANGGRAPH):
        request = engine.tool_node.ToolCallRequest({"name": "a"}, None, {}, None)
        other = request.override(state={"x": 1})
        assert (request.state, other.state) == ({}, {"x": 1})
        with pytest.warns(DeprecationWarning, match="override"):
            request.state = {"y": 1}


# Failures.

RULES: dict[str, Any] = {
    "true": True, "false": False, "none": None, "text": "Try again.", "class": ValueError,
    "others": (KeyError, OSError), "several": (KeyError, ValueError), "empty": (),
    "function": lambda error: "told",
}  # fmt: skip


def told_of_values(error: ValueError) -> str:
    return f"told {error}"


def told_of_either(error: KeyError | ValueError) -> str:
    return "either"


# LangGraph reads a union that is no text alone.
told_of_either.__annotations__["error"] = KeyError | ValueError
RULES |= {"annotated": told_of_values, "union": told_of_either}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("message", ["fails", "unfit", "unknown"])
@pytest.mark.parametrize("rule", RULES)
def test_tool_node_result_with_handle_tool_errors_matches_langgraph(
    rule: str, message: str, way: str
) -> None:
    def result(engine: Engine) -> Any:
        node = engine.prebuilt.ToolNode([add, fail], handle_tool_errors=RULES[rule])
        return outcome(graph_of(engine, node), {"messages": [MESSAGES[message]]}, way)

    assert result(OURS) == result(LANGGRAPH)


def test_handle_tool_errors_function_receives_tool_name_and_invalid_arguments() -> None:
    for engine in (OURS, LANGGRAPH):
        caught: list[Any] = []
        unfit = engine.tool_node.ToolInvocationError

        def take(error: Any, caught: list[Any] = caught) -> str:
            caught.append(error)
            return "told"

        take.__annotations__["error"] = unfit
        graph = graph_of(engine, engine.prebuilt.ToolNode([add], handle_tool_errors=take))
        run(graph, {"messages": [MESSAGES["unfit"]]})
        (error,) = caught
        assert (error.tool_name, error.tool_kwargs) == ("add", {"a": "x"})
        assert [fault["loc"] for fault in error.filtered_errors] == [("a",), ("b",)]


# Inputs and outputs.


@tool
def several(tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
    """Return two messages."""
    return [
        ToolMessage("one", tool_call_id=tool_call_id, name="several"),
        ToolMessage("two", tool_call_id="other", name="several"),
    ]


BLOCK = {"type": "text", "text": "x"}
RETURNED: list[Any] = [
    [], (), "", "ä", None, 1.5, (1, 2), {"k": "ä"}, ["a"], [BLOCK], (BLOCK,), [BLOCK, "a"],
    [{"type": "odd"}], {1}, b"x", ToolMessage([1, 2], tool_call_id="c0"),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["function", "langchain tool"])
@pytest.mark.parametrize("returned", RETURNED, ids=repr)
def test_tool_return_value_becomes_message_content_of_langgraph(returned: Any, kind: str) -> None:
    def give() -> Any:
        """Give it."""
        return returned.model_copy() if isinstance(returned, ToolMessage) else returned

    def result(engine: Engine) -> Any:
        node = engine.prebuilt.ToolNode([give if kind == "function" else tool(give)])
        last = run(graph_of(engine, node), {"messages": [calling(("give", {}))]})["messages"][-1]
        return last.content, last.name

    assert result(OURS) == result(LANGGRAPH)


@pytest.mark.parametrize("way", WAYS)
def test_tool_node_result_of_tool_returning_several_messages_matches_langgraph(way: str) -> None:
    def result(engine: Engine) -> Any:
        node = engine.prebuilt.ToolNode([several, add])
        message = calling(("several", {}), ("add", {"a": 1, "b": 1}))
        return outcome(graph_of(engine, node), {"messages": [message]}, way)

    assert result(OURS) == result(LANGGRAPH)


@pytest.mark.parametrize("way", WAYS)
def test_message_in_command_of_a_tool_gets_the_name_of_the_tool(way: str) -> None:
    def result(engine: Engine) -> Any:
        @tool
        def remember(text: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
            """Remember a text."""
            done = ToolMessage("noted", tool_call_id=tool_call_id)
            return engine.Command(update={"note": text, "messages": [done]})

        node = engine.prebuilt.ToolNode([remember])
        message = calling(("remember", {"text": "x"}))
        return outcome(graph_of(engine, node), {"messages": [message]}, way)

    assert result(OURS) == result(LANGGRAPH)


@pytest.mark.parametrize("way", WAYS)
def test_parallel_tools_that_return_parent_commands_with_sends_run_every_send(way: str) -> None:
    """An agent hands over to several other agents simultaneously."""

    def result(engine: Engine) -> Any:
        @tool
        def hand_over(to: str) -> Any:
            """Hand over."""
            sent = [engine.Send("next", {"note": to})]
            return engine.Command(graph=engine.Command.PARENT, goto=sent)

        agent = graph_of(engine, engine.prebuilt.ToolNode([hand_over]))
        parent = engine.StateGraph(state_of(engine)).add_node("agent", agent)
        parent.add_node("next", lambda state: {"messages": [HumanMessage(state["note"])]})
        graph = parent.add_edge(engine.START, "agent").compile()
        message = calling(("hand_over", {"to": "a"}), ("hand_over", {"to": "b"}))
        return outcome(graph, {"messages": [message]}, way)

    assert result(OURS) == result(LANGGRAPH)
    assert result(OURS)["messages"][1:] == [("human", "a"), ("human", "b")]


def test_parallel_tools_that_return_parent_commands_with_updates_apply_every_update() -> None:
    """LangGraph drops the updates when it merges the commands."""

    @tool
    def hand_over(to: str) -> Any:
        """Hand over."""
        update = {"messages": [HumanMessage(to)]}
        return OURS.Command(graph=OURS.Command.PARENT, goto="next", update=update)

    agent = graph_of(OURS, OURS.prebuilt.ToolNode([hand_over]))
    parent = OURS.StateGraph(state_of(OURS)).add_node("agent", agent)
    parent.add_node("next", lambda state: {"note": "there"})
    graph = parent.add_edge(OURS.START, "agent").compile()
    message = calling(("hand_over", {"to": "a"}), ("hand_over", {"to": "b"}))
    result = run(graph, {"messages": [message]})
    assert [said.content for said in result["messages"]] == ["", "a", "b"]
    assert result["note"] == "there"


def test_tool_node_with_messages_key_reads_and_writes_the_key() -> None:
    def result(engine: Engine) -> Any:
        talk = Annotated[list[Any], engine.add_messages]
        node = engine.prebuilt.ToolNode([add], messages_key="talk")
        graph = engine.StateGraph(TypedDict("State", {"talk": talk})).add_node("tools", node)
        graph.add_node("more", lambda state: {})
        graph.add_edge(engine.START, "tools").add_edge("tools", "more")
        condition = engine.prebuilt.tools_condition
        assert condition({"talk": [ADDS]}, messages_key="talk") == "tools"
        return plain(graph.compile().invoke({"talk": [ADDS]}))

    assert result(OURS) == result(LANGGRAPH)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["with state", "calls"])
def test_tool_node_result_of_calls_in_send_with_and_without_state_matches_langgraph(
    kind: str, way: str
) -> None:
    def result(engine: Engine) -> Any:
        def look(state: Any) -> str:
            """Look at the state."""
            return f"{state['note']} {len(state['messages'])}"

        seeing = typed(look, state=Annotated[dict, engine.prebuilt.InjectedState])

        def send(state: Any) -> Any:
            (call,) = state["messages"][-1].tool_calls
            if kind == "calls":
                return [engine.Send("tools", [call])]
            context = {"__type": "tool_call_with_context", "tool_call": call, "state": state}
            return [engine.Send("tools", context)]

        graph = engine.StateGraph(state_of(engine))
        graph.add_node("tools", engine.prebuilt.ToolNode([seeing]))
        graph.add_conditional_edges(engine.START, send, ["tools"])
        return outcome(graph.compile(), {"messages": [calling(("look", {}))], "note": "n"}, way)

    assert result(OURS) == result(LANGGRAPH)


# What tools get.


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("note", ["there", None])
@pytest.mark.parametrize("kind", ["needed", "optional", "store", "runtime"])
def test_tool_node_result_of_injected_arguments_with_and_without_value_matches_langgraph(
    kind: str, note: Any, way: str
) -> None:
    def result(engine: Engine) -> Any:
        injected = engine.prebuilt.InjectedState("note")

        def needed(note: str) -> str:
            """Needs it."""
            return note

        def optional(note: str = "default") -> str:
            """May do without."""
            return note

        def store(store: Any) -> str:
            """Needs a store."""
            return "there is one"

        def runtime(runtime: Any) -> str:
            """Look around."""
            names = [each.name for each in runtime.tools]
            info = runtime.execution_info
            runtime.emit_output_delta("nobody hears")
            return f"{names} {info.node_attempt} {runtime.server_info}"

        tools = {
            "needed": typed(needed, note=Annotated[str, injected]),
            "optional": typed(optional, note=Annotated[str, injected]),
            "store": typed(store, store=Annotated[Any, engine.prebuilt.InjectedStore()]),
            "runtime": typed(runtime, runtime=engine.prebuilt.ToolRuntime),
        }
        node = engine.prebuilt.ToolNode([tools[kind]])
        given = {"messages": [calling((kind, {}))], **({} if note is None else {"note": note})}
        return outcome(graph_of(engine, node), given, way)

    assert result(OURS) == result(LANGGRAPH)


NAMES = [
    "ToolNode", "tools_condition", "InjectedState", "InjectedStore", "ToolRuntime",
    "ToolCallRequest", "ToolInvocationError",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_tool_node_signatures_match_langgraph(name: str) -> None:
    ours, theirs = (getattr(engine.tool_node, name) for engine in (OURS, LANGGRAPH))
    assert parameters(ours) == parameters(theirs)


def parameters(function: Any) -> list[tuple[str, Any]]:
    return [(each.name, each.kind) for each in inspect.signature(function).parameters.values()]


# Use as a Runnable.


def same(value: Any) -> Any:
    return value


RUNNABLES: dict[str, Callable[[Any], Any]] = {
    "pipe": lambda node: node | RunnableLambda(same),
    "pipe from": lambda node: same | node,
    "bind": lambda node: node.bind(),
    "pick": lambda node: node.pick("messages") | RunnableLambda(lambda found: {"messages": found}),
    "with_config": lambda node: node.with_config(tags=["x"]),
    "with_retry": lambda node: node.with_retry(),
    "with_fallbacks": lambda node: node.with_fallbacks([RunnableLambda(same)]),
    "batch": lambda node: lambda state: node.batch([state])[0],
    "stream": lambda node: lambda state: next(node.stream(state)),
}


@pytest.mark.parametrize("make", RUNNABLES.values(), ids=RUNNABLES)
def test_tool_node_used_as_runnable_matches_langgraph(make: Callable[[Any], Any]) -> None:
    found = []
    for engine in (OURS, LANGGRAPH):
        node = engine.tool_node.ToolNode([add])
        graph = graph_of(engine, make(node))
        found.append((isinstance(node, Runnable), outcome(graph, {"messages": [ADDS]}, "invoke")))
    assert found[0] == found[1]
    assert found[0][1]["messages"][-1] == ("3", "add", "c0", "success")


def test_chain_with_tool_node_draws_graph_and_describes_input_without_errors() -> None:
    chain = OURS.tool_node.ToolNode([add]) | RunnableLambda(same)
    assert len(chain.get_graph().nodes) == 4
    assert chain.get_input_jsonschema()["title"] == "tools_input"
