"""create_react_agent compared with LangGraph's: each parameter, sync and async."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, TypedDict

import pytest
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from pydantic import BaseModel, Field

from .engines import LANGGRAPH, OURS, Engine

pytestmark = pytest.mark.filterwarnings("ignore")

WAYS = ["invoke", "ainvoke"]
HI = {"messages": [HumanMessage("hi", id="1")]}


class Answer(BaseModel):
    """What the model is to answer with."""

    text: str


class Model(BaseChatModel):
    """A model that returns scripted messages and records its inputs and tools."""

    says: list[AIMessage]
    asked: list[Any] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "noting"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        tools = [named(one) for one in kwargs.get("tools", ())]
        self.asked.append(([plain(message) for message in messages], tools))
        said = self.says[min(len(self.asked), len(self.says)) - 1]
        return ChatResult(generations=[ChatGeneration(message=said.model_copy(deep=True))])

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        return self.bind(tools=[dict(one) if isinstance(one, dict) else told(one) for one in tools])

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[Any, Any]:
        def answer(messages: Any) -> Any:
            self.asked.append(([plain(message) for message in messages], "structured"))
            return schema(text="in form") if isinstance(schema, type) else {"text": "in form"}

        return RunnableLambda(answer)


def told(one: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": one.name}}


def named(one: dict[str, Any]) -> str:
    return one["function"]["name"] if "function" in one else one["type"]


def calling(*calls: tuple[str, dict[str, Any]]) -> AIMessage:
    asked = [{"name": n, "args": a, "id": f"c{at}"} for at, (n, a) in enumerate(calls)]
    return AIMessage("", tool_calls=asked, id="asker")


def plain(value: Any) -> Any:
    """Return a result without ids and error texts, in which the engines differ."""
    if isinstance(value, BaseException):
        return type(value).__name__
    if isinstance(value, ToolMessage):
        return ("tool", "failed" if value.status == "error" else value.content, value.name)
    if isinstance(value, BaseMessage):
        out_of_steps = "steps" in str(value.content)
        calls = [call["name"] for call in getattr(value, "tool_calls", ())]
        return (value.type, "out of steps" if out_of_steps else value.content, value.name, calls)
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items() if key != "__interrupt__"}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


DONE = AIMessage("done", id="done")
TWO = calling(("add", {"a": 1, "b": 2}), ("shout", {"word": "x"}))
ADDS = [TWO, DONE]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def shout(word: str) -> str:
    """Say a word loudly."""
    return word.upper()


@tool(return_direct=True)
def final(word: str) -> str:
    """Say the last word."""
    return word


@tool
def fail(word: str) -> str:
    """Fail."""
    raise ValueError(word)


TOOLS = [add, shout]


@dataclass
class Case:
    """Build an agent with ``build``, call it, and return the result and the model's inputs."""

    name: str
    build: Callable[[Engine, Model], Any]
    says: Sequence[AIMessage] = tuple(ADDS)
    value: Any = None
    config: Any = None
    context: Any = None
    ways: Sequence[str] = tuple(WAYS)


def outcome(engine: Engine, case: Case, way: str) -> Any:
    """Return the result of an agent and the inputs of its model."""
    model = Model(says=list(case.says), asked=[])
    how = {} if case.context is None else {"context": case.context}
    value = HI if case.value is None else case.value
    try:
        agent = case.build(engine, model)
        if way == "invoke":
            result = agent.invoke(value, case.config, **how)
        else:
            result = asyncio.run(agent.ainvoke(value, case.config, **how))
    except Exception as error:
        return plain(error), model.asked
    return plain(result), model.asked


def make(tools: Any = None, **how: Any) -> Callable[[Engine, Model], Any]:
    def build(engine: Engine, model: Model) -> Any:
        return engine.agents.create_react_agent(model, TOOLS if tools is None else tools, **how)

    return build


def of_state(state: Any) -> Any:
    return [SystemMessage(f"You see {len(state['messages'])}."), *state["messages"]]


def of_state_and_config(state: Any, config: RunnableConfig) -> Any:
    who = config["configurable"].get("who")
    return [SystemMessage(f"You are {who}."), *state["messages"]]


async def of_state_async(state: Any) -> Any:
    return [SystemMessage("You wait."), *state["messages"]]


TEMPLATE = ChatPromptTemplate.from_messages(
    [("system", "You fill in."), ("placeholder", "{messages}")]
)

PROMPTS = [
    Case("no prompt", make()),
    Case("a text", make(prompt="You help.")),
    Case("a message", make(prompt=SystemMessage("You help."))),
    Case("a function", make(prompt=of_state)),
    Case("a function with a config", make(prompt=of_state_and_config),
         config={"configurable": {"who": "ann"}}),
    Case("an async function", make(prompt=of_state_async), ways=["ainvoke"]),
    Case("a runnable", make(prompt=RunnableLambda(of_state))),
    Case("a template", make(prompt=TEMPLATE)),
    Case("no prompt at all", make(prompt=3)),
]  # fmt: skip


def of_node(engine: Engine, model: Model) -> Any:
    node = engine.prebuilt.ToolNode(TOOLS, handle_tool_errors=True)
    return engine.agents.create_react_agent(model, node)


def of_unhandled(engine: Engine, model: Model) -> Any:
    return engine.agents.create_react_agent(model, [fail])


def of_handled(engine: Engine, model: Model) -> Any:
    return engine.agents.create_react_agent(
        model, engine.prebuilt.ToolNode([fail], handle_tool_errors=True)
    )


FAILS = [calling(("fail", {"word": "x"})), DONE]
ENDS = calling(("final", {"word": "end"}), ("add", {"a": 1, "b": 1}))
TOOL_CASES = [
    Case("a node", of_node),
    Case("no tools", make([])),
    Case("no tools that are called", make([]), says=[DONE]),
    Case("a tool of the provider", make([{"type": "web_search"}, add])),
    Case("only a tool of the provider", make([{"type": "web_search"}]), says=[DONE]),
    Case("a tool that ends the run", make([final, add]), says=[calling(("final", {"word": "e"}))]),
    Case("a tool that ends the run beside another", make([final, add]), says=[ENDS, DONE]),
    Case("the other one first", make([add, final]),
         says=[calling(("add", {"a": 1, "b": 1}), ("final", {"word": "end"})), DONE]),
    Case("the other one alone", make([final, add]),
         says=[calling(("add", {"a": 1, "b": 1})), DONE]),
    Case("a tool that fails", of_unhandled, says=FAILS),
    Case("a tool whose failure is told", of_handled, says=FAILS),
    Case("a tool that isn't there", make(), says=[calling(("nothing", {})), DONE]),
    Case("a call that doesn't fit", make(), says=[calling(("add", {"a": "x"})), DONE]),
]  # fmt: skip


@dataclass
class Who:
    name: str


def chosen(engine: Engine, model: Model) -> Any:
    def choose(state: Any, runtime: Any) -> Any:
        assert runtime.context.name == "ann"
        assert len(state["messages"]) > 0
        return model.bind_tools([add])

    return engine.agents.create_react_agent(choose, TOOLS, context_schema=Who, prompt="Choose.")


def chosen_async(engine: Engine, model: Model) -> Any:
    async def choose(state: Any, runtime: Any) -> Any:
        return model

    return engine.agents.create_react_agent(choose, TOOLS, response_format=Answer)


def bound(*tools: Any) -> Callable[[Engine, Model], Any]:
    def build(engine: Engine, model: Model) -> Any:
        return engine.agents.create_react_agent(model.bind_tools(tools), [add])

    return build


def in_sequence(engine: Engine, model: Model) -> Any:
    steps = RunnableLambda(lambda messages: messages) | model.bind_tools([add])
    return engine.agents.create_react_agent(steps, [add], response_format=Answer)


ONE = [calling(("add", {"a": 1, "b": 2})), DONE]
MODELS = [
    Case("chosen", chosen, says=ONE, context=Who("ann")),
    Case("chosen async", chosen_async, says=ONE, ways=["ainvoke"]),
    Case("bound already", bound(add), says=ONE),
    Case("bound to others", bound(final), says=ONE),
    Case("bound to more", bound(add, final), says=ONE),
    Case("in a sequence", in_sequence, says=ONE),
]

FORMS = [
    Case("a schema", make(response_format=Answer)),
    Case("a schema with a prompt", make(response_format=("Be brief.", Answer))),
    Case("a dict", make(response_format={"title": "Answer", "type": "object"})),
    Case("without tools", make([], response_format=Answer), says=[DONE]),
    Case("with a hook", make(response_format=Answer, post_model_hook=lambda state: {})),
    Case("with a hook and no tools",
         make([], response_format=Answer, post_model_hook=lambda state: {}), says=[DONE]),
]  # fmt: skip


def shortened(state: Any) -> Any:
    return {"llm_input_messages": [HumanMessage("short"), *state["messages"][1:]]}


def rewritten(state: Any) -> Any:
    removed = [RemoveMessage(id=message.id) for message in state["messages"][:1]]
    return {"messages": [*removed, HumanMessage("rewritten", id=f"r{len(state['messages'])}")]}


def refused(state: Any) -> Any:
    """Answers one of the calls by itself."""
    last = state["messages"][-1]
    if not getattr(last, "tool_calls", None):
        return {}
    call = last.tool_calls[0]
    return {"messages": [ToolMessage("refused", name=call["name"], tool_call_id=call["id"])]}


async def later(state: Any) -> Any:
    return {}


HOOKS = [
    Case("sees other messages", make(pre_model_hook=shortened)),
    Case("sees other messages without tools", make([], pre_model_hook=shortened), says=[DONE]),
    Case("rewrites messages", make(pre_model_hook=rewritten), says=[DONE]),
    Case("says nothing", make(pre_model_hook=lambda state: {})),
    Case("is async", make(pre_model_hook=later, post_model_hook=later), ways=["ainvoke"]),
    Case("answers a call", make(post_model_hook=refused)),
    Case("answers the only call", make(post_model_hook=refused),
         says=[calling(("add", {"a": 1, "b": 2})), DONE]),
    Case("with both", make(pre_model_hook=shortened, post_model_hook=lambda state: None)),
    Case("after the model alone", make([], post_model_hook=lambda state: {}), says=[DONE]),
]  # fmt: skip


def of_custom_state(engine: Engine, model: Model) -> Any:
    class_of = {
        "messages": Annotated[list[Any], engine.add_messages],
        "remaining_steps": NotRequired[engine.RemainingSteps],
        "who": str,
    }
    return engine.agents.create_react_agent(
        model, TOOLS, state_schema=TypedDict("State", class_of), prompt=lambda state: state["who"]
    )


def build_model_state(engine: Engine, *, structured: bool = False) -> Any:
    base = engine.agents.AgentStatePydantic
    if structured:
        base = engine.agents.AgentStateWithStructuredResponsePydantic
    return type("State", (base,), {"__annotations__": {"who": str}, "who": "nobody"})


def see_model(state: Any) -> Any:
    return [SystemMessage(f"{state.who} {state.remaining_steps > 0}"), *state.messages]


def of_model_state(**how: Any) -> Callable[[Engine, Model], Any]:
    def build(engine: Engine, model: Model) -> Any:
        def look(state: Any) -> str:
            """Look at the state."""
            return f"{state.who} {len(state.messages)}"

        look.__annotations__["state"] = Annotated[Any, engine.prebuilt.InjectedState]
        return engine.agents.create_react_agent(
            model, [tool(look)], state_schema=build_model_state(engine), prompt=see_model, **how
        )

    return build


def of_too_small_a_state(engine: Engine, model: Model) -> Any:
    return engine.agents.create_react_agent(model, TOOLS, state_schema=engine.MessagesState)


def shortened_model(state: Any) -> Any:
    return {"llm_input_messages": [HumanMessage("short"), *state.messages[1:]]}


LOOKS = [calling(("look", {}), ("look", {})), DONE]
GIVEN = {"messages": [("user", "hi")], "who": "ann"}
STATES = [
    Case("a state of one's own", of_custom_state, value=GIVEN),
    Case("a model", of_model_state(), says=LOOKS, value=GIVEN),
    Case("a model, one task", of_model_state(version="v1"), says=LOOKS, value=GIVEN),
    Case("a model with a hook", of_model_state(pre_model_hook=shortened_model), says=LOOKS,
         value=GIVEN),
    Case("a state without steps", of_too_small_a_state),
    Case("a call without a result", make(), value={"messages": [("user", "hi"), TWO, DONE]}),
    Case("no messages", make(), value={"messages": []}),
]  # fmt: skip

OTHERS = [
    Case("version 1", make(version="v1")),
    Case("version 1 that ends", make([final, add], version="v1"), says=[ENDS, DONE]),
    Case("version 3", make(version="v3")),
    Case("a name", make(name="ann")),
    Case("an unknown parameter", make(colour="red")),
    Case("an old parameter", make(config_schema=Who), context=Who("ann")),
    Case("few steps", make(), says=[TWO], config={"recursion_limit": 5}),
    Case("few steps for tools that end", make([final]), says=[calling(("final", {"word": "x"}))],
         config={"recursion_limit": 2}),
    Case("one step for tools that end", make([final]), says=[calling(("final", {"word": "x"}))],
         config={"recursion_limit": 1}),
    Case("two steps", make(), says=[TWO], config={"recursion_limit": 2}),
    Case("three steps", make(), says=[TWO], config={"recursion_limit": 3}),
    Case("four steps", make(), says=[TWO], config={"recursion_limit": 4}),
]  # fmt: skip

ALL = [*PROMPTS, *TOOL_CASES, *MODELS, *FORMS, *HOOKS, *STATES, *OTHERS]
RUNS = [(case, way) for case in ALL for way in case.ways]


@pytest.mark.parametrize(
    ("case", "way"), RUNS, ids=[f"{case.name}-{way}".replace(" ", "_") for case, way in RUNS]
)
def test_react_agent_result_and_model_inputs_match_langgraph(case: Case, way: str) -> None:
    assert outcome(OURS, case, way) == outcome(LANGGRAPH, case, way)


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("stream_mode", ["updates", "values"])
def test_react_agent_stream_matches_langgraph(stream_mode: str, version: str) -> None:
    def result(engine: Engine) -> Any:
        agent = make(version=version, name="ann")(engine, Model(says=list(ADDS), asked=[]))
        chunks = [plain(chunk) for chunk in agent.stream(HI, stream_mode=stream_mode)]
        # Calls that are sent run side by side: their updates come as they end.
        return sorted(chunks, key=str) if (stream_mode, version) == ("updates", "v2") else chunks

    assert result(OURS) == result(LANGGRAPH)


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("where", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize("node", ["agent", "tools"])
def test_react_agent_with_breakpoints_stops_at_the_same_nodes_as_in_langgraph(
    node: str, where: str, version: str
) -> None:
    def result(engine: Engine) -> Any:
        saver, how = engine.InMemorySaver(), {where: [node]}
        model = Model(says=list(ADDS), asked=[])
        agent = make(checkpointer=saver, version=version, **how)(engine, model)
        config = {"configurable": {"thread_id": "t"}}
        seen = []
        for value in (HI, None, None, None):
            agent.invoke(value, config)
            state = agent.get_state(config)
            seen.append((state.next, plain(state.values["messages"])))
        return seen

    assert result(OURS) == result(LANGGRAPH)


def test_result_of_react_agent_as_subgraph_matches_langgraph() -> None:
    def result(engine: Engine) -> Any:
        inner = make(name="ann", prompt="You are within.")(engine, Model(says=list(ADDS), asked=[]))
        graph = engine.StateGraph(engine.MessagesState).add_node(inner.name, inner)
        graph = graph.add_edge(engine.START, "ann").compile()
        return plain(graph.invoke(HI))

    assert result(OURS) == result(LANGGRAPH)


def test_create_react_agent_signature_matches_langgraph() -> None:
    ours, theirs = (
        [
            (each.name, each.kind, each.default)
            for each in inspect.signature(engine.agents.create_react_agent).parameters.values()
            if each.kind is not each.VAR_KEYWORD  # LangGraph's old names
        ]
        for engine in (OURS, LANGGRAPH)
    )
    assert ours == theirs


def test_react_agent_graph_edges_match_langgraph() -> None:
    def edges(engine: Engine, **how: Any) -> Any:
        drawn = make(**how)(engine, Model(says=[], asked=[])).get_graph()
        return sorted((edge.source, edge.target) for edge in drawn.edges)

    for how in ({}, {"response_format": Answer}, {"pre_model_hook": shortened}):
        assert edges(OURS, **how) == edges(LANGGRAPH, **how)


def test_react_agent_with_model_name_loads_the_model_by_langchain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "langchain.chat_models.init_chat_model", lambda name: Model(says=[DONE], asked=[])
    )
    for engine in (OURS, LANGGRAPH):
        agent = engine.agents.create_react_agent("fake:model", [])
        assert agent.invoke(HI)["messages"][-1].content == "done"


REFUSED = {
    "no model": (lambda: {"model": 3, "tools": []}, TypeError, "chat model"),
    "no tools bound": (lambda: {"model": Bare(), "tools": [add]}, TypeError, "no bind_tools"),
    "a hook of version 2": (
        lambda: {"model": Model(says=[]), "tools": [], "post_model_hook": shortened,
                 "version": "v1"},
        ValueError, "requires version='v2'",
    ),
}  # fmt: skip


class Bare:
    """A model of one's own, without tools and without langchain."""

    def invoke(self, messages: Any) -> Any:
        return {"role": "assistant", "content": f"heard {len(messages)}", "id": "a"}


@pytest.mark.parametrize("name", REFUSED)
def test_create_react_agent_with_invalid_arguments_raises_error_when_called(name: str) -> None:
    build, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        OURS.agents.create_react_agent(**build())


@pytest.mark.parametrize("way", WAYS)
def test_react_agent_runs_with_model_that_has_only_invoke(way: str) -> None:
    agent = OURS.agents.create_react_agent(Bare(), [], prompt="Be brief.")
    run = agent.invoke if way == "invoke" else lambda value: asyncio.run(agent.ainvoke(value))
    assert run(HI)["messages"][-1].content == "heard 2"


def test_react_agent_with_response_format_and_model_without_structured_output_raises_error() -> (
    None
):
    agent = OURS.agents.create_react_agent(Bare(), [], response_format=Answer)
    with pytest.raises(TypeError, match="with_structured_output"):
        agent.invoke(HI)


@pytest.mark.parametrize("part", ["model", "prompt"])
def test_react_agent_with_async_model_or_prompt_function_runs_in_sync_invoke(part: str) -> None:
    """As a worker runs them; LangGraph refuses."""
    model = Model(says=[DONE])

    async def choose(state: Any, runtime: Any) -> Any:
        return model

    chosen = {"model": choose} if part == "model" else {"model": model, "prompt": of_state_async}
    agent = OURS.agents.create_react_agent(tools=[], response_format=Answer, **chosen)
    result = agent.invoke(HI)
    assert result["messages"][-1].content == "done"
    assert result["structured_response"] == Answer(text="in form")
