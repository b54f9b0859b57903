"""Combinations of retries, timeouts, handlers, caches, tasks, Sends and interrupts."""

from __future__ import annotations

import asyncio
from typing import Any

from .cases_flow import State, says
from .cases_functional import Flaky, Flow, asking, counting
from .driving import Case, answer, answer_each, cases_of, go_on, start
from .engines import Engine

CASES: list[Case] = []
case = cases_of(CASES)
ASYNC, CALLED = ("ainvoke", "astream"), ("invoke", "ainvoke")
#: LangGraph's state doesn't contain the interrupts of an error handler.
UNSEEN: Any = {
    "leaves_out": ("state", "record"),
    "differs": "a handler's question can be seen",
}


def quick(engine: Engine, **options: Any) -> Any:
    """Return a retry policy with minimal delays."""
    return engine.RetryPolicy(initial_interval=0.0001, jitter=False, **options)


def one(engine: Engine, node: Any, **options: Any) -> Any:
    """Return a graph with a node and another node after it."""
    graph = engine.StateGraph(State).add_node("a", node, **options).add_node("z", says("z"))
    return graph.add_edge(engine.START, "a").add_edge("a", "z")


def telling(engine: Engine, say: Any) -> Any:
    """Return an error handler that logs the result of ``say`` for the error."""

    def handler(state: State, error: Any) -> Any:
        return {"log": [say(error)]}

    handler.__annotations__["error"] = engine.NodeError
    return handler


def sending(engine: Engine, worker: Any, count: int = 2, **options: Any) -> Any:
    """Return a graph that sends numbers to a node."""
    graph = engine.StateGraph(State).add_node("w", worker, **options).add_node("z", says("z"))
    graph.add_conditional_edges(
        engine.START, lambda state: [engine.Send("w", {"x": x}) for x in range(count)], ["w"]
    )
    return graph.add_edge("w", "z")


def keeping(engine: Engine) -> Any:
    """Return a task that returns its argument."""
    return engine.task(lambda x: x, name="keep")


def slow_at_first(engine: Engine) -> Any:
    """Return a task whose first call takes a minute, and the list of its arguments."""
    tried: list[Any] = []

    @engine.task
    async def slow(x: Any) -> Any:
        tried.append(x)
        if len(tried) == 1:
            await asyncio.sleep(60)
        return x

    return slow, tried


def with_cache(engine: Engine, graph: Any) -> Any:
    """Return the graph, compiled with a cache."""
    compiled = graph.compile
    graph.compile = lambda **options: compiled(cache=engine.InMemoryCache(), **options)
    return graph


# Error handlers.


@case(
    start({"x": 1}),
    answer("yes"),
    leaves_out=("state", "record"),
    differs="a handler's question can be seen",
)
def a_handler_calls_a_task_and_asks(engine: Engine) -> Any:
    calls: list[Any] = []
    count = counting(engine, calls)

    def say(error: Any) -> Any:
        return [count(1).result(), engine.interrupt("what now?"), len(calls)]

    return one(engine, Flaky(9, ValueError), error_handler=telling(engine, say))


@case(
    start({"x": 1}),
    answer("yes"),
    leaves_out=("state", "record"),
    differs="a handler's question can be seen",
)
def a_handlers_task_asks(engine: Engine) -> Any:
    ask = asking(engine)
    say = telling(engine, lambda error: ask("what now?").result())
    return one(engine, Flaky(9, ValueError), error_handler=say)


@case(start({"x": 1}), ways=CALLED)
def a_handler_is_tried_again_and_keeps_its_tasks(engine: Engine) -> Any:
    keep, flaky = keeping(engine), Flaky(1)

    def say(error: Any) -> Any:
        return [keep(1).result(), flaky("fine")]

    graph = one(engine, Flaky(9, ValueError), error_handler=telling(engine, say))
    return graph.set_node_defaults(retry_policy=quick(engine))


@case(start({"x": 1}))
def a_task_fails_its_node_and_the_handler_takes_it(engine: Engine) -> Any:
    fail = engine.task(Flaky(9, ValueError), name="fail")
    say = telling(engine, lambda error: f"{error.node}: {error.error}")

    def node(state: State) -> Any:
        return {"log": [fail(1).result()]}

    return one(engine, node, error_handler=say)


@case(
    start({"x": 1}),
    answer("yes"),
    leaves_out=("state", "record"),
    differs="a handler's question can be seen",
    ways=CALLED,
)
def one_sent_task_asks_and_another_is_handled(engine: Engine) -> Any:
    def worker(state: Any) -> Any:
        if state["x"]:
            raise ValueError("one")
        return {"log": [engine.interrupt("zero?")]}

    return sending(engine, worker, error_handler=telling(engine, lambda error: "handled"))


@case(
    start({"x": 1}),
    answer("yes"),
    leaves_out=("state", "record"),
    differs="a handler's question can be seen",
)
def a_failure_below_is_handled_by_a_person(engine: Engine) -> Any:
    below = one(engine, Flaky(9, ValueError)).compile()
    return one(
        engine, below, error_handler=telling(engine, lambda error: engine.interrupt("what now?"))
    )


@case(
    start({"x": 1}),
    answer("yes"),
    leaves_out=("state", "record"),
    differs="a handler's question can be seen",
)
def a_handler_below_asks(engine: Engine) -> Any:
    say = telling(engine, lambda error: engine.interrupt("what now?"))
    below = one(engine, Flaky(9, ValueError), error_handler=say).compile()
    return one(engine, below)


@case(start({"x": 1}), ways=ASYNC)
def a_timeout_is_tried_again_and_then_handled(engine: Engine) -> Any:
    tried: list[int] = []

    async def node(state: State) -> Any:
        tried.append(1)
        await asyncio.sleep(60)

    def say(error: Any) -> Any:
        return [type(error.error).__name__, len(tried)]

    return one(
        engine,
        node,
        timeout=0.02,
        retry_policy=quick(engine, max_attempts=2),
        error_handler=telling(engine, say),
    )


# Retries.


@case(start({"x": 1}), ways=CALLED)
def a_node_is_tried_again_and_its_failed_task_with_it(engine: Engine) -> Any:
    keep, flaky = keeping(engine), engine.task(Flaky(2), name="flaky")

    def node(state: State) -> Any:
        return {"log": [keep(1).result(), flaky("fine").result()]}

    return one(engine, node, retry_policy=quick(engine))


@case(start({"x": 1}), answer("yes"))
def a_task_is_tried_again_after_its_answer(engine: Engine) -> Any:
    flaky = Flaky(1)

    @engine.task(retry_policy=quick(engine))
    def ask(x: Any) -> Any:
        return [engine.interrupt("q"), flaky(x)]

    def node(state: State) -> Any:
        return {"log": [ask(1).result()]}

    return one(engine, node)


@case(start({"x": 1}), answer_each(lambda v: f"re {v}"))
def sent_tasks_are_tried_again_after_their_answers(engine: Engine) -> Any:
    flaky = [Flaky(1), Flaky(2)]

    def worker(state: Any) -> Any:
        return {"log": [[engine.interrupt(state["x"]), flaky[state["x"]]("fine")]]}

    return sending(engine, worker, retry_policy=quick(engine))


@case(start({"x": 1}), ways=("ainvoke",), leaps=True)
def a_task_that_was_cut_off_runs_again_with_its_node(engine: Engine) -> Any:
    slow, tried = slow_at_first(engine)

    async def node(state: State) -> Any:
        return {"log": [await slow(1), len(tried)]}

    return one(engine, node, timeout=0.05, retry_policy=quick(engine))


@case(start({"x": 1}), ways=ASYNC, leaps=True)
def a_node_whose_tasks_end_one_by_one_is_not_idle(engine: Engine) -> Any:
    @engine.task
    async def step(x: int) -> int:
        await asyncio.sleep(0.1)
        return x

    async def node(state: State) -> Any:
        return {"log": [await step(x) for x in range(4)]}

    return one(engine, node, timeout=engine.TimeoutPolicy(idle_timeout=0.3))


@case(start(1), ways=("ainvoke",), leaps=True)
def a_task_of_a_task_is_cut_off(engine: Engine) -> Any:
    slow, tried = slow_at_first(engine)

    @engine.task(timeout=0.05, retry_policy=quick(engine))
    async def outer(x: Any) -> Any:
        return await slow(x)

    async def flow(x: int) -> Any:
        return [await outer(x), len(tried)]

    return Flow(engine, flow)


# Tasks in Sends.


@case(start({"x": 1}), answer_each(lambda v: f"re {v}"))
def sent_tasks_call_tasks_that_ask(engine: Engine) -> Any:
    ask, calls = asking(engine), []
    count = engine.task(lambda x: calls.append(x) or x, name="count")

    def worker(state: Any) -> Any:
        return {"log": [[count(state["x"]).result(), ask(state["x"]).result()]]}

    return sending(engine, worker)


@case(start({"x": 1}), go_on())
def a_sent_task_fails_after_its_tasks(engine: Engine) -> Any:
    calls: list[Any] = []
    count, flaky = counting(engine, calls), Flaky(1, ValueError)

    def worker(state: Any) -> Any:
        return {"log": [count(state["x"]).result(), flaky("fine")]}

    return sending(engine, worker, count=1)


@case(start({"x": 1}), answer("yes"), ways=ASYNC)
def async_sent_tasks_call_tasks_under_a_timeout(engine: Engine) -> Any:
    @engine.task
    async def double(x: int) -> int:
        await asyncio.sleep(0)
        return 2 * x

    async def worker(state: Any) -> Any:
        found = await double(state["x"])
        return {"log": [engine.interrupt("q") if state["x"] else found]}

    return sending(engine, worker, timeout=60)


# Caches.


@case(start({"x": 1}), start({"x": 1}))
def a_cached_node_with_a_handler_fails_once(engine: Engine) -> Any:
    flaky = Flaky(1, ValueError)

    def node(state: State) -> Any:
        return {"log": [flaky("fine")]}

    policy = engine.CachePolicy(key_func=lambda state: "same")
    say = telling(engine, lambda error: "handled")
    return with_cache(engine, one(engine, node, cache_policy=policy, error_handler=say))


@case(start({"x": 1}), start({"x": 1}), start({"x": 1}))
def a_cached_node_that_was_tried_again(engine: Engine) -> Any:
    flaky, calls = Flaky(1), []

    def node(state: State) -> Any:
        calls.append(1)
        return {"log": [flaky("fine"), len(calls)]}

    policy = engine.CachePolicy(key_func=lambda state: "same")
    graph = one(engine, node, cache_policy=policy, retry_policy=quick(engine))
    return with_cache(engine, graph)


@case(start({"x": 1}), start({"x": 1}))
def sent_tasks_are_cached(engine: Engine) -> Any:
    calls: list[Any] = []

    def worker(state: Any) -> Any:
        calls.append(1)
        return {"log": [state["x"], len(calls) > 2]}

    return with_cache(engine, sending(engine, worker, cache_policy=engine.CachePolicy()))


@case(start({"x": 1}), answer("yes"), start({"x": 1}), answer("yes"))
def a_node_beside_an_interrupt_is_cached(engine: Engine) -> Any:
    calls: list[Any] = []

    def node(state: State) -> Any:
        calls.append(1)
        return {"log": [len(calls)]}

    graph = one(engine, node, cache_policy=engine.CachePolicy(key_func=lambda state: "same"))
    graph.add_node("b", lambda state: {"log": [engine.interrupt("q")]})
    return with_cache(engine, graph.add_edge(engine.START, "b"))


@case(start(1), start(1), ways=CALLED)
def a_cached_task_in_a_task_that_is_tried_again(engine: Engine) -> Any:
    calls: list[Any] = []
    flaky = Flaky(1)

    @engine.task(cache_policy=engine.CachePolicy())
    def count(x: Any) -> Any:
        calls.append(x)
        return len(calls)

    @engine.task(retry_policy=quick(engine))
    def outer(x: Any) -> Any:
        return [count(x).result(), flaky(x)]

    def flow(x: int) -> Any:
        return [outer(x).result(), len(calls)]

    return Flow(engine, flow, cache=engine.InMemoryCache())


@case(
    start({"x": 1}),
    answer("yes"),
    answer("no"),
    leaves_out=("state", "record"),
    differs="a handler's question can be seen",
)
def deferred_nodes_are_handled_too(engine: Engine) -> Any:
    graph = one(engine, says("a"))
    graph.add_node("b", lambda state: {"log": [engine.interrupt("q")]})
    graph.add_node(
        "last",
        Flaky(9, ValueError),
        defer=True,
        error_handler=telling(engine, lambda error: engine.interrupt("what now?")),
    )
    return graph.add_edge(engine.START, "b").add_edge("b", "last").add_edge("z", "last")
