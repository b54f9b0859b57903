"""Graphs with interrupts: responses by value and by id, in all orders."""

from __future__ import annotations

import time
from typing import Any, Literal

import pydantic
from typing_extensions import TypedDict

from .cases_flow import State, chain, says
from .driving import (
    Case,
    answer,
    answer_each,
    answer_some,
    cases_of,
    command,
    go_on,
    start,
)
from .engines import Engine

CASES: list[Case] = []
case = cases_of(CASES)


def asks(engine: Engine, *payloads: Any) -> Any:
    """Return a node that raises these interrupts and logs their responses."""
    return lambda state: {"log": [engine.interrupt(payload) for payload in payloads]}


def one(engine: Engine, node: Any, *after: str, state: Any = State) -> Any:
    """Return a graph with one node, followed by nodes that log their names."""
    graph = engine.StateGraph(state).add_node("a", node).add_edge(engine.START, "a")
    previous = "a"
    for name in after:
        graph.add_node(name, says(name)).add_edge(previous, name)
        previous = name
    return graph


@case(start({"x": 1}), answer("yes"))
def one_interrupt(engine: Engine) -> Any:
    return one(engine, asks(engine, "q"), "b")


@case(start({"x": 1}), answer("yes"), start({"x": 2}), answer("no"))
def one_interrupt_in_two_runs(engine: Engine) -> Any:
    return one(engine, asks(engine, "q"), "b")


@case(start({"x": 1}), answer("A"), answer("B"), answer("C"))
def three_interrupts_of_one_node(engine: Engine) -> Any:
    return one(engine, asks(engine, "one", {"two": 2}, ["three"]), "b")


@case(start({"x": 1}), answer("A"), answer("B"))
def a_interrupt_after_an_interrupt(engine: Engine) -> Any:
    def ask(state: State) -> dict[str, Any]:
        first = engine.interrupt("one")
        return {"log": [first, engine.interrupt({"after": first})]}

    return one(engine, ask)


@case(start({"x": 1}), answer_each(lambda v: f"{v}!"), answer_each(lambda v: f"{v}?"))
def two_interrupts_answered_by_id(engine: Engine) -> Any:
    return one(engine, asks(engine, "one", "two"))


@case(start({"x": 1}), answer(-1), answer("x"), answer(7))
def a_validation_loop(engine: Engine) -> Any:
    def ask(state: State) -> dict[str, Any]:
        payload = "age?"
        while True:
            given = engine.interrupt(payload)
            if isinstance(given, int) and given > 0:
                return {"x": given}
            payload = f"{given!r} is no age"

    return one(engine, ask, "b")


@case(start({"x": 0}), answer("bad"), answer("good"))
def a_validation_loop_of_nodes(engine: Engine) -> Any:
    graph = one(engine, asks(engine, "again?"))
    return graph.add_conditional_edges(
        "a", lambda s: engine.END if s["log"][-1] == "good" else "a", ["a", engine.END]
    )


@case(start({"x": 1}), answer_each(lambda v: None))
def none_as_an_answer_by_id(engine: Engine) -> Any:
    return one(engine, asks(engine, "q"))


def _falsy(value: Any) -> None:
    def falsy(engine: Engine) -> Any:
        return one(engine, asks(engine, "q"))

    falsy.__name__ = f"the_answer_{value!r}"
    case(start({"x": 1}), answer(value))(falsy)


for _value in (False, 0, "", [], 0.0, {"a": 1}, {"f" * 31: 1}, {"F" * 32: 1}, [None], True):
    _falsy(_value)


def _payload(value: Any) -> None:
    def payload(engine: Engine) -> Any:
        return one(engine, asks(engine, value))

    payload.__name__ = f"the_question_{value!r}"
    case(start({"x": 1}), answer("ok"))(payload)


for _value in (None, False, 0, 1.5, "", "text", [], {}, {"a": [1, {"b": None}]}, "é\u2028"):
    _payload(_value)


@case(start({"x": 1}), go_on(), answer("yes"))
def going_on_without_an_answer_asks_again(engine: Engine) -> Any:
    return one(engine, asks(engine, "q"))


@case(start({"x": 1}), answer("A"), answer("B"))
def a_interrupt_in_each_of_two_nodes(engine: Engine) -> Any:
    graph = one(engine, asks(engine, "qa"))
    graph.add_node("b", asks(engine, "qb"))
    return graph.add_edge("a", "b")


def parallel(engine: Engine, **nodes: Any) -> Any:
    """Return a graph with concurrent nodes, followed by z."""
    graph = engine.StateGraph(State).add_node("z", says("z"))
    for name, node in nodes.items():
        graph.add_node(name, node).add_edge(engine.START, name).add_edge(name, "z")
    return graph


@case(start({"x": 1}), answer_each(lambda v: v + "!"))
def parallel_interrupts_answered_at_once(engine: Engine) -> Any:
    return parallel(engine, a=asks(engine, "qa"), b=asks(engine, "qb"), c=asks(engine, "qc"))


@case(start({"x": 1}), answer_some("qb"), answer_some("qa"), answer_some("qc"))
def parallel_interrupts_answered_one_by_one(engine: Engine) -> Any:
    return parallel(engine, a=asks(engine, "qa"), b=asks(engine, "qb"), c=asks(engine, "qc"))


@case(start({"x": 1}), answer_some("qa", "qb"), answer("last"))
def parallel_interrupts_the_last_by_value(engine: Engine) -> Any:
    return parallel(engine, a=asks(engine, "qa"), b=asks(engine, "qb"), c=asks(engine, "qc"))


@case(start({"x": 1}), answer_each(lambda v: v + "!"))
def a_interrupt_beside_nodes_that_finish(engine: Engine) -> Any:
    return parallel(engine, a=asks(engine, "qa"), b=says("b"), c=says("c"))


@case(start({"x": 1}), go_on(), answer("yes"))
def what_finished_beside_an_interrupt_does_not_run_again(engine: Engine) -> Any:
    calls: list[int] = []
    return parallel(
        engine,
        a=asks(engine, "qa"),
        b=lambda state: {"log": [f"call {calls.append(1) or len(calls)}"]},
    )


@case(start({"x": 1}), answer_each(lambda v: v + "!"), answer_each(lambda v: v + "?"))
def parallel_nodes_with_two_interrupts_each(engine: Engine) -> Any:
    return parallel(engine, a=asks(engine, "a1", "a2"), b=asks(engine, "b1", "b2"))


@case(
    start({"x": 1}),
    answer_some("a1"), answer_some("a2"), answer_some("b1"), answer_some("b2"),
)  # fmt: skip
def parallel_nodes_one_answered_to_its_end_first(engine: Engine) -> Any:
    return parallel(engine, a=asks(engine, "a1", "a2"), b=asks(engine, "b1", "b2"))


@case(start({"x": 1}))
def a_interrupt_beside_a_failure(engine: Engine) -> Any:
    def fail(state: Any) -> Any:
        # LangGraph cancels or doesn't emit an interrupt that comes after the failure. It gives no
        # signal when it has stored the interrupt.
        time.sleep(0.05)
        raise ZeroDivisionError("division by zero")

    return parallel(engine, a=asks(engine, "qa"), b=fail)


@case(start({"x": 1}), answer_each(lambda v: v * 10))
def every_sent_task_asks(engine: Engine) -> Any:
    graph = chain(engine, "a")
    graph.add_node("w", lambda arg: {"log": [engine.interrupt(arg)]})
    return graph.add_conditional_edges(
        "a", lambda s: [engine.Send("w", i) for i in range(3)], ["w"]
    )


@case(start({"x": 1}), answer_some(1), answer_some(0), answer_some(2))
def sent_tasks_answered_one_by_one(engine: Engine) -> Any:
    graph = chain(engine, "a")
    graph.add_node("w", lambda arg: {"log": [engine.interrupt(arg)]})
    return graph.add_conditional_edges(
        "a", lambda s: [engine.Send("w", i) for i in range(3)], ["w"]
    )


@case(start({"x": 1}), answer(5))
def some_sent_tasks_ask(engine: Engine) -> Any:
    graph = chain(engine, "a")
    graph.add_node("w", lambda i: {"log": [engine.interrupt(i) if i == 1 else i]})
    return graph.add_conditional_edges(
        "a", lambda s: [engine.Send("w", i) for i in range(3)], ["w"]
    )


@case(start({"x": 1}), command(resume="r", update={"x": 42}))
def an_answer_with_an_update(engine: Engine) -> Any:
    return one(
        engine, lambda state: {"log": [engine.interrupt({"x": state["x"]}), state["x"]]}, "b"
    )


@case(
    start({"x": 1}),
    command(resume="r", goto="b"),
    leaves_out=("record",),
    differs="a jump is on record",
)
def an_answer_with_a_goto(engine: Engine) -> Any:
    graph = one(engine, asks(engine, "q"))
    return graph.add_node("b", says("b"))


@case(
    start({"x": 1}),
    answer("yes"),
    leaves_out=("step",),
    differs="a paused node has written nothing",
)
def a_branch_that_asks(engine: Engine) -> Any:
    calls: list[int] = []
    graph = engine.StateGraph(State).add_node("b", says("b")).add_node("c", says("c"))
    graph.add_node("a", lambda s: {"log": [f"call {calls.append(1) or len(calls)}"]})
    graph.add_edge(engine.START, "a")
    return graph.add_conditional_edges(
        "a", lambda s: "b" if engine.interrupt("b?") == "yes" else "c", ["b", "c"]
    )


@case(
    start({"x": 1}),
    answer("node"),
    answer("branch"),
    leaves_out=("step",),
    differs="a paused node has written nothing",
)
def a_node_and_its_branch_ask(engine: Engine) -> Any:
    graph = one(engine, asks(engine, "node?"))
    graph.add_node("b", says("b"))
    return graph.add_conditional_edges("a", lambda s: engine.interrupt("branch?") and "b", ["b"])


@case(start({"x": 1}), answer("approve"), start({"x": 2}), answer("reject"))
def approve_or_reject_with_a_command(engine: Engine) -> Any:
    def ask(state: State) -> Any:
        decision = engine.interrupt({"question": "go on?", "x": state["x"]})
        return engine.Command(goto="yes" if decision == "approve" else "no", update={"x": 0})

    graph = engine.StateGraph(State).add_node("a", ask, destinations=("yes", "no"))
    graph.add_node("yes", says("yes")).add_node("no", says("no"))
    return graph.add_edge(engine.START, "a")


@case(start({"x": 1}), answer("go"), answer("yes"), interrupt_before=["a"])
def a_breakpoint_before_a_node_that_does_not_ask(engine: Engine) -> Any:
    graph = chain(engine, "a")
    graph.add_node("b", asks(engine, "qb"))
    return graph.add_edge("a", "b")


@case(start({"x": 1}), go_on(), answer("yes"), interrupt_before=["a"])
def a_breakpoint_before_a_node_that_asks(engine: Engine) -> Any:
    return one(engine, asks(engine, "q"), "b")


@case(start({"x": 1}), answer("yes"), go_on(), interrupt_after=["a"])
def a_breakpoint_after_a_node_that_asks(engine: Engine) -> Any:
    return one(engine, asks(engine, "q"), "b")


@case(start({"x": 1}), go_on(), answer("A"), interrupt_before=["b"])
def a_breakpoint_then_an_interrupt(engine: Engine) -> Any:
    graph = chain(engine, "a")
    graph.add_node("b", asks(engine, "qb")).add_node("c", says("c"))
    return graph.add_edge("a", "b").add_edge("b", "c")


@case(start({"x": 1}), answer("bad"), answer("good"))
def a_failure_before_the_second_interrupt(engine: Engine) -> Any:
    def ask(state: State) -> dict[str, Any]:
        if engine.interrupt("one") == "never":
            raise ValueError("never")
        return {"log": [engine.interrupt("two")]}

    return one(engine, ask)


@case(
    start({"x": 1}),
    answer("yes"),
    go_on(),
    ways=("invoke", "ainvoke"),
    differs="a failed task streams no update",
)
def answered_then_failed_then_gone_on(engine: Engine) -> Any:
    calls: list[int] = []

    def ask(state: State) -> dict[str, Any]:
        given = engine.interrupt("q")
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("down")
        return {"log": [given]}

    return one(engine, ask, "b")


@case(
    start({"x": 1}),
    answer("A"),
    answer("B"),
    go_on(),
    ways=("invoke", "ainvoke"),
    differs="a failed task streams no update",
)
def failed_after_the_second_answer(engine: Engine) -> Any:
    calls: list[int] = []

    def ask(state: State) -> dict[str, Any]:
        given = [engine.interrupt("one"), engine.interrupt("two")]
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("down")
        return {"log": given}

    return one(engine, ask)


@case(start({"x": 1}), answer("yes"))
def a_retried_node_keeps_its_answer(engine: Engine) -> Any:
    calls: list[int] = []

    def ask(state: State) -> dict[str, Any]:
        given = engine.interrupt("q")
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("down")
        return {"log": [given, len(calls)]}

    graph = engine.StateGraph(State).add_edge(engine.START, "a")
    policy = engine.RetryPolicy(initial_interval=0.0001, jitter=False, max_attempts=3)
    return graph.add_node("a", ask, retry_policy=policy)


class Review(TypedDict):
    decision: Literal["approve", "reject"]
    note: str


class Order(pydantic.BaseModel):
    amount: int
    currency: str = "EUR"


@case(start({"x": 1}), answer({"decision": "approve", "note": "fine"}))
def an_answer_with_a_typed_dict_schema(engine: Engine) -> Any:
    return one(engine, lambda state: {"log": [engine.interrupt({"q": 1}, response_schema=Review)]})


@case(start({"x": 1}), answer({"amount": "12"}))
def an_answer_with_a_model_schema(engine: Engine) -> Any:
    def ask(state: State) -> dict[str, Any]:
        order = engine.interrupt("amount?", response_schema=Order)
        return {"log": [order.amount, order.currency]}

    return one(engine, ask)


@case(start({"x": 1}), answer("not checked"))
def a_schema_given_as_a_dict_is_advertised_only(engine: Engine) -> Any:
    return one(
        engine,
        lambda state: {"log": [engine.interrupt("q", response_schema={"type": "integer"})]},
    )


@case(start({"x": 1}), answer("A"), ways=("ainvoke", "astream"))
def an_async_node_that_asks(engine: Engine) -> Any:
    async def ask(state: State) -> dict[str, Any]:
        return {"log": [engine.interrupt("q")]}

    return one(engine, ask, "b")


@case(start({"x": 1}), answer("yes"))
def values_held_before_the_interrupt_are_not_written(engine: Engine) -> Any:
    def ask(state: State) -> dict[str, Any]:
        state["x"] = 99
        state["log"].append("mutated")
        return {"log": [engine.interrupt("q"), state["x"]]}

    return one(engine, ask)


@case(start({"x": 1}), answer("one"), answer("two"), answer("three"))
def a_loop_that_asks_each_time(engine: Engine) -> Any:
    graph = engine.StateGraph(State).add_edge(engine.START, "a")
    graph.add_node("a", lambda s: {"x": s["x"] + 1, "log": [engine.interrupt(f"round {s['x']}")]})
    return graph.add_conditional_edges(
        "a", lambda s: "a" if s["x"] < 4 else engine.END, ["a", engine.END]
    )


@case(start({"x": 1}), answer("yes"))
def a_dict_of_functions_of_which_one_asks(engine: Engine) -> Any:
    def ask(state: State) -> list[Any]:
        return [engine.interrupt("q"), state["x"]]

    return one(engine, {"x": lambda state: state["x"] + 1, "log": ask})


@case(start({"x": 1}), ways=("ainvoke", "astream"))
def a_dict_of_async_functions_and_dicts(engine: Engine) -> Any:
    async def add(state: State) -> int:
        return state["x"] + 1

    async def log(state: State) -> list[int]:
        return [state["x"]]

    return one(engine, {"x": {"plain": lambda state: 3, "async": add}, "log": log}, "b")


@case(start({"x": 1}), answer("yes"))
def a_generator_that_asks_between_its_chunks(engine: Engine) -> Any:
    def ask(state: State) -> Any:
        yield {"x": 7}
        yield {"log": [engine.interrupt("q")]}

    return one(engine, ask, "b")


@case(start({"x": 1}), ways=("invoke", "stream"))  # LangGraph has no async form.
def a_generator_of_chunks_that_can_be_added(engine: Engine) -> Any:
    def count(state: State) -> Any:
        yield [1]
        yield [2]

    def nothing(state: State) -> Any:
        yield from ()

    graph = one(engine, {"log": count})
    return graph.add_node("nothing", nothing).add_edge("a", "nothing")


@case(start({"x": 1}), answer("yes"), ways=("ainvoke", "astream"))
def an_async_generator_that_asks_between_its_chunks(engine: Engine) -> Any:
    async def ask(state: State) -> Any:
        yield {"x": 7}
        yield {"log": [engine.interrupt("q")]}

    return one(engine, ask, "b")
