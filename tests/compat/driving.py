"""Execution of a graph with inputs and responses, and a transcript of all observable results."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from .engines import Engine

CONFIG = {"configurable": {"thread_id": "thread"}}
WAYS = ("invoke", "stream", "ainvoke", "astream")
MODES = ("values", "updates", "tasks", "checkpoints", "custom")


@dataclass(frozen=True)
class Step:
    """One call.

    ``make(engine, open interrupts)`` returns its input.
    """

    make: Callable[[Engine, Sequence[Any]], Any]
    options: dict[str, Any] = field(default_factory=dict)
    #: Position of the addressed checkpoint in the history, newest first.
    at: int | None = None


def start(value: Any, **options: Any) -> Step:
    """Return a step with new input."""
    return Step(lambda engine, asked: value, options)


def go_on(**options: Any) -> Step:
    """Return a step with the input None."""
    return Step(lambda engine, asked: None, options)


def answer(value: Any, **options: Any) -> Step:
    """Return a step with the response to the only pending interrupt."""
    return Step(lambda engine, asked: engine.Command(resume=value), options)


def answer_each(reply: Callable[[Any], Any], **options: Any) -> Step:
    """Return a step with a mapping of responses to all pending interrupts, made from their
    payloads.
    """
    return Step(
        lambda engine, asked: engine.Command(resume={i.id: reply(i.value) for i in asked}), options
    )


def answer_some(*payloads: Any, reply: Callable[[Any], Any] = lambda v: f"re {v}") -> Step:
    """Return a step with a mapping of responses to the pending interrupts with these payloads."""
    return Step(
        lambda engine, asked: engine.Command(
            resume={i.id: reply(i.value) for i in asked if i.value in payloads}
        )
    )


def command(**fields: Any) -> Step:
    """Return a step with a Command as input.

    Callable fields are called with the engine.
    """
    return Step(
        lambda engine, asked: engine.Command(
            **{key: value(engine) if callable(value) else value for key, value in fields.items()}
        )
    )


def update(values: Any, as_node: str | None = None) -> Step:
    """Return a step that calls update_state."""
    return Step(lambda engine, asked: (values, as_node), {"update": True})


def bulk(*supersteps: Sequence[Sequence[Any]]) -> Step:
    """Return a step that calls bulk_update_state.

    The arguments are those of the updates by super-step.
    """
    return Step(
        lambda engine, asked: [[engine.StateUpdate(*one) for one in step] for step in supersteps],
        {"bulk": True},
    )


def at(position: int, step: Step) -> Step:
    """Return the same step, addressed to a checkpoint of the history."""
    return replace(step, at=position)


@dataclass(frozen=True)
class Case:
    """A graph with its compile options and its steps."""

    name: str
    build: Callable[[Engine], Any]
    steps: tuple[Step, ...]
    compiled: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    #: The ways to run the case. A graph with async nodes can't be invoked synchronously.
    ways: tuple[str, ...] = WAYS
    #: Whether the case runs on event loops only and contains time limits, so it needs a simulated
    #: clock.
    leaps: bool = False
    #: Kinds of lines that a row of the table of differences excludes, and the name of this row.
    leaves_out: tuple[str, ...] = ()
    differs: str = ""


ABOUT = ("ways", "leaps", "leaves_out", "differs")


def cases_of(register: list[Case]) -> Callable[..., Any]:
    """Return a decorator that adds a builder, with its steps, to a list."""

    def case(*steps: Step, config: Any = None, **options: Any) -> Any:
        about = {key: options.pop(key) for key in ABOUT if key in options}

        def add(build: Callable[[Engine], Any]) -> Callable[[Engine], Any]:
            register.append(Case(build.__name__, build, steps, options, config or {}, **about))
            return build

        return add

    return case


def sampled(cases: Iterable[Case], ways: Sequence[str], first: int = 0) -> list[Any]:
    """Return all combinations of cases and ways as parameters, most of them marked ``matrix``.

    One way of each case is unmarked. The ways take turns, beginning with number ``first``.
    """
    return [
        pytest.param(
            case,
            way,
            id=f"{case.name}-{way}",
            marks=() if way == own[(first + number) % len(own)] else pytest.mark.matrix,
        )
        for number, case in enumerate(cases)
        if (own := [way for way in ways if way in case.ways])
        for way in own
    ]


def transcript(engine: Engine, case: Case, way: str) -> list[Any]:
    """Return the output of each step, the state after each step, and the final history."""
    graph = case.build(engine).compile(checkpointer=engine.InMemorySaver(), **case.compiled)
    config = {**CONFIG, **case.config}
    lines: list[Any] = []
    for position, step in enumerate(case.steps):
        value = step.make(engine, () if position == 0 else graph.get_state(config).interrupts)
        place = config if step.at is None else addressed(graph, config, step.at)
        lines.append(("step", outcome(graph, value, place, way, step.options)))
        if "state" not in case.leaves_out:
            lines.append(("state", snapshot(graph.get_state(config, subgraphs=True))))
    lines.extend(("record", snapshot(seen)) for seen in graph.get_state_history(config))
    return [line for line in lines if line[0] not in case.leaves_out]


def addressed(graph: Any, config: Any, position: int) -> Any:
    """Return the config of a checkpoint of the history, newest first."""
    record = list(graph.get_state_history(config))[position]
    return {**config, "configurable": record.config["configurable"]}


def outcome(graph: Any, value: Any, config: Any, way: str, options: dict[str, Any]) -> Any:
    """Make one call, and return its result or error in comparable form."""
    options = dict(options)
    if options.pop("update", False):
        return updated(graph, "update_state", (config, *value), way)
    if options.pop("bulk", False):
        return updated(graph, "bulk_update_state", (config, value), way)
    # By default, LangGraph stores in the background. A stream can then show a later state.
    options.setdefault("durability", "sync")
    if way == "invoke":
        return attempted(lambda: graph.invoke(value, config, **options))
    if way == "ainvoke":
        return attempted(lambda: asyncio.run(graph.ainvoke(value, config, **options)))
    events: list[Any] = []
    options.setdefault("stream_mode", list(MODES))

    async def astream() -> None:
        async for event in graph.astream(value, config, **options):
            events.append(event)

    def stream() -> None:
        if way == "astream":
            asyncio.run(astream())
        else:
            events.extend(graph.stream(value, config, **options))

    ended = attempted(stream)
    if options.get("subgraphs"):
        # Each chunk begins with its namespace. Chunks are sorted as a whole, because the order of
        # chunks of parent and child isn't specified.
        chunks = [[[namespace(level) for level in ns], *map(plain, data)] for ns, *data in events]
        return [*sorted(chunks, key=repr), ended]
    if isinstance(options["stream_mode"], str):
        events = [(options["stream_mode"], data) for data in events]
    return [*in_steady_order([plain(event) for event in events]), ended]


def updated(graph: Any, method: str, arguments: Any, way: str) -> Any:
    """Update the state, and return the keys of the new checkpoint's config, or the error."""
    if way.startswith("a"):
        made = attempted(lambda: asyncio.run(getattr(graph, f"a{method}")(*arguments)))
    else:
        made = attempted(lambda: getattr(graph, method)(*arguments))
    return sorted(made["configurable"]) if isinstance(made, dict) else made


def attempted(call: Callable[[], Any]) -> Any:
    """Return the result of a call in comparable form, or its error as (class, message)."""
    try:
        return plain(call())
    except Exception as error:
        return plain(error)


def in_steady_order(events: Iterable[Any]) -> list[Any]:
    """Sort the events of concurrent tasks, because their order depends on which task ended
    first.
    """
    told: list[Any] = []
    step: list[Any] = []
    for event in events:
        mode, data = event[0], event[1]
        if mode == "checkpoints" or (mode == "values" and not asks(data)):
            told += sorted(step, key=repr)
            told.append(event)
            step = []
        else:
            step.append(event)
    return told + sorted(step, key=repr)


def asks(data: Any) -> bool:
    """Return whether a values chunk contains interrupts."""
    return isinstance(data, dict) and "__interrupt__" in data


def snapshot(seen: Any) -> dict[str, Any]:
    """Return a StateSnapshot as a dict without ids and times."""
    metadata = dict(seen.metadata or {})
    parents = metadata.pop("parents", None)
    return {
        "values": plain(seen.values),
        "next": seen.next,
        "metadata": metadata,
        "parents": None if parents is None else sorted(namespace(ns) for ns in parents),
        "config": [key for key in sorted(seen.config["configurable"]) if key[:2] != "__"],
        "has_parent": seen.parent_config is not None,
        "has_time": seen.created_at is not None,
        "tasks": [plain(task) for task in seen.tasks],
        "interrupts": sorted((plain(asked) for asked in seen.interrupts), key=repr),
    }


#: Keys whose values differ in every run.
FLEETING = frozenset(
    {
        "id",
        "checkpoint_id",
        "ts",
        "created_at",
        "timestamp",
        "thread_id",
        "run_id",
        "parents",
        "ls_integration",
    }
)
#: Pattern of generated ids.
MADE_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def namespace(ns: str) -> str:
    """Return a namespace without its task ids."""
    return "|".join(level.partition(":")[0] for level in ns.split("|"))


def plain(value: Any) -> Any:
    """Return a value of either engine as plain, comparable data."""
    kind = type(value).__name__
    if kind == "Interrupt":
        return ("Interrupt", plain(value.value), plain(getattr(value, "response_schema", None)))
    if kind == "Overwrite":
        return ("Overwrite", plain(value.value))
    if kind == "Send":
        return ("Send", value.node, plain(value.arg))
    if kind == "PregelTask":
        asked = sorted((plain(asked) for asked in value.interrupts), key=repr)
        state = snapshot(value.state) if hasattr(value.state, "tasks") else plain(value.state)
        return ("Task", value.name, plain(value.path), without_link(str(value.error)), asked, state,
                plain(value.result))  # fmt: skip
    if isinstance(value, dict):
        return {key: plain_item(key, item) for key, item in value.items() if key not in FLEETING}
    if isinstance(value, BaseException):
        return plain_error(value)
    if isinstance(value, BaseMessage):
        return (kind, without_made_ids(value.model_dump()))
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], BaseMessage):
        # LangGraph's metadata of a message in a subgraph contains the namespace twice.
        about = {key: item for key, item in value[1].items() if key != "checkpoint_ns"}
        return [plain(value[0]), plain(about)]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return plain(value._asdict())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, set):
        return {"set": sorted(value, key=repr)}
    return value


def without_made_ids(told: dict[str, Any]) -> dict[str, Any]:
    """Return a message as a dict, with a placeholder for a generated id."""
    made = told["id"] is not None and MADE_ID.fullmatch(told["id"])
    return {**told, "id": "made" if made else told["id"]}


def plain_item(key: Any, item: Any) -> Any:
    """Return one entry of a dict.

    Unordered values are sorted.
    """
    if key == "__interrupt__":
        return sorted((plain(asked) for asked in item), key=repr)
    if key == "langgraph_checkpoint_ns" or (key == "checkpoint_ns" and isinstance(item, str)):
        return namespace(item)
    if key == "checkpoint_map":
        return sorted(namespace(ns) for ns in item)
    if key == "interrupts":
        return sorted((plain(asked) for asked in item), key=repr)
    return plain(item)


def plain_error(error: BaseException) -> Any:
    """Return an error as its class and, for an error of the node, its message."""
    name = type(error).__name__
    if type(error).__module__.startswith(("langgraph", "hitl_django")):
        return ("Error", name)
    return ("Error", name, without_link(str(error)))


def without_link(text: str) -> str:
    """Return a message without its engine-specific parts.

    LangGraph's messages contain links to its documentation. For errors of the engine, only the
    class is compared.
    """
    text = re.sub(r"^(Node(?:Timeout|Cancelled)Error)\(.*\)$", r"\1", text)
    return re.sub(r"(\n|\\n)For troubleshooting, visit: [^\s\"\')]+", "", text)
