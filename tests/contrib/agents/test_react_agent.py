"""Agents without LangChain: custom models and messages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from hitl_django.contrib.agents import ToolNode, create_react_agent
from hitl_django.engine import bridges
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.state.messages import add_messages
from hitl_django.engine.state.schema import RemainingSteps
from hitl_django.engine.task.node_api import interrupt
from hitl_django.engine.task.pushed_messages import push_message
from hitl_django.engine.types import Command

CONFIG = {"configurable": {"thread_id": "t"}}
HI = {"messages": [{"role": "user", "content": "hi", "id": "1"}]}


@pytest.fixture(autouse=True)
def without_langchain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide langchain-core from the bridge, as if the package weren't installed."""
    bridges.find_bridge.cache_clear()
    monkeypatch.setattr(bridges, "find_spec", lambda name: None)
    yield
    bridges.find_bridge.cache_clear()


class Model:
    """Model that calls each of its tools once, and then repeats the results."""

    def __init__(self, tools: Any = ()) -> None:
        self.tools = tools

    def bind_tools(self, tools: Any) -> Model:
        return Model(tools)

    def invoke(self, messages: Any, config: Any = None) -> Any:
        results = [m["content"] for m in messages if m["role"] == "tool"]
        if results or not self.tools:
            said = ", ".join([m["content"] for m in messages if m["role"] == "system"] + results)
            return {"role": "assistant", "content": said}
        calls = [
            {"id": tool.__name__, "type": "function",
             "function": {"name": tool.__name__, "arguments": '{"word": "x"}'}}
            for tool in self.tools
        ]  # fmt: skip
        return {"role": "assistant", "content": "", "tool_calls": calls}


def shout(word: str) -> str:
    return word.upper()


def ask(word: str) -> str:
    return str(interrupt(f"{word}?"))


def run(agent: Any, value: Any, way: str) -> Any:
    if way == "invoke":
        return agent.invoke(value, CONFIG)
    return asyncio.run(agent.ainvoke(value, CONFIG))


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_react_agent_runs_tool_calls_and_resumes_after_an_interrupt(version: Any, way: str) -> None:
    agent = create_react_agent(
        Model(), [shout, ask], prompt="Be brief.", name="ann", version=version,
        checkpointer=InMemorySaver(),
    )  # fmt: skip
    (interrupt,) = run(agent, HI, way)["__interrupt__"]
    assert interrupt.value == "x?"
    messages = run(agent, Command(resume="yes"), way)["messages"]
    assert messages[-1]["content"] == "Be brief., X, yes"
    assert messages[-1]["name"] == "ann"


def test_react_agent_at_recursion_limit_returns_message_about_missing_steps() -> None:
    result = create_react_agent(Model(), [shout]).invoke(HI, {"recursion_limit": 2})
    assert result["messages"][-1]["role"] == "assistant"
    assert "need more steps" in result["messages"][-1]["content"]


@dataclass
class Said:
    """Message object that identifies its author by type or by role."""

    id: str
    type: str = "message"
    role: str = ""
    content: str = ""
    tool_calls: Any = ()
    tool_call_id: str = ""


_CALLS = [{"id": name, "name": "shout", "args": {"word": "x"}} for name in ("1", "2")]
_CONVERSATIONS = {
    "dicts": [
        {"id": "a", "role": "assistant", "content": "", "tool_calls": _CALLS},
        {"id": "b", "role": "tool", "content": "", "tool_call_id": "1"},
    ],
    "types": [Said("a", "ai", tool_calls=_CALLS), Said("b", "tool", tool_call_id="1")],
    "roles": [
        Said("a", role="assistant", tool_calls=_CALLS),
        Said("b", role="tool", tool_call_id="1"),
    ],
}
_CONVERSATIONS["both"] = [_CONVERSATIONS["types"][0], _CONVERSATIONS["dicts"][1]]


@pytest.mark.parametrize("form", _CONVERSATIONS)
def test_react_agent_input_with_tool_call_without_result_raises_value_error(form: str) -> None:
    with pytest.raises(ValueError, match=r"without a result: shout \(2\)\."):
        create_react_agent(Model(), [shout]).invoke({"messages": _CONVERSATIONS[form]})


def test_react_agent_with_model_name_and_without_langchain_raises_import_error() -> None:
    with pytest.raises(ImportError, match="'openai:gpt' is given by name"):
        create_react_agent("openai:gpt", [])


def test_push_message_in_tool_adds_a_dict_message_to_the_agent_state() -> None:
    def speak(word: str) -> str:
        push_message({"role": "assistant", "content": f"pushed {word}", "id": "p"})
        return word

    node = ToolNode([speak])
    messages = create_react_agent(Model(), node).invoke(HI)["messages"]
    assert [message["content"] for message in messages] == ["hi", "", "pushed x", "x", "x"]


def test_push_message_without_id_raises_value_error() -> None:
    def speak(word: str) -> str:
        push_message({"role": "assistant", "content": word})
        return word

    with pytest.raises(ValueError, match="requires an id"):
        create_react_agent(Model(), [speak]).invoke(HI)


def test_tool_call_wrapper_receives_and_overrides_the_tool_call_as_dict() -> None:
    def twice(request: Any, execute: Any) -> Any:
        call = request.tool_call
        assert (call["name"], request.tool.name) == ("shout", "shout")
        return execute(request.override(tool_call={**call, "args": {"word": "yy"}}))

    agent = create_react_agent(Model(), ToolNode([shout], wrap_tool_call=twice))
    assert agent.invoke(HI)["messages"][-1]["content"] == "YY"


def test_stream_mode_tools_emits_start_and_finish_of_each_tool_call() -> None:
    agent = create_react_agent(Model(), [shout])
    begun, ended = agent.stream(HI, stream_mode="tools")
    assert begun == {
        "event": "tool-started", "tool_call_id": "shout", "tool_name": "shout",
        "input": {"word": "x"},
    }  # fmt: skip
    assert (ended["event"], ended["output"]["content"]) == ("tool-finished", "X")


def test_functions_given_to_tool_node_have_invoke_and_ainvoke() -> None:
    async def later(word: str) -> str:
        """Say it later."""
        return word

    node = ToolNode([shout, later])
    tools = node.tools_by_name
    assert tools["shout"].invoke({"word": "a"}) == "A"
    call = {"name": "later", "args": {"word": "b"}, "id": "1", "type": "tool_call"}
    assert tools["later"].invoke(call) == "b"
    assert asyncio.run(tools["later"].ainvoke({"word": "c"})) == "c"
    assert asyncio.run(tools["shout"].ainvoke({"word": "c"})) == "C"
    assert tools["later"].description == "Say it later."


@dataclass
class Talk:
    """A state of one's own."""

    messages: Annotated[list[Any], add_messages]
    remaining_steps: RemainingSteps = 25


def test_pre_model_hook_replaces_messages_sent_to_the_model_in_agent_with_dataclass_state() -> None:
    def choose(state: Talk) -> Any:
        return {"llm_input_messages": [{"role": "system", "content": "Nothing else."}]}

    agent = create_react_agent(Model(), [], state_schema=Talk, pre_model_hook=choose)
    messages = agent.invoke(HI)["messages"]
    assert [message["content"] for message in messages] == ["hi", "Nothing else."]
