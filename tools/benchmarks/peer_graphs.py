"""The graphs that LangGraph's own repository uses as benchmarks, written from their description.

The sizes are those of LangGraph's ``libs/langgraph/bench``, and the graphs are streamed and stored
as there: with durability "exit".
"""

from __future__ import annotations

import functools
import operator
import random
import string
from collections.abc import Callable, Sequence
from dataclasses import field, make_dataclass
from typing import Annotated, Any, TypedDict
from uuid import uuid4

from .engines import FLOOR
from .workloads import Once, Workload, check, on_thread

#: The end of the titles of rows without a saver, and of the names of rows with a saver.
UNSAVED, SAVED = ", no saver", "-memory"
#: A limit of steps that no graph reaches.
UNLIMITED = 1_000_000
LETTERS = 1000  # in the subject of each item of a fan-out
ROUNDS = 10  # of the loop in the subgraph of an item


def _stream(app: Any, start: Any, saver: Any) -> list[Any]:
    """Run a graph on a new thread and return all chunks."""
    options = {"durability": "exit"} if saver else {}
    return [*app.stream(start, on_thread(UNLIMITED), **options)]


# Nodes that do nothing, one after the other.


def _do_nothing(state: Any) -> None:
    return None


def _sequential(e: Any, n: int, saver: Any) -> Once:
    graph = e.StateGraph(e.MessagesState)
    names = [f"node{at}" for at in range(n)]
    for before, name in zip([e.START, *names], names, strict=False):
        graph.add_node(name, _do_nothing)
        graph.add_edge(before, name)
    graph.add_edge(names[-1], e.END)
    app = graph.compile(checkpointer=saver)

    def once() -> int:
        check(len(_stream(app, {"messages": []}, saver)), n)
        return n

    return once


# A subgraph for each item.


class Subjects(TypedDict):
    subjects: list[Any]
    jokes: Annotated[list[str], operator.add]


class Subject(TypedDict):
    subject: Any


class Jokes(TypedDict):
    jokes: list[str]


class Joke(Subject, Jokes):
    """State of the subgraph, which receives a subject and returns a joke."""


def _joke_graph(e: Any) -> Any:
    """Return a graph with two nodes, and a third node that runs until the joke is complete."""
    end = " a" * ROUNDS
    graph = e.StateGraph(Joke, input_schema=Subject, output_schema=Jokes)
    graph.add_node("edit", lambda state: {"subject": f"{state['subject']} - hohoho"})
    graph.add_node("tell", lambda state: {"jokes": [f"Joke about {state['subject']}"]})
    graph.add_node("extend", lambda state: {"jokes": [f"{state['jokes'][0]} a"]})
    graph.add_edge(e.START, "edit")
    graph.add_edge("edit", "tell")
    graph.add_edge("tell", "extend")
    graph.add_edge("tell", e.END)
    graph.add_conditional_edges(
        "extend", lambda state: e.END if state["jokes"][0].endswith(end) else "extend"
    )
    return graph.compile()


def _fan_out(e: Any, n: int, saver: Any) -> Once:
    def spread(state: Subjects) -> list[Any]:
        return [e.Send("joke", {"subject": subject}) for subject in state["subjects"]]

    graph = e.StateGraph(Subjects)
    graph.add_node("joke", _joke_graph(e))
    graph.add_conditional_edges(e.START, spread, ["joke"])
    graph.add_edge("joke", e.END)
    app = graph.compile(checkpointer=saver)
    subjects = [random.choices(string.ascii_lowercase, k=LETTERS) for _ in range(n)]

    def once() -> int:
        check(len(_stream(app, {"subjects": subjects}, saver)), n)
        return n

    return once


# A wide state with many reducers.


def _keep_true(old: Any, new: Any) -> Any:
    return new or old


def _keep_given(old: Any, new: Any) -> Any:
    return old if new is None else new


def _take_new(old: Any, new: Any) -> Any:
    return new


_ADDED: tuple[Any, Any, Any] = (list[Any], operator.add, list)
_MERGED: tuple[Any, Any, Any] = (dict[str, Any], operator.or_, dict)
_GIVEN: tuple[Any, Any, Any] = (dict[str, Any] | None, _keep_given, None)
#: The channels by name: the type, the reducer if any, and the value before the first write.
CHANNELS: dict[str, tuple[Any, Callable[[Any, Any], Any] | None, Any]] = {
    "messages": _ADDED,
    "events": _ADDED,
    "medium": (str, _keep_true, "email"),
    "reply": (dict[str, Any] | None, _take_new, None),
    "issue": (dict[str, Any] | None, _keep_true, None),
    "rules": (list[Any] | None, None, None),
    "documents": (list[Any] | None, None, None),
    "categories": _ADDED,
    "drafts": _ADDED,
    "user": _GIVEN,
    "customer": _GIVEN,
    "thread": (str | None, _keep_given, None),
    "people": _MERGED,
    "robot": (str | None, None, None),
    "told": _MERGED,
}
LISTS = frozenset({"messages", "events", "rules", "documents", "categories", "drafts"})
TEXTS = frozenset({"medium", "thread", "robot"})

#: Nodes: the channel that a node reads, and the channels to which the node writes.
NODES = {
    "one": ("messages", ("events", "medium")),
    "two": ("events", ("reply", "issue")),
    "three": ("reply", ("rules",)),
    "four": ("events", ("categories", "drafts", "documents")),
    "five": ("categories", ("user", "customer", "thread", "people", "robot", "told")),
    "six": ("drafts", ("messages",)),
}
#: Nodes that run in parallel, in the order of a round.
STEPS = (("one",), ("two",), ("three", "four"), ("five",), ("six",))
EDGES: tuple[tuple[Any, str], ...] = (
    ("one", "two"), ("two", "three"), ("two", "four"), (["three", "four"], "five"), ("five", "six"),
)  # fmt: skip


def _make_state_class(*, is_dict: bool) -> Any:
    hints = {
        name: each if reducer is None else Annotated[each, reducer]
        for name, (each, reducer, _) in CHANNELS.items()
    }
    if is_dict:
        return TypedDict("State", hints)  # type: ignore[operator]
    fields: list[tuple[str, Any, Any]] = []
    for name, (_, _, initial) in CHANNELS.items():
        how = {"default_factory": initial} if callable(initial) else {"default": initial}
        fields.append((name, hints[name], field(**how)))
    return make_dataclass("State", fields, kw_only=True)


def _copy(read: Callable[[Any, str], Any], source: str, targets: Sequence[str], n: int) -> Any:
    """Return a node that copies a channel into other channels.

    Channels with a text get a random text of n letters instead.
    """

    def node(state: Any) -> dict[str, Any]:
        value = read(state, source)
        items = value if isinstance(value, list) else [value]
        one = value[-1] if isinstance(value, list) else value
        return {
            name: items
            if name in LISTS
            else "".join(random.choice(string.ascii_lowercase) for _ in range(n))
            if name in TEXTS
            else one
            for name in targets
        }

    return node


def _wide(e: Any, n: int, saver: Any, *, is_dict: bool) -> Once:
    """Copy a message until there are more than n, in rounds of six nodes.

    The message is a dict of 5 dicts, each of which contains 5 lists.
    """
    if e.engine == FLOOR:
        return _wide_by_hand(n)
    read: Any = operator.getitem if is_dict else getattr
    graph = e.StateGraph(_make_state_class(is_dict=is_dict))
    for name, (source, targets) in NODES.items():
        graph.add_node(name, _copy(read, source, targets, n))
    graph.add_edge(e.START, "one")
    for before, after in EDGES:
        graph.add_edge(before, after)
    graph.add_conditional_edges(
        "six", lambda state: e.END if len(read(state, "messages")) > n else "one"
    )
    app = graph.compile(checkpointer=saver)

    def once() -> int:
        check([*_stream(app, {"messages": [_make_message()]}, saver)[-1]], ["six"])
        return n

    return once


def _make_message() -> dict[str, Any]:
    return {
        str(at) * 10: {
            str(by) * 10: ["hi?" * 10, True, 1, 6327816386138, None] * 5 for by in range(5)
        }
        for at in range(5)
    }


def _wide_by_hand(n: int) -> Once:
    """Call the nodes and reducers without a graph."""
    nodes = {name: _copy(operator.getitem, *one, n) for name, one in NODES.items()}
    reducers = {name: reducer or _take_new for name, (_, reducer, _) in CHANNELS.items()}

    def once() -> int:
        state = {name: one() if callable(one) else one for name, (*_, one) in CHANNELS.items()}
        state["messages"] = [_make_message()]
        while len(state["messages"]) <= n:
            for names in STEPS:
                updates = [item for name in names for item in nodes[name](state).items()]
                for name, value in updates:
                    state[name] = reducers[name](state[name], value)
        return n

    return once


# An agent with a tool.


def _make_turns(n: int) -> list[Any]:
    """Return the messages of a model that calls a tool n times, and then answers."""
    from langchain_core.messages import AIMessage

    def make_call() -> dict[str, Any]:
        return {"id": str(uuid4()), "name": "search", "args": {"query": str(uuid4()) * 100}}

    calls = [AIMessage("", tool_calls=[make_call()], id=str(uuid4())) for _ in range(n)]
    return [*calls, AIMessage("answer" * 100, id=str(uuid4()))]


def _search(query: str) -> str:
    return f"result for query: {query}" * 10


def _make_model(n: int) -> Any:
    from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Model(FakeMessagesListChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
            message = self.responses[self.i].model_copy()
            self.i = (self.i + 1) % len(self.responses)
            return ChatResult(generations=[ChatGeneration(message=message)])

    return Model(responses=_make_turns(n))


def _ask(app: Any, n: int, saver: Any) -> Once:
    from langchain_core.messages import HumanMessage

    def once() -> int:
        check(len(_stream(app, {"messages": [HumanMessage("hi?")]}, saver)), 2 * n + 1)
        return n

    return once


def _agent(e: Any, n: int, saver: Any) -> Once:
    """Run an agent with LangChain's model and tool. The floor is the calls of both."""
    from langchain_core.tools import StructuredTool

    model = _make_model(n)
    tool = StructuredTool.from_function(_search, name="search", description="Search.")
    if e.engine == FLOOR:
        return functools.partial(_talk, model, {tool.name: tool}, n)
    return _ask(e.create_react_agent(model, [tool], checkpointer=saver), n, saver)


def _talk(model: Any, tools: dict[str, Any], n: int) -> int:
    """Run the conversation of the agent without a graph."""
    from langchain_core.messages import HumanMessage

    messages: list[Any] = [HumanMessage("hi?")]
    while (message := model.invoke(messages)).tool_calls:
        messages.append(message)
        messages += [tools[call["name"]].invoke(call) for call in message.tool_calls]
    check(len(messages), 2 * n + 1)
    return n


def _agent_loop(e: Any, n: int, saver: Any) -> Once:
    """Run the graph of an agent whose nodes only return the messages of its model and tool."""
    from langchain_core.messages import ToolMessage

    turns = _make_turns(n)

    def model(state: Any) -> dict[str, Any]:
        return {"messages": [turns[len(state["messages"]) // 2]]}

    def tool(state: Any) -> dict[str, Any]:
        call = state["messages"][-1].tool_calls[0]
        text = _search(**call["args"])
        return {"messages": [ToolMessage(text, name=call["name"], tool_call_id=call["id"])]}

    graph = e.StateGraph(e.MessagesState)
    graph.add_node("model", model)
    graph.add_node("tool", tool)
    graph.add_edge(e.START, "model")
    graph.add_conditional_edges(
        "model", lambda state: "tool" if state["messages"][-1].tool_calls else e.END
    )
    graph.add_edge("tool", "model")
    return _ask(graph.compile(checkpointer=saver), n, saver)


def _in_both(
    name: str, title: str, build: Any, size: int, unit: str, target: float, **how: Any
) -> list[Workload]:
    """Return the rows of a graph without a saver and with the saver in memory."""

    def saved(e: Any, n: int) -> Once:
        return build(e, n, e.InMemorySaver())  # type: ignore[no-any-return]

    def unsaved(e: Any, n: int) -> Once:
        return build(e, n, None)  # type: ignore[no-any-return]

    return [
        Workload(f"graph-{name}", f"{title}{UNSAVED}", unsaved, size, unit, target, **how),
        Workload(
            f"graph-{name}{SAVED}", f"{title}, in-memory saver", saved, size, unit, target, **how
        ),
    ]


def _wide_state(e: Any, n: int, saver: Any) -> Once:
    return _wide(e, n, saver, is_dict=False)


def _wide_dict(e: Any, n: int, saver: Any) -> Once:
    return _wide(e, n, saver, is_dict=True)


WORKLOADS: dict[str, Workload] = {
    row.name: row
    for row in (
        *(
            row
            for size in (10, 100, 1000)
            for row in _in_both(
                f"sequential-{size}", f"{size:,} empty nodes", _sequential, size, "super-step", 10,
                growth=(1, size // 3, size),
            )
        ),
        *(
            row
            for size in (10, 100)
            for row in _in_both(
                f"fanout-{size}", f"fan-out to {size} subgraphs", _fan_out, size, "subgraph", 10,
                growth=(1, size // 3, size),
            )
        ),
        *_in_both("wide-state", "a wide state (dataclass)", _wide_state, 300, "message", 3,
                  growth=(100, 300, 1000), floor=True),
        *_in_both("wide-dict", "a wide state (dict)", _wide_dict, 300, "message", 3,
                  growth=(100, 300, 1000), floor=True),
        *_in_both("agent", "an agent of 10 turns", _agent, 10, "turn", 3, growth=(10, 30, 100),
                  floor=True, allowance=2),
        *_in_both("agent-loop", "the loop of this agent alone", _agent_loop, 10, "turn", 10,
                  growth=(10, 30, 100)),
    )
}  # fmt: skip
