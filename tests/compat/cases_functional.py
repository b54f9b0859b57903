"""Workflows as plain functions: entrypoints, tasks, and tasks called from the nodes of a graph."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from .cases_flow import State
from .driving import Case, answer, answer_each, cases_of, go_on, start, update
from .engines import Engine

CASES: list[Case] = []
case = cases_of(CASES)
ASYNC = ("ainvoke", "astream")


class Flow:
    """Builder of an entrypoint, with the same arguments as the compilation of a graph."""

    def __init__(self, engine: Engine, function: Callable[..., Any], **options: Any) -> None:
        self.engine, self.function, self.options = engine, function, options

    def compile(self, checkpointer: Any = None, **options: Any) -> Any:
        """Return the function as a graph."""
        return self.engine.entrypoint(checkpointer, **self.options, **options)(self.function)


class Flaky:
    """A function that fails a given number of times, and then returns its argument."""

    def __init__(self, failures: int, error: type[Exception] = ConnectionError) -> None:
        self.failures, self.error = failures, error

    def __call__(self, value: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise self.error("down")
        return value


def multiplied(number: int, by: int) -> int:
    """Multiply."""
    return number * by


def counting(engine: Engine, calls: list[Any]) -> Any:
    """Return a task that records its real calls."""

    @engine.task
    def count(value: Any) -> Any:
        calls.append(value)
        return [value, len(calls)]

    return count


def asking(engine: Engine) -> Any:
    """Return a task that interrupts with its argument."""

    @engine.task
    def ask(payload: Any) -> Any:
        return engine.interrupt(payload)

    return ask


@case(start(2), start(3))
def no_tasks(engine: Engine) -> Any:
    def flow(x: int) -> int:
        return x * 2

    return Flow(engine, flow)


@case(start({"a": [1]}), start(None))
def a_dict_in_and_nothing_out(engine: Engine) -> Any:
    def flow(x: Any) -> None:
        return None

    return Flow(engine, flow)


@case(start(1), start(2), start(3))
def what_the_last_run_returned(engine: Engine) -> Any:
    def flow(x: int, *, previous: Any = None) -> Any:
        return [x, previous]

    return Flow(engine, flow)


@case(start(1), start(2), start(3))
def another_value_is_saved(engine: Engine) -> Any:
    def flow(x: int, previous: Any) -> Any:
        return engine.entrypoint.final(value=[previous, x], save=(previous or 0) + x)

    return Flow(engine, flow)


@case(start(1), start(2))
def nothing_is_saved(engine: Engine) -> Any:
    def flow(x: int, *, previous: Any = "unset") -> Any:
        return engine.entrypoint.final(value=[previous, x], save=None)

    return Flow(engine, flow)


@case(start(1), answer("yes"), start(2), answer("no"))
def a_interrupt_and_what_was_saved(engine: Engine) -> Any:
    def flow(x: int, *, previous: Any = None) -> Any:
        return engine.entrypoint.final(
            value=[previous, engine.interrupt(f"{x}?")], save={"last": x}
        )

    return Flow(engine, flow)


@case(start(1))
def one_task_after_the_other(engine: Engine) -> Any:
    count = counting(engine, [])

    def flow(x: int) -> Any:
        first = count(x).result()
        return [first, count(first).result()]

    return Flow(engine, flow)


@case(start(1))
def one_task_twice(engine: Engine) -> Any:
    count = counting(engine, [])

    def flow(x: int) -> Any:
        return [count(x).result(), count(x).result()]

    return Flow(engine, flow)


@case(start([3, 1, 2]))
def tasks_side_by_side(engine: Engine) -> Any:
    @engine.task
    def square(x: int) -> int:
        return x * x

    def flow(numbers: list[int]) -> Any:
        return [called.result() for called in [square(number) for number in numbers]]

    return Flow(engine, flow)


@case(start(1))
def tasks_of_tasks(engine: Engine) -> Any:
    count = counting(engine, [])

    @engine.task
    def outer(x: int) -> Any:
        return [count(x).result(), count(x + 1).result()]

    def flow(x: int) -> Any:
        return [outer(x).result(), outer(x).result()]

    return Flow(engine, flow)


@case(start(1), answer("yes"))
def a_task_before_an_interrupt(engine: Engine) -> Any:
    count = counting(engine, [])

    def flow(x: int) -> Any:
        first = count(x).result()
        return [first, engine.interrupt("q"), count(first).result()]

    return Flow(engine, flow)


@case(start(1), answer("A"), answer("B"))
def tasks_between_interrupts(engine: Engine) -> Any:
    count = counting(engine, [])

    def flow(x: int) -> Any:
        said = []
        for number in range(2):
            said += [count(number).result(), engine.interrupt(f"q{number}")]
        return [*said, count("end").result()]

    return Flow(engine, flow)


@case(start(1), answer("yes"))
def a_task_that_asks(engine: Engine) -> Any:
    ask, count = asking(engine), counting(engine, [])

    def flow(x: int) -> Any:
        return [count(x).result(), ask("q").result(), count("end").result()]

    return Flow(engine, flow)


@case(start(1), answer("A"), answer("B"), answer("C"))
def a_task_that_asks_twice_and_another(engine: Engine) -> Any:
    ask, calls = asking(engine), []

    @engine.task
    def twice(x: int) -> Any:
        calls.append(x)
        return [engine.interrupt("one"), engine.interrupt("two"), len(calls)]

    def flow(x: int) -> Any:
        return [twice(x).result(), ask("three").result()]

    return Flow(engine, flow)


@case(start(1), answer("yes"))
def a_task_of_a_task_asks(engine: Engine) -> Any:
    ask, count = asking(engine), counting(engine, [])

    @engine.task
    def outer(x: int) -> Any:
        return [count(x).result(), ask("deep").result()]

    def flow(x: int) -> Any:
        return [count("first").result(), outer(x).result()]

    return Flow(engine, flow)


@case(start(1), answer("A"), answer("B"))
def a_interrupt_and_a_task_that_asks(engine: Engine) -> Any:
    ask = asking(engine)

    def flow(x: int) -> Any:
        return [engine.interrupt("own"), ask("other").result()]

    return Flow(engine, flow)


@case(start("go"), answer(1), answer(2), answer("stop"))
def a_loop_that_asks_for_more(engine: Engine) -> Any:
    ask, count = asking(engine), counting(engine, [])

    def flow(x: str) -> Any:
        got: list[Any] = []
        while (given := ask(f"more than {len(got)}?").result()) != "stop":
            got.append(count(given).result())
        return got

    return Flow(engine, flow)


@case(start("go"), answer(-1), answer("x"), answer(7))
def a_task_that_asks_until_it_is_right(engine: Engine) -> Any:
    @engine.task
    def age() -> int:
        payload = "age?"
        while True:
            given = engine.interrupt(payload)
            if isinstance(given, int) and given > 0:
                return given
            payload = f"{given!r} is no age"

    def flow(x: str) -> Any:
        return age().result()

    return Flow(engine, flow)


@case(start([1, 2, 3]), answer("yes"))
def tasks_side_by_side_and_an_interrupt_between(engine: Engine) -> Any:
    calls: list[Any] = []
    count = engine.task(lambda x: calls.append(x) or x, name="count")

    def flow(numbers: list[int]) -> Any:
        before = [called.result() for called in [count(number) for number in numbers]]
        said = engine.interrupt(sum(before))
        after = [called.result() for called in [count(-number) for number in before]]
        return [before, said, after, len(calls)]

    return Flow(engine, flow)


@case(start(1), go_on())
def a_task_that_fails(engine: Engine) -> Any:
    count, flaky = counting(engine, []), engine.task(Flaky(1, ValueError), name="flaky")

    def flow(x: int) -> Any:
        return [count(x).result(), flaky(x).result()]

    return Flow(engine, flow)


@case(start(1), go_on(), go_on())
def a_workflow_that_fails_after_its_tasks(engine: Engine) -> Any:
    count, flaky = counting(engine, []), Flaky(2, KeyError)

    def flow(x: int) -> Any:
        return [count(x).result(), count(x + 1).result(), flaky("end")]

    return Flow(engine, flow)


@case(start(1), answer("yes"), go_on())
def a_failure_after_an_answer(engine: Engine) -> Any:
    ask, count, flaky = asking(engine), counting(engine, []), Flaky(1, KeyError)

    def flow(x: int) -> Any:
        return [count(x).result(), ask("q").result(), flaky("end")]

    return Flow(engine, flow)


@case(start(1))
def a_failure_that_is_caught(engine: Engine) -> Any:
    flaky = engine.task(Flaky(1, ValueError), name="flaky")

    def flow(x: int) -> Any:
        try:
            return flaky(x).result()
        except ValueError as error:
            return str(error)

    return Flow(engine, flow)


@case(start(1))
def a_failure_that_nobody_asked_about(engine: Engine) -> Any:
    flaky = engine.task(Flaky(1, ValueError), name="flaky")

    def flow(x: int) -> Any:
        called = flaky(x)
        return type(called.exception()).__name__

    return Flow(engine, flow)


@case(start(1))
def a_task_with_a_retry_policy(engine: Engine) -> Any:
    policy = engine.RetryPolicy(0.0001, jitter=False)
    flaky = engine.task(name="flaky", retry_policy=policy)(Flaky(2))

    def flow(x: int) -> Any:
        return flaky(x).result()

    return Flow(engine, flow)


@case(start(1))
def a_task_has_its_workflows_retry_policy(engine: Engine) -> Any:
    calls: list[Any] = []
    flaky = engine.task(Flaky(2), name="flaky")

    def flow(x: int) -> Any:
        calls.append(x)
        return [flaky(x).result(), len(calls)]

    return Flow(engine, flow, retry_policy=[engine.RetryPolicy(0.0001, jitter=False)])


@case(start(1))
def a_task_that_is_called_wrongly(engine: Engine) -> Any:
    count = counting(engine, [])

    def flow(x: int) -> Any:
        return count().result()

    return Flow(engine, flow)


@case(start({"n": 1}))
def what_is_filled_in(engine: Engine) -> Any:
    @engine.task
    def step(a, b=2, *, writer, config, runtime):  # type: ignore[no-untyped-def]
        writer({"step": a})
        seen = config["metadata"]
        return [a, b, seen["langgraph_node"], seen["langgraph_step"], runtime.previous]

    def flow(x, config, writer, runtime, previous):  # type: ignore[no-untyped-def]
        writer("begin")
        engine.get_stream_writer()("go on")
        seen = config["metadata"]
        return [
            step(x["n"]).result(),
            step(x["n"], b=5).result(),
            [seen["langgraph_node"], seen["langgraph_triggers"] == ("__start__",)],
            [previous, runtime.previous],
        ]

    return Flow(engine, flow)


@case(start(1), update("told", None), start(2), update("again", "flow"), start(3))
def an_update_is_what_was_returned(engine: Engine) -> Any:
    def flow(x: int, *, previous: Any = None) -> Any:
        return [x, previous]

    return Flow(engine, flow)


@case(start(1))
def a_workflow_that_calls_a_workflow(engine: Engine) -> Any:
    count = counting(engine, [])

    @engine.entrypoint()
    def inner(x: int) -> Any:
        return [count(x).result(), count(x).result()]

    def flow(x: int) -> Any:
        return [count(x).result(), inner.invoke(x)]

    return Flow(engine, flow)


@case(start(1), answer("yes"))
def a_workflow_that_calls_one_that_asks(engine: Engine) -> Any:
    @engine.entrypoint()
    def inner(x: int) -> Any:
        return engine.interrupt("inner?")

    def flow(x: int) -> Any:
        return [inner.invoke(x)]

    return Flow(engine, flow)


@case(start(1), answer("yes"))
def a_workflow_that_calls_a_graph(engine: Engine) -> Any:
    count = counting(engine, [])
    child = (
        engine.StateGraph(State)
        .add_node("ask", lambda state: {"log": [engine.interrupt("q")]})
        .add_edge(engine.START, "ask")
        .compile()
    )

    def flow(x: int) -> Any:
        return [count(x).result(), child.invoke({"x": x}), count(x).result()]

    return Flow(engine, flow)


@case(start(3), start(3), start(4))
def a_task_whose_results_are_cached(engine: Engine) -> Any:
    calls: list[Any] = []
    slow = engine.task(cache_policy=engine.CachePolicy(), name="slow")(
        lambda x: calls.append(x) or x * 2
    )

    def flow(x: int) -> Any:
        return [slow(x).result(), len(calls)]

    return Flow(engine, flow, cache=engine.InMemoryCache())


@case(start(3), start(3), start(4))
def a_workflow_whose_results_are_cached(engine: Engine) -> Any:
    calls: list[Any] = []

    def flow(x: int) -> Any:
        calls.append(x)
        return [x, len(calls)]

    return Flow(engine, flow, cache=engine.InMemoryCache(), cache_policy=engine.CachePolicy())


# Tasks in the nodes of a graph.


def node_of(engine: Engine, function: Any) -> Any:
    return (
        engine.StateGraph(State)
        .add_node("a", function)
        .add_edge(engine.START, "a")
        .add_node("b", lambda state: {"log": ["b"]})
        .add_edge("a", "b")
    )


@case(start({"x": 1}), answer("yes"))
def a_node_calls_tasks_around_an_interrupt(engine: Engine) -> Any:
    calls: list[Any] = []
    count = engine.task(lambda x: calls.append(x) or x, name="count")

    def node(state: State) -> Any:
        called = [count(state["x"]), count(2)]
        said = engine.interrupt([c.result() for c in called])
        return {"log": [said, count(3).result(), len(calls)]}

    return node_of(engine, node)


@case(start({"x": 1}), answer("yes"))
def a_node_calls_a_task_that_asks(engine: Engine) -> Any:
    count, ask = counting(engine, []), asking(engine)

    def node(state: State) -> Any:
        return {"log": [count(1).result(), ask("q").result()]}

    return node_of(engine, node)


@case(start({"x": 1}), answer_each(lambda v: f"re {v}"))
def two_nodes_call_tasks_that_ask(engine: Engine) -> Any:
    ask, graph = asking(engine), engine.StateGraph(State)
    for name in ("a", "b"):
        graph.add_node(name, lambda state, name=name: {"log": [ask(f"{name}?").result()]})
        graph.add_edge(engine.START, name)
    return graph


@case(start({"x": 1}), go_on())
def a_node_fails_after_its_tasks(engine: Engine) -> Any:
    count, flaky = counting(engine, []), Flaky(1, ValueError)

    def node(state: State) -> Any:
        return {"log": [count(1).result(), flaky("end")]}

    return node_of(engine, node)


@case(start({"x": 1}), answer("yes"))
def a_workflow_is_a_node(engine: Engine) -> Any:
    count = counting(engine, [])

    @engine.entrypoint()
    def flow(state: Any) -> Any:
        return {"log": [count(state["x"]).result(), engine.interrupt("q")]}

    return engine.StateGraph(State).add_node("a", flow).add_edge(engine.START, "a")


# Async.


@case(start([2, 1]), ways=ASYNC)
def async_tasks_side_by_side(engine: Engine) -> Any:
    @engine.task
    async def double(x: int) -> int:
        await asyncio.sleep(0)
        return 2 * x

    async def flow(numbers: list[int]) -> Any:
        return await asyncio.gather(*[double(number) for number in numbers])

    return Flow(engine, flow)


@case(start(1), answer("A"), answer("B"), ways=ASYNC)
def async_tasks_and_interrupts(engine: Engine) -> Any:
    calls: list[Any] = []

    @engine.task
    async def count(x: Any) -> Any:
        calls.append(x)
        return [x, len(calls)]

    @engine.task
    async def ask(payload: str) -> Any:
        return engine.interrupt(payload)

    async def flow(x: int) -> Any:
        return [await count(1), engine.interrupt("own"), await count(2), await ask("task")]

    return Flow(engine, flow)


@case(start(1), ways=ASYNC)
def sync_tasks_in_an_async_workflow(engine: Engine) -> Any:
    count = counting(engine, [])

    async def flow(x: int) -> Any:
        return [await count(1), await count(2)]

    return Flow(engine, flow)


@case(start(1), go_on(), ways=ASYNC)
def an_async_task_that_fails(engine: Engine) -> Any:
    count, failures = counting(engine, []), [1]

    @engine.task
    async def flaky(x: int) -> int:
        if failures:
            raise ValueError(failures.pop())
        return x

    async def flow(x: int) -> Any:
        return [await count(x), await flaky(x)]

    return Flow(engine, flow)


@case(start(1), ways=ASYNC)
def an_async_task_that_takes_too_long(engine: Engine) -> Any:
    @engine.task(timeout=0.02)
    async def hang() -> None:
        await asyncio.Event().wait()

    async def flow(x: int) -> Any:
        try:
            await hang()
        except engine.NodeTimeoutError as error:
            return [error.kind, error.node]

    return Flow(engine, flow)


@case(start(1))
def an_async_task_in_a_sync_workflow(engine: Engine) -> Any:
    @engine.task
    async def double(x: int) -> int:
        return 2 * x

    def flow(x: int) -> Any:
        return double(x).result()

    return Flow(engine, flow)


@case(start({"x": 1}), answer("yes"), ways=ASYNC)
def an_async_node_calls_tasks(engine: Engine) -> Any:
    count = counting(engine, [])

    async def node(state: State) -> Any:
        first = await count(1)
        return {"log": [first, engine.interrupt("q"), await count(2)]}

    return node_of(engine, node)


@case(start(2))
def a_partial_as_a_task(engine: Engine) -> Any:
    twice = engine.task(partial(multiplied, by=2), name="twice")
    times = engine.task(partial(multiplied, by=3))

    def flow(number: int) -> int:
        return twice(times(number).result()).result()

    return Flow(engine, flow)
