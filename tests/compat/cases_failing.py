"""Graphs with failing nodes: error handlers, retries, timeouts and cached results."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from .cases_flow import State, says
from .driving import Case, answer, cases_of, go_on, start, update
from .engines import Engine

CASES: list[Case] = []
case = cases_of(CASES)
ASYNC = ("ainvoke", "astream")


def fails(state: State) -> None:
    raise ValueError("no")


def handling(engine: Engine, node: Any = fails, handler: Any = None, **policies: Any) -> Any:
    """Return a graph with an error handler for a node, followed by another node."""
    graph = engine.StateGraph(State)
    graph.add_node("a", node, error_handler=handler or tells(engine), **policies)
    graph.add_node("z", says("z"))
    return graph.add_edge(engine.START, "a").add_edge("a", "z")


def tells(engine: Engine, goto: Any = ()) -> Any:
    """Return an error handler that logs its arguments."""

    def tell(state: State, error: engine.NodeError) -> Any:  # type: ignore[name-defined]
        said = f"{error.node}: {error.error} at {state.get('x')}"
        return engine.Command(update={"log": [said]}, goto=goto)

    tell.__annotations__["error"] = engine.NodeError
    return tell


class Seen(BaseModel):
    x: int = 0


# Error handlers.


@case(start({"x": 1}), start({"x": 2}))
def a_handler_takes_a_failure(engine: Engine) -> Any:
    return handling(engine)


@case(start({"x": 1}))
def a_handler_goes_on_to_a_node(engine: Engine) -> Any:
    return handling(engine, handler=tells(engine, "z"))


@case(start({"x": 1}))
def a_handler_with_edges_of_its_own(engine: Engine) -> Any:
    return handling(engine).add_edge("__error_handler__a", "z")


@case(start({"x": 1}))
def a_handler_of_a_node_that_doesnt_fail(engine: Engine) -> Any:
    return handling(engine, says("a"))


@case(start({"x": 1}))
def a_handler_that_asks_for_no_error(engine: Engine) -> Any:
    return handling(engine, handler=lambda state: {"log": ["handled"]})


@case(start({"x": 1}))
def a_handler_that_writes_nothing(engine: Engine) -> Any:
    return handling(engine, handler=lambda state: None)


@case(start({"x": 1}), go_on())
def a_handler_that_fails(engine: Engine) -> Any:
    def broken(state: State) -> None:
        raise KeyError("the handler")

    return handling(engine, handler=broken)


@case(start({"x": 1}), go_on(), go_on())
def a_handler_that_fails_once_is_all_that_runs_again(engine: Engine) -> Any:
    calls: list[str] = []

    def node(state: State) -> None:
        calls.append("node")
        raise ValueError("no")

    def handler(state: State) -> dict[str, Any]:
        calls.append("handler")
        if len(calls) == 2:
            raise OSError("down")
        return {"log": [*calls]}

    return handling(engine, node, handler)


@case(start({"x": 1}), go_on())
def a_handler_is_told_of_a_stored_failure(engine: Engine) -> Any:
    told: list[str] = []

    def handler(state: State, error: Any) -> dict[str, Any]:
        told.append(f"{error.node}: {error.error is None}")
        if len(told) == 1:
            raise OSError("down")
        return {"log": told[1:]}

    handler.__annotations__["error"] = engine.NodeError
    return handling(engine, handler=handler)


@case(start({"x": 1}))
def a_handler_takes_what_a_retry_left(engine: Engine) -> Any:
    calls: list[int] = []

    def node(state: State) -> None:
        calls.append(1)
        raise ConnectionError(f"call {len(calls)}")

    retry = engine.RetryPolicy(initial_interval=0.001, jitter=False, max_attempts=2)
    return handling(engine, node, retry_policy=retry)


@case(start({"x": 1}))
def a_handler_beside_a_sibling(engine: Engine) -> Any:
    graph = handling(engine)
    graph.add_node("b", says("b")).add_node("after", says("after"))
    return graph.add_edge(engine.START, "b").add_edge(["a", "b"], "after")


@case(start({"x": 1}))
def a_handler_reaches_a_join_in_its_nodes_stead(engine: Engine) -> Any:
    graph = handling(engine, handler=tells(engine, "after"))
    graph.add_node("b", says("b")).add_node("after", says("after"))
    return graph.add_edge(engine.START, "b").add_edge("b", "after")


@case(start({"x": 1}))
def each_of_two_failures_has_its_handler(engine: Engine) -> Any:
    graph = handling(engine)
    graph.add_node("b", fails, error_handler=lambda state: {"log": ["of b"]})
    return graph.add_edge(engine.START, "b")


@case(start({"x": 1}))
def sent_tasks_have_the_same_handler(engine: Engine) -> Any:
    graph = engine.StateGraph(State)
    graph.add_node("a", fails, error_handler=tells(engine))
    sends = [engine.Send("a", {"x": number}) for number in range(3)]
    return graph.add_conditional_edges(engine.START, lambda state: sends, ["a"])


@case(start({"x": 1}), answer("yes"))
def a_interrupt_is_nothing_for_a_handler(engine: Engine) -> Any:
    return handling(engine, lambda state: {"log": [engine.interrupt("sure?")]})


@case(start({"x": 1}), answer("yes"), ways=("invoke", "ainvoke"))
def a_failure_after_an_answer_is(engine: Engine) -> Any:
    def node(state: State) -> None:
        raise ValueError(engine.interrupt("sure?"))

    return handling(engine, node)


@case(start({"x": 1}))
def a_command_to_the_parent_is_nothing_for_a_handler(engine: Engine) -> Any:
    below = engine.StateGraph(State)
    up = engine.Command(graph=engine.Command.PARENT, update={"log": ["up"]}, goto="z")
    below.add_node("k", lambda state: up, error_handler=tells(engine))
    below.add_edge(engine.START, "k")
    return handling(engine, below.compile())


@case(start({"x": 1}))
def a_handler_takes_the_failure_of_a_subgraph(engine: Engine) -> Any:
    below = engine.StateGraph(State)
    below.add_node("k", fails).add_edge(engine.START, "k")
    return handling(engine, below.compile())


@case(start({"x": 1}))
def a_handler_within_a_subgraph(engine: Engine) -> Any:
    below = handling(engine).compile()
    graph = engine.StateGraph(State)
    graph.add_node("sub", below).add_node("after", says("after"))
    return graph.add_edge(engine.START, "sub").add_edge("sub", "after")


@case(start({"x": 1}))
def a_handler_that_is_a_graph(engine: Engine) -> Any:
    below = engine.StateGraph(State)
    below.add_node("k", says("k")).add_edge(engine.START, "k")
    return handling(engine, handler=below.compile())


@case(start({"x": 1}), ways=ASYNC)
def async_nodes_and_async_handlers(engine: Engine) -> Any:
    async def node(state: State) -> None:
        raise ValueError("async")

    async def handler(state: State, error: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"log": [f"{error.node}: {error.error}"]}

    handler.__annotations__["error"] = engine.NodeError
    return handling(engine, node, handler)


@case(start({"x": 1}))
def a_handler_gets_the_input_as_its_node_saw_it(engine: Engine) -> Any:
    def node(state: Seen) -> None:
        raise ValueError(type(state).__name__)

    def handler(state: Any, error: Any) -> dict[str, Any]:
        return {"log": [f"{type(state).__name__} {state.x}"]}

    handler.__annotations__["error"] = engine.NodeError
    return handling(engine, node, handler)


@case(start({"x": 1}), go_on(), interrupt_after="*")
def a_breakpoint_after_a_handler(engine: Engine) -> Any:
    return handling(engine, handler=tells(engine, "z"))


@case(start({"x": 1}), go_on(), interrupt_after=["a"])
def a_breakpoint_after_the_node_that_failed(engine: Engine) -> Any:
    return handling(engine, handler=tells(engine, "z"))


@case(start({"x": 1}), update({"log": ["by hand"]}, "a"), go_on())
def an_update_in_the_stead_of_a_failed_handler(engine: Engine) -> Any:
    return handling(engine, handler=fails)


# Defaults.


@case(start({"x": 1}))
def one_handler_for_all(engine: Engine) -> Any:
    graph = engine.StateGraph(State)
    graph.add_node("a", fails).add_node("b", fails)
    graph.add_edge(engine.START, "a").add_edge(engine.START, "b")
    return graph.set_node_defaults(error_handler=tells(engine))


@case(start({"x": 1}))
def a_handler_of_its_own_wins(engine: Engine) -> Any:
    graph = handling(engine)
    graph.add_node("b", fails).add_edge(engine.START, "b")
    return graph.set_node_defaults(error_handler=lambda state: {"log": ["default"]})


@case(start({"x": 1}))
def a_failing_handler_goes_to_no_default(engine: Engine) -> Any:
    return handling(engine, handler=fails).set_node_defaults(error_handler=tells(engine))


@case(start({"x": 1}))
def defaults_are_not_for_subgraphs(engine: Engine) -> Any:
    below = engine.StateGraph(State)
    below.add_node("k", fails).add_edge(engine.START, "k")
    graph = engine.StateGraph(State)
    graph.add_node("sub", below.compile()).add_edge(engine.START, "sub")
    return graph.set_node_defaults(error_handler=tells(engine))


@case(start({"x": 1}))
def a_handler_is_tried_again_by_default(engine: Engine) -> Any:
    calls: list[int] = []

    def handler(state: State) -> dict[str, Any]:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("down")
        return {"log": [f"call {len(calls)}"]}

    retry = engine.RetryPolicy(initial_interval=0.001, jitter=False)
    return handling(engine, handler=handler).set_node_defaults(retry_policy=retry)


@case(start({"x": 1}))
def the_retries_of_a_node_are_not_its_handlers(engine: Engine) -> Any:
    def handler(state: State) -> None:
        raise ConnectionError("down")

    retry = engine.RetryPolicy(initial_interval=0.001, jitter=False)
    return handling(engine, handler=handler, retry_policy=retry)


@case(start({"x": 1}))
def what_the_entry_branch_raises_is_no_nodes_failure(engine: Engine) -> Any:
    graph = engine.StateGraph(State)
    graph.add_node("a", says("a")).add_edge(engine.START, "a")
    return graph.set_node_defaults(error_handler=tells(engine))


@case(start({"x": 1}))
def the_first_policy_that_speaks_for_an_error_decides(engine: Engine) -> Any:
    raised = [ConnectionError("a"), KeyError("b"), ConnectionError("c"), KeyError("d")]

    def node(state: State) -> None:
        raise raised.pop(0)

    retry = [
        engine.RetryPolicy(0.001, max_attempts=3, retry_on=ConnectionError, jitter=False),
        engine.RetryPolicy(0.001, max_attempts=5, retry_on=(KeyError,), jitter=False),
    ]
    graph = engine.StateGraph(State)
    return graph.add_node("a", node, retry_policy=retry).add_edge(engine.START, "a")


@case(start({"x": 1}))
def attempts_are_counted_and_their_beginning_is_kept(engine: Engine) -> Any:
    seen: list[Any] = []

    def node(state: State, runtime: Any) -> dict[str, Any]:
        seen.append(runtime.execution_info)
        if len(seen) < 3:
            raise ConnectionError("down")
        return {"log": [info.node_attempt for info in seen]
                       + [len({info.node_first_attempt_time for info in seen})]}  # fmt: skip

    retry = engine.RetryPolicy(initial_interval=0.001, jitter=False)
    graph = engine.StateGraph(State)
    return graph.add_node("a", node, retry_policy=retry).add_edge(engine.START, "a")


@case(start({"x": 1}))
def a_policy_for_nothing_an_exception_could_be(engine: Engine) -> Any:
    retry = engine.RetryPolicy(0.001, retry_on=5)
    graph = engine.StateGraph(State)
    return graph.add_node("a", fails, retry_policy=retry).add_edge(engine.START, "a")


# Timeouts.


async def slow(state: State) -> dict[str, Any]:
    await asyncio.sleep(600)
    return {"log": ["too late"]}


def alone(engine: Engine, node: Any, **policies: Any) -> Any:
    return engine.StateGraph(State).add_node("a", node, **policies).add_edge(engine.START, "a")


@case(start({"x": 1}), ways=ASYNC)
def a_node_takes_too_long(engine: Engine) -> Any:
    return alone(engine, slow, timeout=timedelta(milliseconds=5))


@case(start({"x": 1}), ways=ASYNC)
def a_node_does_nothing_for_too_long(engine: Engine) -> Any:
    return alone(engine, slow, timeout=engine.TimeoutPolicy(idle_timeout=0.005, run_timeout=60))


@case(start({"x": 1}), ways=ASYNC)
def a_node_is_in_time(engine: Engine) -> Any:
    async def node(state: State) -> dict[str, Any]:
        engine.get_stream_writer()("on it")
        return {"log": ["in time"]}

    return alone(engine, node, timeout=60)


@case(start({"x": 1}), ways=ASYNC, leaps=True)
def the_second_attempt_is_in_time(engine: Engine) -> Any:
    calls: list[int] = []

    async def node(state: State) -> dict[str, Any]:
        calls.append(1)
        return await slow(state) if len(calls) == 1 else {"log": [f"call {len(calls)}"]}

    retry = engine.RetryPolicy(initial_interval=0.001, jitter=False)
    return alone(engine, node, timeout=0.5, retry_policy=retry)


@case(start({"x": 1}), ways=ASYNC)
def a_handler_takes_a_timeout(engine: Engine) -> Any:
    def handler(state: State, error: Any) -> dict[str, Any]:
        late = error.error
        return {"log": [type(late).__name__, late.kind, late.run_timeout, late.idle_timeout]}

    handler.__annotations__["error"] = engine.NodeError
    return handling(engine, slow, handler, timeout=0.005)


@case(start({"x": 1}), ways=ASYNC)
def a_branch_counts_in_its_nodes_time(engine: Engine) -> Any:
    async def choose(state: State) -> str:
        await asyncio.sleep(600)
        return "a"

    async def node(state: State) -> dict[str, Any]:
        return {"log": ["a"]}

    return alone(engine, node, timeout=0.01).add_conditional_edges("a", choose, ["a"])


@case(start({"x": 1}), answer("yes"), ways=ASYNC)
def a_interrupt_of_a_node_with_a_timeout(engine: Engine) -> Any:
    async def node(state: State) -> dict[str, Any]:
        return {"log": [engine.interrupt("sure?")]}

    return alone(engine, node, timeout=60)


@case(start({"x": 1}), ways=ASYNC, leaps=True)
def each_sent_task_has_its_own_timeout(engine: Engine) -> Any:
    async def node(state: State) -> dict[str, Any]:
        return await slow(state) if state["x"] == 2 else {"log": [f"{state['x']} in time"]}

    graph = engine.StateGraph(State)
    graph.add_node("a", node, timeout=60, error_handler=lambda state: {"log": ["handled"]})
    sends = [engine.Send("a", {"x": 1}), engine.Send("a", {"x": 2}, timeout=0.01)]
    return graph.add_conditional_edges(engine.START, lambda state: sends, ["a"])


@case(start({"x": 1}), go_on(), ways=ASYNC, interrupt_before=["a"])
def the_timeout_of_a_sent_task_is_stored_with_it(engine: Engine) -> Any:
    graph = engine.StateGraph(State)
    graph.add_node("a", slow)
    sends = [engine.Send("a", {"x": 1}, timeout=0.01)]
    return graph.add_conditional_edges(engine.START, lambda state: sends, ["a"])


@case(start({"x": 1}), ways=ASYNC, leaps=True)
def a_subgraph_takes_too_long(engine: Engine) -> Any:
    return alone(engine, alone(engine, slow).compile(), timeout=0.5)


@case(start({"x": 1}), ways=ASYNC)
def a_cancelled_error_of_the_nodes_own(engine: Engine) -> Any:
    async def node(state: State) -> None:
        raise asyncio.CancelledError

    return alone(engine, node)


@case(start({"x": 1}))
def a_cancelled_error_of_a_sync_node_is_handled(engine: Engine) -> Any:
    def node(state: State) -> None:
        raise asyncio.CancelledError

    def handler(state: State, error: Any) -> dict[str, Any]:
        return {"log": [type(error.error).__name__, str(error.error)]}

    handler.__annotations__["error"] = engine.NodeError
    return handling(engine, node, handler)


# Cached results.


def cached(engine: Engine, node: Any, **policy: Any) -> Any:
    """Return a graph whose first node has cached results, and whose second node doesn't."""
    graph = engine.StateGraph(State)
    graph.add_node("a", node, cache_policy=engine.CachePolicy(**policy))
    graph.add_node("z", says("z")).add_edge(engine.START, "a").add_edge("a", "z")
    inner = graph.compile
    graph.compile = lambda **options: inner(cache=engine.InMemoryCache(), **options)
    return graph


def counting(**also: Any) -> Any:
    """Return a node that logs the number of its calls."""
    calls: list[int] = []

    def node(state: State) -> dict[str, Any]:
        calls.append(1)
        return {"log": [f"call {len(calls)}"], **also}

    return node


@case(start({"x": 1}), start({"x": 1}))
def a_result_is_used_again_for_the_same_input(engine: Engine) -> Any:
    return cached(engine, counting(), key_func=lambda state: str(state["x"]))


@case(start({"x": 1}), start({"x": 2}), start({"x": 1}))
def another_key_is_another_result(engine: Engine) -> Any:
    return cached(engine, counting(), key_func=lambda state: str(state["x"]).encode())


@case(start({"x": 1}), start({"x": 1}))
def the_whole_input_is_the_key_by_default(engine: Engine) -> Any:
    # The log is longer in the second run, so the input differs.
    return cached(engine, counting())


@case(start({"x": 1}), start({"x": 1}))
def a_result_that_is_good_for_no_time(engine: Engine) -> Any:
    return cached(engine, counting(), key_func=lambda state: "same", ttl=0)


@case(start({"x": 1}), start({"x": 1}))
def jumps_and_sends_are_cached_with_the_result(engine: Engine) -> Any:
    goto = [engine.Send("w", {"x": 7}), "z"]
    node = counting()
    graph = cached(
        engine,
        lambda state: engine.Command(update=node(state), goto=goto),
        key_func=lambda state: "same",
    )
    return graph.add_node("w", lambda state: {"log": [f"w {state['x']}"]})


@case(start({"x": 1}), start({"x": 1}))
def a_result_of_nothing_is_cached(engine: Engine) -> Any:
    count = counting()
    return cached(engine, lambda state: count(state) and None, key_func=lambda state: "same")


@case(start({"x": 1}), start({"x": 1}))
def a_cached_task_beside_one_that_runs(engine: Engine) -> Any:
    graph = cached(engine, counting(), key_func=lambda state: "same")
    return graph.add_node("b", counting()).add_edge(engine.START, "b")


@case(start({"x": 1}), start({"x": 1}))
def a_failure_is_not_cached(engine: Engine) -> Any:
    return cached(engine, fails, key_func=lambda state: "same")


@case(start({"x": 1}), start({"x": 1}))
def a_subgraph_is_cached_as_a_node(engine: Engine) -> Any:
    below = alone(engine, counting()).compile()
    return cached(engine, below, key_func=lambda state: "same")


@case(start({"x": 1}), start({"x": 1}))
def the_cache_of_a_graph_is_not_for_its_subgraphs(engine: Engine) -> Any:
    below = engine.StateGraph(State)
    same = engine.CachePolicy(key_func=lambda state: "same")
    below.add_node("k", counting(), cache_policy=same).add_edge(engine.START, "k")
    graph = cached(engine, counting(), key_func=lambda state: "same")
    return graph.add_node("sub", below.compile()).add_edge("z", "sub")


@case(start({"x": 1}), start({"x": 1}))
def a_handlers_results_are_never_cached(engine: Engine) -> Any:
    graph = cached(engine, counting())
    graph.add_node("b", fails, error_handler=counting()).add_edge(engine.START, "b")
    same = engine.CachePolicy(key_func=lambda state: "same")
    return graph.set_node_defaults(cache_policy=same)


@case(start({"x": 1}), start({"x": 1}), ways=ASYNC)
def results_of_async_nodes_are_cached(engine: Engine) -> Any:
    count = counting()

    async def node(state: State) -> dict[str, Any]:
        return count(state)

    return cached(engine, node, key_func=lambda state: "same")


@case(start({"x": 1}), start({"x": 1}))
def a_cache_policy_without_a_cache(engine: Engine) -> Any:
    same = engine.CachePolicy(key_func=lambda state: "same")
    return alone(engine, counting(), cache_policy=same)
