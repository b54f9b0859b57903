"""ToolNode and tools_condition, which the agents of the articles use."""

from __future__ import annotations

import asyncio
import json
import operator
import threading
from typing import Annotated, Any, TypedDict

import pytest
from asgiref.sync import async_to_sync
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from pydantic import BaseModel, ValidationError

from hitl_django import START, Command, StateGraph, interrupt, once
from hitl_django.contrib.agents import HumanInterrupt, HumanResponse, ToolNode, tools_condition
from hitl_django.engine.errors import InvalidAnswerError
from hitl_django.engine.state.messages import add_messages
from hitl_django.engine.task.node_api import get_stream_writer
from hitl_django.engine.types import Send


class Chat(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]
    note: str


def calling(*calls: tuple[str, dict[str, Any]], kind: str = "dict") -> Any:
    """A message of a model that calls tools; the ids are c0, c1, ..."""
    asked = [{"name": n, "args": a, "id": f"c{at}"} for at, (n, a) in enumerate(calls)]
    if kind == "dict":
        return {"role": "assistant", "content": "", "tool_calls": asked}
    if kind == "openai":
        functions = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["args"])},
            }
            for call in asked
        ]
        return {"role": "assistant", "content": "", "tool_calls": functions}
    return AIMessage("", tool_calls=asked)


def graph_of(node: ToolNode, checkpointer: Any = None) -> Any:
    builder = StateGraph(Chat)
    builder.add_node("tools", node)
    builder.add_edge(START, "tools")
    return builder.compile(checkpointer=checkpointer)


def contents(result: Any) -> list[Any]:
    """What the tools said, whatever kind of messages they said it in."""
    return [
        message["content"] if isinstance(message, dict) else message.content
        for message in result["messages"]
        if isinstance(message, ToolMessage)
        or (isinstance(message, dict) and message["role"] == "tool")
    ]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize("kind", ["dict", "openai", "langchain"])
@pytest.mark.parametrize("tools", [[add], [tool(add)]], ids=["function", "langchain tool"])
def test_tool_message_has_the_format_of_the_message_with_the_call(
    kind: str, tools: Any, request: pytest.FixtureRequest
) -> None:
    if kind != "langchain":
        request.getfixturevalue("without_langchain")
    message = calling(("add", {"a": 1, "b": 2}), kind=kind)
    result = graph_of(ToolNode(tools)).invoke({"messages": [message]})
    last = result["messages"][-1]
    if kind == "langchain":
        assert isinstance(last, ToolMessage)
        assert (last.content, last.name, last.tool_call_id) == ("3", "add", "c0")
    else:
        assert {**last, "id": None} == {
            "role": "tool",
            "content": "3",
            "name": "add",
            "tool_call_id": "c0",
            "id": None,
        }


def test_parallel_tool_calls_return_results_in_call_order() -> None:
    meet = threading.Barrier(2, timeout=60)

    def first() -> str:
        meet.wait()
        return "first"

    def second() -> str:
        meet.wait()
        return "second"

    message = calling(("second", {}), ("first", {}))
    result = graph_of(ToolNode([first, second])).invoke({"messages": [message]})
    assert contents(result) == ["second", "first"]


def test_parallel_async_tool_calls_resume_by_interrupt_id(checkpointer: Any, config: Any) -> None:
    async def example() -> Any:
        meet = asyncio.Event()

        async def waits(name: str) -> str:
            await asyncio.wait_for(meet.wait(), 60)
            return interrupt(f"for {name}?")

        def opens() -> str:
            loop.call_soon_threadsafe(meet.set)
            return "open"

        loop = asyncio.get_running_loop()
        graph = graph_of(ToolNode([waits, opens]), checkpointer)
        message = calling(("waits", {"name": "x"}), ("opens", {}), ("waits", {"name": "y"}))
        asked = await graph.ainvoke({"messages": [message]}, config)
        x, y = asked["__interrupt__"]
        assert (x.value, y.value) == ("for x?", "for y?")
        return await graph.ainvoke(Command(resume={y.id: "Y", x.id: "X"}), config)

    assert contents(async_to_sync(example)()) == ["X", "open", "Y"]


@pytest.mark.parametrize("kind", ["function", "langchain tool"])
def test_async_tool_interrupts_and_resumes_in_sync_run(
    checkpointer: Any, config: Any, kind: str
) -> None:
    """As a worker runs them."""

    async def later(name: str) -> str:
        """Ask later."""
        await asyncio.sleep(0)
        return interrupt(f"{name}?")

    graph = graph_of(ToolNode([later if kind == "function" else tool(later)]), checkpointer)
    message = calling(("later", {"name": "a"}), ("later", {"name": "b"}))
    asked = graph.invoke({"messages": [message]}, config)["__interrupt__"]
    assert [q.value for q in asked] == ["a?", "b?"]
    result = graph.invoke(Command(resume={q.id: q.value.upper() for q in asked}), config)
    assert contents(result) == ["A?", "B?"]


def test_async_tool_in_sync_invoke_inside_event_loop_raises_type_error() -> None:
    async def later() -> str:
        return "x"

    graph = graph_of(ToolNode([later]))

    async def example() -> Any:
        return graph.invoke({"messages": [calling(("later", {}))]})

    with pytest.raises(TypeError, match="ainvoke"):
        asyncio.run(example())


def approved(name: str) -> str:
    answer = interrupt({"approve": name})
    return f"{name}: {answer}"


def test_parallel_tool_call_interrupts_resume_in_any_order_without_repeating_finished_calls(
    checkpointer: Any, config: Any
) -> None:
    """Answers reach the call that asked, one at a time and in any order."""
    finished = []

    def act(name: str) -> str:
        finished.append(name)
        return f"did {name}"

    graph = graph_of(ToolNode([approved, act]), checkpointer)
    message = calling(
        ("approved", {"name": "a"}), ("act", {"name": "b"}), ("approved", {"name": "c"})
    )
    first, second = graph.invoke({"messages": [message]}, config)["__interrupt__"]
    assert (first.value, second.value) == ({"approve": "a"}, {"approve": "c"})

    (waiting,) = graph.invoke(Command(resume={second.id: "yes"}), config)["__interrupt__"]
    assert waiting == first
    result = graph.invoke(Command(resume="no"), config)
    assert contents(result) == ["a: no", "did b", "c: yes"]
    # A call that had ended wasn't run again.
    assert finished == ["b"]


def test_finished_tool_call_with_arguments_changed_before_resume_runs_again(
    checkpointer: Any, config: Any
) -> None:
    def act(name: str) -> str:
        return f"did {name}"

    graph = graph_of(ToolNode([approved, act]), checkpointer)
    calls = [("approved", {"name": "a"}), ("act", {"name": "b"})]
    message = {**calling(*calls), "id": "m"}
    graph.invoke({"messages": [message]}, config)
    changed = {**calling(calls[0], ("act", {"name": "c"})), "id": "m"}
    result = graph.invoke(Command(resume="yes", update={"messages": [changed]}), config)
    assert contents(result) == ["a: yes", "did c"]


def test_each_of_two_parallel_tools_with_two_interrupts_receives_both_of_its_responses(
    checkpointer: Any, config: Any
) -> None:
    def ask_twice(name: str) -> str:
        return f"{interrupt('one ' + name)} {interrupt('two ' + name)}"

    graph = graph_of(ToolNode([ask_twice]), checkpointer)
    message = calling(("ask_twice", {"name": "a"}), ("ask_twice", {"name": "b"}))
    asked = graph.invoke({"messages": [message]}, config)["__interrupt__"]
    assert [q.value for q in asked] == ["one a", "one b"]
    answers = {q.id: q.value.upper() for q in asked}
    asked = graph.invoke(Command(resume=answers), config)["__interrupt__"]
    assert [q.value for q in asked] == ["two a", "two b"]
    answers = {q.id: q.value.upper() for q in asked}
    assert contents(graph.invoke(Command(resume=answers), config)) == [
        "ONE A TWO A",
        "ONE B TWO B",
    ]


@pytest.mark.parametrize("kind", ["dict", "langchain"])
def test_langchain_tool_calls_interrupt_and_resume_by_id(
    checkpointer: Any, config: Any, kind: str
) -> None:
    graph = graph_of(ToolNode([tool(approved, description="Ask.")]), checkpointer)
    message = calling(("approved", {"name": "a"}), ("approved", {"name": "b"}), kind=kind)
    asked = graph.invoke({"messages": [message]}, config)["__interrupt__"]
    assert len(asked) == 2
    result = graph.invoke(Command(resume={asked[0].id: "yes", asked[1].id: "no"}), config)
    assert contents(result) == ["a: yes", "b: no"]


def test_interrupt_in_tool_with_handle_tool_errors_pauses_the_run(
    checkpointer: Any, config: Any
) -> None:
    graph = graph_of(ToolNode([approved], handle_tool_errors=True), checkpointer)
    asked = graph.invoke({"messages": [calling(("approved", {"name": "a"}))]}, config)
    assert [q.value for q in asked["__interrupt__"]] == [{"approve": "a"}]


def test_interrupt_caught_by_bare_except_in_tool_is_pending_and_resumes(
    checkpointer: Any, config: Any
) -> None:
    def careless(name: str) -> str:
        try:
            return interrupt(name)
        except:  # noqa: E722 - what it is about
            return "swallowed"

    graph = graph_of(ToolNode([careless, approved]), checkpointer)
    message = calling(("careless", {"name": "a"}), ("approved", {"name": "b"}))
    asked = graph.invoke({"messages": [message]}, config)["__interrupt__"]
    by_value = {str(q.value): q.id for q in asked}
    answers = {by_value["a"]: "A", by_value["{'approve': 'b'}"]: "B"}
    assert contents(graph.invoke(Command(resume=answers), config)) == ["A", "b: B"]


def test_response_violating_schema_in_tool_raises_error_and_keeps_the_interrupt_pending(
    checkpointer: Any, config: Any
) -> None:
    class Approval(BaseModel):
        approved: bool

    def ask() -> str:
        return str(interrupt("?", response_schema=Approval).approved)

    graph = graph_of(ToolNode([ask], handle_tool_errors=True), checkpointer)
    graph.invoke({"messages": [calling(("ask", {}))]}, config)
    with pytest.raises(InvalidAnswerError):
        graph.invoke(Command(resume={"approved": "perhaps"}), config)
    assert [q.value for q in graph.get_state(config).interrupts] == ["?"]
    assert contents(graph.invoke(Command(resume={"approved": True}), config)) == ["True"]


def test_function_passed_to_once_runs_once_per_parallel_tool_call(
    checkpointer: Any, config: Any
) -> None:
    charged = []

    def charge(name: str) -> str:
        once("charge", charged.append, name)
        return f"{name} {interrupt(name)}"

    graph = graph_of(ToolNode([charge]), checkpointer)
    message = calling(("charge", {"name": "a"}), ("charge", {"name": "b"}))
    asked = graph.invoke({"messages": [message]}, config)["__interrupt__"]
    graph.invoke(Command(resume={q.id: "ok" for q in asked}), config)
    assert sorted(charged) == ["a", "b"]


def test_function_passed_to_once_runs_once_per_parallel_tool_call_of_async_run(
    checkpointer: Any, config: Any
) -> None:
    # In an async run, a sync tool runs on its own OS thread.
    charged: list[str] = []

    def charge(name: str) -> str:
        once("charge", charged.append, name)
        return interrupt(name)

    graph = graph_of(ToolNode([charge]), checkpointer)
    message = calling(("charge", {"name": "a"}), ("charge", {"name": "b"}))

    async def example() -> Any:
        asked = (await graph.ainvoke({"messages": [message]}, config))["__interrupt__"]
        return await graph.ainvoke(Command(resume={q.id: "ok" for q in asked}), config)

    assert contents(async_to_sync(example)()) == ["ok", "ok"]
    assert sorted(charged) == ["a", "b"]


def test_subgraphs_called_by_parallel_tool_calls_resume_separately(
    checkpointer: Any, config: Any
) -> None:
    inner = StateGraph(Chat)
    inner.add_node("ask", lambda state: {"note": interrupt(state["note"])})
    inner.add_edge(START, "ask")
    child = inner.compile()

    def delegate(name: str) -> str:
        return child.invoke({"note": name})["note"]

    graph = graph_of(ToolNode([delegate]), checkpointer)
    message = calling(("delegate", {"name": "a"}), ("delegate", {"name": "b"}))
    asked = graph.invoke({"messages": [message]}, config)["__interrupt__"]
    assert [q.value for q in asked] == ["a", "b"]
    (left,) = graph.invoke(Command(resume={asked[1].id: "B"}), config)["__interrupt__"]
    assert left.value == "a"
    assert contents(graph.invoke(Command(resume="A"), config)) == ["A", "B"]


# Wrappers.


def leave_first(request: Any, execute: Any) -> Any:
    """Ask for leave, and then makes the call."""
    if interrupt({"allow": request.tool_call["args"]["name"]}) == "no":
        return ToolMessage("refused", tool_call_id=request.tool_call["id"])
    return execute(request)


async def aleave_first(request: Any, execute: Any) -> Any:
    if interrupt({"allow": request.tool_call["args"]["name"]}) == "no":
        return ToolMessage("refused", tool_call_id=request.tool_call["id"])
    return await execute(request)


WRAPPED = {
    "sync": {"wrap_tool_call": leave_first},
    "async": {"awrap_tool_call": aleave_first},
}


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("form", WRAPPED)
def test_tool_call_wrapper_interrupt_is_pending_before_the_interrupt_of_its_tool(
    checkpointer: Any, config: Any, form: str, way: str
) -> None:
    node = ToolNode([approved], handle_tool_errors=True, **WRAPPED[form])  # type: ignore[arg-type]
    graph = graph_of(node, checkpointer)
    call = graph.invoke if way == "invoke" else async_to_sync(graph.ainvoke)
    message = calling(("approved", {"name": "a"}), ("approved", {"name": "b"}), kind="langchain")
    first, second = call({"messages": [message]}, config)["__interrupt__"]
    assert (first.value, second.value) == ({"allow": "a"}, {"allow": "b"})

    asked = call(Command(resume={first.id: "yes", second.id: "no"}), config)["__interrupt__"]
    assert [payload.value for payload in asked] == [{"approve": "a"}]
    result = call(Command(resume="fine"), config)
    assert contents(result) == ["a: fine", "refused"]


def test_tool_call_wrapper_executing_twice_gets_the_first_response_from_both_executions(
    checkpointer: Any, config: Any
) -> None:
    asked: list[Any] = []

    def twice(request: Any, execute: Any) -> Any:
        asked.append(execute(request).content)
        return execute(request)

    graph = graph_of(ToolNode([approved], wrap_tool_call=twice), checkpointer)
    message = calling(("approved", {"name": "a"}), kind="langchain")
    graph.invoke({"messages": [message]}, config)
    graph.invoke(Command(resume="one"), config)
    result = graph.invoke(Command(resume="two"), config)
    assert contents(result) == ["a: two"]
    assert asked == ["a: one", "a: one"]


# Failures.


def failing() -> str:
    raise ValueError("no luck")


def picky(error: ValueError) -> str:
    return f"picked {error}"


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (True, "Error: ValueError('no luck')\n Please fix your mistakes."),
        ("Try again.", "Try again."),
        (ValueError, "Error: ValueError('no luck')\n Please fix your mistakes."),
        ((KeyError, ValueError), "Error: ValueError('no luck')\n Please fix your mistakes."),
        (picky, "picked no luck"),
        (lambda error: "any", "any"),
    ],
)
@pytest.mark.parametrize("kind", ["dict", "langchain"])
def test_tool_error_with_matching_handle_tool_errors_is_returned_to_the_model(
    rule: Any, said: str, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind != "langchain":
        request.getfixturevalue("without_langchain")
    node = ToolNode([failing], handle_tool_errors=rule)
    last = graph_of(node).invoke({"messages": [calling(("failing", {}), kind=kind)]})["messages"][
        -1
    ]
    assert contents({"messages": [last]}) == [said]
    assert (last["status"] if kind == "dict" else last.status) == "error"


@pytest.mark.parametrize("rule", [None, False, KeyError, (KeyError, OSError)])
def test_tool_error_without_matching_handle_tool_errors_is_raised(rule: Any) -> None:
    node = ToolNode([failing], handle_tool_errors=rule)
    with pytest.raises(ValueError, match="no luck"):
        graph_of(node).invoke({"messages": [calling(("failing", {}))]})


@pytest.mark.parametrize("tools", [[add], [tool(add)]], ids=["function", "langchain tool"])
def test_tool_call_with_invalid_arguments_or_unknown_tool_is_returned_as_error(tools: Any) -> None:
    messages = [calling(("add", {"a": 1}), ("nothing", {}))]
    unfit, unknown = contents(graph_of(ToolNode(tools)).invoke({"messages": messages}))
    assert unfit == (
        "Error invoking tool 'add' with kwargs {'a': 1} with error:\n b: Field required\n "
        "Please fix the error and try again."
    )
    assert unknown == "Error: nothing is not a valid tool, try one of [add]."


def test_tool_call_arguments_are_coerced_to_annotations_and_unknown_arguments_dropped() -> None:
    """A model often gives texts for numbers, and names that nobody asked for."""
    message = calling(("add", {"a": "1", "b": 2, "c": 3}), ("add", {"a": "x", "b": 2}))
    fits, unfit = contents(graph_of(ToolNode([add])).invoke({"messages": [message]}))
    assert fits == "3"
    assert "\n a: Input should be a valid int" in unfit


def test_tool_function_with_variable_keywords_receives_all_arguments() -> None:
    def anything(first: int = 7, **rest: Any) -> Any:
        return {"first": first, **rest}

    message = calling(("anything", {"x": 1, "_y": 2}), ("anything", {"first": "8"}))
    assert contents(graph_of(ToolNode([anything])).invoke({"messages": [message]})) == [
        '{"first": 7, "x": 1, "_y": 2}',
        '{"first": 8}',
    ]


def test_validation_error_raised_inside_a_tool_is_raised_by_the_graph() -> None:
    class Strict(BaseModel):
        count: int

    def parse() -> Any:
        return Strict(count="many")  # type: ignore[arg-type]

    with pytest.raises(ValidationError):
        graph_of(ToolNode([parse])).invoke({"messages": [calling(("parse", {}))]})


def test_tool_returning_content_blocks_has_the_blocks_as_message_content() -> None:
    def draw() -> Any:
        return [{"type": "text", "text": "a cat"}]

    for kind in ("dict", "langchain"):
        message = calling(("draw", {}), kind=kind)
        result = graph_of(ToolNode([draw])).invoke({"messages": [message]})
        assert contents(result) == [[{"type": "text", "text": "a cat"}]]


@pytest.mark.usefixtures("without_langchain")
def test_tool_call_with_malformed_json_arguments_is_returned_as_error() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{oops"}}
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    (said,) = contents(graph_of(ToolNode([add])).invoke({"messages": [message]}))
    assert said == "Error: the arguments of add must be a JSON object."


def test_failed_parallel_tool_call_is_retried_without_repeating_finished_calls(
    checkpointer: Any, config: Any
) -> None:
    """The run goes on with the failed call alone."""
    ran = []

    def steady() -> str:
        ran.append("steady")
        return "done"

    def shaky() -> str:
        ran.append("shaky")
        if len(ran) < 3:
            raise ValueError("not yet")
        return "done too"

    graph = graph_of(ToolNode([steady, shaky]), checkpointer)
    with pytest.raises(ValueError, match="not yet"):
        graph.invoke({"messages": [calling(("steady", {}), ("shaky", {}))]}, config)
    assert contents(graph.invoke(None, config)) == ["done", "done too"]
    assert sorted(ran) == ["shaky", "shaky", "steady"]


@pytest.mark.parametrize("rule", [3, [ValueError]])
def test_tool_node_with_invalid_handle_tool_errors_raises_value_error(rule: Any) -> None:
    with pytest.raises(ValueError, match="handle_tool_errors"):
        ToolNode([add], handle_tool_errors=rule)


def test_tool_node_with_a_string_as_tool_raises_type_error() -> None:
    with pytest.raises(TypeError, match="Expected a tool or a function"):
        ToolNode(["add"])


# What goes in and comes out.


def test_tool_returning_command_updates_the_state() -> None:
    def remember(text: str) -> Any:
        return Command(update={"note": text})

    message = calling(("remember", {"text": "x"}), ("add", {"a": 1, "b": 1}))
    result = graph_of(ToolNode([remember, add])).invoke({"messages": [message]})
    assert result["note"] == "x"
    assert contents(result) == ["2"]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("several", [False, True])
def test_langchain_tool_returning_command_updates_the_state(way: str, several: bool) -> None:
    """langchain knows only LangGraph's Command, and would make a text of ours."""

    @tool
    def remember(text: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Remember a text."""
        done = ToolMessage("noted", tool_call_id=tool_call_id)
        if several:
            return [Command(update={"note": text}), done]
        return Command(update={"note": text, "messages": [done]})

    graph = graph_of(ToolNode([remember, add]))
    message = calling(("remember", {"text": "x"}), ("add", {"a": 1, "b": 1}), kind="langchain")
    call = graph.invoke if way == "invoke" else async_to_sync(graph.ainvoke)
    result = call({"messages": [message]})
    assert result["note"] == "x"
    assert contents(result) == ["noted", "2"]


def test_tool_calls_started_with_send_objects_interrupt_and_resume_by_interrupt_id(
    checkpointer: Any, config: Any
) -> None:
    """Each Send is a task of its own: an answered call doesn't wait for the others."""

    def each(state: Chat) -> list[Send]:
        calls = state["messages"][-1].tool_calls
        return [Send("tools", [call]) for call in calls]

    builder = StateGraph(Chat)
    builder.add_node("tools", ToolNode([approved]))
    builder.add_conditional_edges(START, each, ["tools"])
    graph = builder.compile(checkpointer=checkpointer)
    message = calling(("approved", {"name": "a"}), ("approved", {"name": "b"}))
    asked = graph.invoke({"messages": [message]}, config)["__interrupt__"]
    assert [q.value["approve"] for q in asked] == ["a", "b"]
    result = graph.invoke(Command(resume={q.id: "yes" for q in asked}), config)
    assert contents(result) == ["a: yes", "b: yes"]


def test_tool_node_invoked_without_a_graph_returns_tool_messages() -> None:
    node = ToolNode([add])
    message = calling(("add", {"a": 1, "b": 1}), kind="langchain")
    (direct,) = node.invoke([message])
    assert direct.content == "2"
    assert async_to_sync(node.ainvoke)({"messages": [message]})["messages"][0].content == "2"
    call = {"type": "tool_call", "name": "add", "args": {"a": 1, "b": 2}, "id": "c"}
    assert contents(node.invoke([call])) == ["3"]
    with pytest.raises(ValueError, match="No AI message"):
        node.invoke({"messages": [{"role": "user", "content": "hi"}]})


@pytest.mark.parametrize(
    ("state", "way"),
    [
        ({"messages": [calling(("add", {}))]}, "tools"),
        ([calling(("add", {}), kind="langchain")], "tools"),
        ({"messages": [{"role": "assistant", "content": "done"}]}, "__end__"),
        ([AIMessage("done")], "__end__"),
    ],
)
def test_tools_condition_returns_tools_or_end_by_the_last_message(state: Any, way: str) -> None:
    assert tools_condition(state) == way


def test_tools_condition_without_messages_raises_value_error() -> None:
    with pytest.raises(ValueError, match="No messages found in input state to tool_edge"):
        tools_condition({"messages": []})


def test_human_interrupt_dict_as_payload_resumes_with_human_response_dict(
    checkpointer: Any, config: Any
) -> None:
    """HumanInterrupt and HumanResponse describe a question and its answer."""

    def ask(state: Chat) -> Any:
        request: HumanInterrupt = {
            "action_request": {"action": "send", "args": {"to": "a"}},
            "config": {
                "allow_ignore": True,
                "allow_respond": True,
                "allow_edit": False,
                "allow_accept": True,
            },
            "description": "Send it?",
        }
        response: HumanResponse = interrupt([request])[0]
        return {"note": response["type"]}

    builder = StateGraph(Chat)
    builder.add_node(ask)
    builder.add_edge(START, "ask")
    graph = builder.compile(checkpointer=checkpointer)
    (payload,) = graph.invoke({"note": ""}, config)["__interrupt__"]
    assert payload.value[0]["action_request"]["action"] == "send"
    answer: list[HumanResponse] = [{"type": "accept", "args": None}]
    assert graph.invoke(Command(resume=answer), config)["note"] == "accept"


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def test_subgraphs_of_parallel_tools_in_parallel_nodes_surface_all_interrupts(
    checkpointer: Any, config: Any
) -> None:
    """An agent as a node, two calls of it side by side, two nodes side by side in each."""
    did: list[str] = []

    def asking(name: str) -> Any:
        def ask(state: Log) -> Log:
            payload = f"{state['log'][0]}{name}"
            once(name, did.append, payload)
            get_stream_writer()(payload)
            return {"log": [interrupt(payload)]}

        return ask

    builder = StateGraph(Log)
    for name in "xy":
        builder.add_node(name, asking(name))
        builder.add_edge(START, name)
    child = builder.compile()

    def delegate(to: str) -> str:
        return " ".join(child.invoke({"log": [to]})["log"])

    parent = StateGraph(Chat)
    parent.add_node("agent", graph_of(ToolNode([delegate])))
    parent.add_edge(START, "agent")
    graph = parent.compile(checkpointer=checkpointer)
    message = calling(("delegate", {"to": "1"}), ("delegate", {"to": "2"}))
    chunks = graph.stream({"messages": [message]}, config, stream_mode="custom", subgraphs=True)
    assert sorted(data for _, data in chunks) == ["1x", "1y", "2x", "2y"]

    asked = graph.get_state(config).interrupts
    assert [q.value for q in asked] == ["1x", "1y", "2x", "2y"]
    *others, last = asked
    for payload in reversed(others):
        graph.invoke(Command(resume={payload.id: payload.value.upper()}), config)
    assert graph.get_state(config).interrupts == (last,)
    assert contents(graph.invoke(Command(resume="2Y"), config)) == ["1 1X 1Y", "2 2X 2Y"]
    assert sorted(did) == ["1x", "1y", "2x", "2y"]
