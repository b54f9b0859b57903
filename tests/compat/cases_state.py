"""State classes, reducers and arguments of nodes."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, Required

import pydantic
from langchain_core.messages import AIMessage, HumanMessage
from typing_extensions import TypedDict

from .cases_flow import State, chain, says
from .driving import Case, answer, cases_of, go_on, start
from .engines import Engine

CASES: list[Case] = []
case = cases_of(CASES)


@dataclass
class Data:
    x: int = 0
    log: Annotated[list, operator.add] = field(default_factory=list)
    note: str | None = None


class Model(pydantic.BaseModel):
    x: int = 0
    log: Annotated[list, operator.add] = []
    note: str | None = None


class Wide(TypedDict, total=False):
    total: Annotated[int, operator.add]
    names: Annotated[set, operator.or_]
    merged: Annotated[dict, operator.or_]
    text: Annotated[str, operator.add]
    best: Annotated[int, operator.__or__]
    plain: Any
    anything: Annotated[Any, lambda old, new: new]


def by_name(old: list, new: list) -> list:
    """Return the last item of each name, sorted by name."""
    names = {item["name"]: item for item in [*old, *new]}
    return [names[name] for name in sorted(names)]


class Items(TypedDict, total=False):
    items: Annotated[list, by_name]


class Strict(TypedDict):
    x: Required[int]
    note: NotRequired[str]
    log: NotRequired[Annotated[list, operator.add]]


def both(engine: Engine, state: Any, *nodes: Any) -> Any:
    """Return a graph with concurrent nodes."""
    graph = engine.StateGraph(state)
    for position, node in enumerate(nodes):
        graph.add_node(f"n{position}", node).add_edge(engine.START, f"n{position}")
    return graph


@case(start({"x": 1}), start({"log": ["in"]}))
def a_dataclass_state(engine: Engine) -> Any:
    return both(engine, Data, lambda s: {"x": s.x + 1, "log": [type(s).__name__]})


@case(start({"x": 1}))
def a_dataclass_as_an_update(engine: Engine) -> Any:
    return both(engine, Data, lambda s: Data(x=s.x + 1, log=["new"]))


@case(start({"x": "1"}), start({"note": "n"}))
def a_model_state(engine: Engine) -> Any:
    return both(engine, Model, lambda s: {"x": s.x + 1, "log": [type(s).__name__]})


@case(start({"x": 1}))
def a_model_as_an_update(engine: Engine) -> Any:
    return both(engine, Model, lambda s: Model(x=s.x + 1))


@case(start({"x": 1}), start({"note": "n"}))
def a_model_that_was_changed_as_an_update(engine: Engine) -> Any:
    def change(state: Model) -> Model:
        state.x += 1
        return state

    return both(engine, Model, change)


@case(start({"total": 1, "names": {"a"}, "merged": {"a": 1}, "text": "t", "best": 3}))
def all_sorts_of_reducers(engine: Engine) -> Any:
    return both(
        engine,
        Wide,
        lambda s: {"total": 2, "names": {"b"}, "merged": {"b": 2}, "text": "u", "best": 7},
        lambda s: {"total": 3, "names": {"c"}, "merged": {"c": 3}, "text": "v", "best": 5},
    )


@case(start({"plain": 1}))
def reducers_without_a_first_value(engine: Engine) -> Any:
    return both(engine, Wide, lambda s: {"log": sorted(s), "plain": sorted(s)})


@case(start({"anything": 1}), start({"anything": None}))
def a_lambda_reducer(engine: Engine) -> Any:
    return both(engine, Wide, lambda s: {"plain": s.get("anything")})


@case(start({"x": 1}), start({"x": 2, "note": "n"}))
def required_and_not_required_keys(engine: Engine) -> Any:
    return both(engine, Strict, lambda s: {"log": [sorted(s)]})


@case(start({"x": 1, "log": ["i"]}))
def overwrite(engine: Engine) -> Any:
    return both(engine, State, lambda s: {"log": engine.Overwrite(["new"])})


@case(start({"x": 1, "log": ["i"]}))
def overwrite_as_json(engine: Engine) -> Any:
    return both(engine, State, lambda s: {"log": {"__overwrite__": ["new"]}})


@case(start({"x": 1, "log": ["i"]}))
def overwrite_beside_another_write(engine: Engine) -> Any:
    return both(
        engine,
        State,
        lambda s: {"log": ["first"]},
        lambda s: {"log": engine.Overwrite(["new"])},
        lambda s: {"log": ["last"]},
    )


class Narrow(TypedDict):
    x: int


class Out(TypedDict):
    y: int


class Whole(TypedDict, total=False):
    x: int
    y: int
    private: str


class Private(TypedDict):
    hidden: str


@case(start({"x": 1, "y": 5}))
def input_and_output_schemas(engine: Engine) -> Any:
    graph = engine.StateGraph(Whole, input_schema=Narrow, output_schema=Out)
    graph.add_node("a", lambda s: {"y": s["x"] + s.get("y", 0), "private": "p"})
    return graph.add_edge(engine.START, "a")


@case(start({"x": 1}))
def private_state_between_nodes(engine: Engine) -> Any:
    def first(state: Narrow) -> Private:
        return {"hidden": f"h{state['x']}"}

    def second(state: Private) -> dict[str, Any]:
        return {"y": len(state["hidden"]), "private": ",".join(sorted(state))}

    graph = engine.StateGraph(Whole)
    graph.add_node(first).add_node(second)
    return graph.add_edge(engine.START, "first").add_edge("first", "second")


@case(start({"x": 1}))
def a_node_with_an_input_schema(engine: Engine) -> Any:
    graph = engine.StateGraph(Whole)
    graph.add_node("a", lambda s: {"private": repr(sorted(s))}, input_schema=Out)
    return graph.add_edge(engine.START, "a")


@case(start(3), start(4))
def a_state_of_one_number(engine: Engine) -> Any:
    graph = engine.StateGraph(int)
    graph.add_node("a", lambda n: n + 1).add_node("b", lambda n: n * 2)
    return graph.add_edge(engine.START, "a").add_edge("a", "b")


@case(start(["i"]))
def a_state_of_one_list_with_a_reducer(engine: Engine) -> Any:
    graph = engine.StateGraph(Annotated[list, operator.add])
    graph.add_node("a", lambda items: ["a"]).add_node("b", lambda items: [len(items)])
    return graph.add_edge(engine.START, "a").add_edge("a", "b")


@case(start(3), answer(4))
def a_state_of_one_number_that_asks(engine: Engine) -> Any:
    graph = engine.StateGraph(int)
    graph.add_node("a", lambda n: n + engine.interrupt("how much?"))
    return graph.add_edge(engine.START, "a")


@case(start({"items": [{"name": "c", "n": 0}]}))
def a_reducer_of_ones_own(engine: Engine) -> Any:
    return both(
        engine,
        Items,
        lambda s: {"items": [{"name": "b", "n": 1}, {"name": "a", "n": 1}]},
        lambda s: {"items": [{"name": "b", "n": 2}]},
    )


@case(start({"x": 1}), config={"recursion_limit": 5})
def managed_values(engine: Engine) -> Any:
    managed = {"last": engine.IsLastStep, "remaining": engine.RemainingSteps}
    fields = {"log": Annotated[list, operator.add], "x": int, **managed}
    graph = engine.StateGraph(TypedDict("Managed", fields, total=False))
    graph.add_node("a", lambda s: {"log": [[s["last"], s["remaining"]]]})
    graph.add_edge(engine.START, "a")
    return graph.add_conditional_edges("a", lambda s: "a" if len(s["log"]) < 4 else engine.END)


@case(start({"x": 1}))
def the_config_is_injected(engine: Engine) -> Any:
    def a(state, config):  # type: ignore[no-untyped-def]
        place = config["metadata"]
        return {"log": [place["langgraph_step"], place["langgraph_node"],
                        list(place["langgraph_triggers"]), list(place["langgraph_path"]),
                        config["configurable"]["thread_id"], place["thread_id"]]}  # fmt: skip

    return both(engine, State, a)


@case(start({"x": 1}))
def the_config_is_found(engine: Engine) -> Any:
    return both(
        engine,
        State,
        lambda s: {"log": [engine.get_config()["metadata"]["langgraph_step"]]},
    )


@case(start({"x": 1}), config={"metadata": {"who": "me"}, "tags": ["t"]})
def the_callers_metadata_is_stored(engine: Engine) -> Any:
    def a(state, config):  # type: ignore[no-untyped-def]
        return {"log": [config["metadata"]["who"], config["tags"]]}

    return both(engine, State, a)


@case(start({"x": 1}, context={"user": "u"}))
def the_context_is_injected(engine: Engine) -> Any:
    def a(state, runtime):  # type: ignore[no-untyped-def]
        return {"log": [runtime.context]}

    return both(engine, State, a)


@case(start({"x": 1}))
def the_writer_is_injected(engine: Engine) -> Any:
    def a(state, writer):  # type: ignore[no-untyped-def]
        writer("one")
        writer({"two": 2})
        return {"log": ["a"]}

    return both(engine, State, a)


@case(start({"x": 1}))
def the_writer_is_found(engine: Engine) -> Any:
    def a(state: State) -> dict[str, Any]:
        engine.get_stream_writer()("one")
        return {"log": ["a"]}

    graph = chain(engine, "p")
    return graph.add_node("a", a).add_edge("p", "a")


@case(start({"x": 1}))
def an_object_that_can_be_called(engine: Engine) -> Any:
    class Callable:
        def __call__(self, state: Any) -> dict[str, Any]:
            return {"log": ["called"]}

    return engine.StateGraph(State).add_node("a", Callable()).add_edge(engine.START, "a")


@case(start({"x": 1}), ways=("ainvoke", "astream"))
def async_nodes(engine: Engine) -> Any:
    async def a(state: Any) -> dict[str, Any]:
        return {"log": ["a"]}

    async def route(state: Any) -> str:
        return "b"

    graph = engine.StateGraph(State).add_node("a", a).add_node("b", says("b"))
    return graph.add_edge(engine.START, "a").add_conditional_edges("a", route, ["b"])


@case(start({"x": 1}), ways=("ainvoke", "astream"))
def async_nodes_beside_sync_ones(engine: Engine) -> Any:
    async def a(state: Any) -> dict[str, Any]:
        return {"log": ["a"]}

    return both(engine, State, a, says("b"), a)


@case(start({"x": 1}))
def a_retried_node(engine: Engine) -> Any:
    calls: list[int] = []

    def flaky(state: Any) -> dict[str, Any]:
        calls.append(1)
        if len(calls) % 3:
            raise ConnectionError("down")
        return {"log": [len(calls)]}

    policy = engine.RetryPolicy(initial_interval=0.0001, jitter=False)
    graph = engine.StateGraph(State).add_node("a", flaky, retry_policy=policy)
    return graph.add_edge(engine.START, "a")


@case(start({"x": 1}), go_on())
def a_retried_node_that_never_works(engine: Engine) -> Any:
    calls: list[int] = []

    def broken(state: Any) -> dict[str, Any]:
        calls.append(1)
        raise ConnectionError(f"down {len(calls)}")

    policy = engine.RetryPolicy(initial_interval=0.0001, jitter=False, max_attempts=2)
    graph = engine.StateGraph(State).add_node("a", broken, retry_policy=policy)
    return graph.add_edge(engine.START, "a")


@case(start({"x": 1}))
def an_error_that_is_not_retried(engine: Engine) -> Any:
    calls: list[int] = []

    def broken(state: Any) -> dict[str, Any]:
        calls.append(1)
        raise ValueError(f"call {len(calls)}")

    policy = engine.RetryPolicy(initial_interval=0.0001, jitter=False)
    graph = engine.StateGraph(State).add_node("a", broken, retry_policy=policy)
    return graph.add_edge(engine.START, "a")


@case(start({"x": 1}))
def the_first_policy_that_fits_counts(engine: Engine) -> Any:
    calls: list[int] = []

    def broken(state: Any) -> dict[str, Any]:
        calls.append(1)
        raise KeyError(f"call {len(calls)}")

    quick = {"initial_interval": 0.0001, "jitter": False}
    policies = [
        engine.RetryPolicy(retry_on=ValueError, max_attempts=9, **quick),
        engine.RetryPolicy(retry_on=lambda e: isinstance(e, KeyError), max_attempts=2, **quick),
        engine.RetryPolicy(retry_on=KeyError, max_attempts=9, **quick),
    ]
    graph = engine.StateGraph(State).add_node("a", broken, retry_policy=policies)
    return graph.add_edge(engine.START, "a")


def newest(old: Any, new: Any) -> Any:
    """Return the new value."""
    return new


class Entire(pydantic.BaseModel, frozen=True):
    x: int = 0
    note: str | None = None


@case(start(Entire(x=1)), start(Entire(note="again")))
def the_whole_state_is_one_model(engine: Engine) -> Any:
    graph = engine.StateGraph(Annotated[Entire, newest])
    graph.add_node("a", lambda entire: Entire(x=entire.x + 1, note=entire.note))
    return graph.add_edge(engine.START, "a")


@case(start(HumanMessage("hi", id="1")), start([HumanMessage("and?", id="3")]))
def the_whole_state_is_a_list_of_messages(engine: Engine) -> Any:
    graph = engine.StateGraph(Annotated[list, engine.add_messages])
    graph.add_node("a", lambda messages: AIMessage(f"{len(messages)}", id=f"a{len(messages)}"))
    return graph.add_edge(engine.START, "a")


@case(start({"messages": [HumanMessage("hi", id="1")]}))
def one_message_is_returned_alone(engine: Engine) -> Any:
    graph = engine.StateGraph(engine.MessagesState)
    graph.add_node("a", lambda state: {"messages": AIMessage("hello", id="2")})
    return graph.add_edge(engine.START, "a")


@case(start({"x": 1}))
def a_value_that_is_not_stored_is_sent(engine: Engine) -> Any:
    untracked = Annotated[Any, engine.channels.UntrackedValue]
    schema = TypedDict("Secret", {**State.__annotations__, "secret": untracked}, total=False)  # type: ignore[misc]

    def opened(state: Any) -> dict[str, Any]:
        return {"x": 2, "secret": "untracked"}

    def seen(state: Any) -> dict[str, Any]:
        return {"log": [sorted(state)]}

    graph = engine.StateGraph(schema).add_node("a", opened).add_node("b", seen)
    graph.add_conditional_edges("a", lambda state: [engine.Send("b", state)], ["b"])
    return graph.add_edge(engine.START, "a")
