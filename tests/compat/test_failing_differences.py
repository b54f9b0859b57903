"""Rows of the table of differences about failing, slow and cached nodes."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from hitl_django.engine import errors

from .cases_failing import alone, cached, counting, fails, handling, slow
from .cases_flow import State, says
from .cases_functional import Flaky
from .engines import LANGGRAPH, OURS, Engine
from .test_differences import CONFIG, asks, error_of, one, shows, stored

pytestmark = pytest.mark.filterwarnings("ignore")

BOTH = (("langgraph", LANGGRAPH), ("ours", OURS))


@shows("a timeout holds under a sync caller")
def test_node_timeout_applies_in_sync_invoke_unlike_langgraph() -> None:
    raised = {
        name: type(error_of(lambda e=engine: alone(e, slow, timeout=0.01).compile().invoke({})))
        for name, engine in BOTH
    }
    assert raised == {"langgraph": ValueError, "ours": errors.NodeTimeoutError}


@shows("a sent timeout needs an async node")
def test_timeout_in_send_to_sync_node_raises_value_error_unlike_langgraph() -> None:
    raised = {}
    for name, engine in BOTH:
        leave = threading.Event()
        graph = engine.StateGraph(State)
        graph.add_node("a", lambda state, leave=leave: leave.wait(60) and None)
        send = engine.Send("a", {"x": 1}, timeout=0.01)
        graph.add_conditional_edges(engine.START, lambda s, send=send: [send], ["a"])

        async def run(graph: Any = graph, leave: Any = leave) -> Any:
            try:
                return await graph.compile().ainvoke({"x": 1})
            finally:
                leave.set()

        raised[name] = type(error_of(lambda run=run: asyncio.run(run())))
    assert raised == {"langgraph": LANGGRAPH.NodeTimeoutError, "ours": ValueError}


@shows("a handler's question can be seen")
def test_interrupt_of_error_handler_is_in_state_and_history_unlike_langgraph() -> None:
    seen = {}
    for name, engine in BOTH:
        graph = stored(engine, handling(engine, handler=asks(engine, "q")))
        graph.invoke({"x": 1}, CONFIG)
        now, recorded = graph.get_state(CONFIG), next(graph.get_state_history(CONFIG))
        seen[name] = [
            [task.name for task in state.tasks] + [asked.value for asked in state.interrupts]
            for state in (now, recorded)
        ]
        assert graph.invoke(engine.Command(resume="yes"), CONFIG)["log"] == ["yes"]
    assert seen == {"langgraph": [["a"]] * 2, "ours": [["a", "__error_handler__a", "q"]] * 2}


@shows("a handler that has finished stays finished")
def test_finished_error_handler_does_not_run_again_on_resume_unlike_langgraph() -> None:
    ended = {}
    for name, engine in BOTH:
        graph = handling(engine, handler=counting())
        graph.add_node("b", asks(engine, "q")).add_edge(engine.START, "b")
        graph = stored(engine, graph)
        graph.invoke({"x": 1}, CONFIG)
        ended[name] = graph.invoke(engine.Command(resume="yes"), CONFIG)["log"]
    assert ended == {"langgraph": ["call 2", "yes"], "ours": ["call 1", "yes"]}


class Decision(BaseModel):
    approved: bool


@shows("a wrong answer is nothing for a handler")
def test_response_violating_schema_is_not_passed_to_error_handler_unlike_langgraph() -> None:
    ended = {}
    for name, engine in BOTH:

        def node(state: Any, engine: Engine = engine) -> dict[str, Any]:
            return {"log": [engine.interrupt("q", response_schema=Decision).approved]}

        graph = stored(engine, handling(engine, node, lambda state: {"log": ["handled"]}))
        graph.invoke({"x": 1}, CONFIG)
        error_of(lambda g=graph, e=engine: g.invoke(e.Command(resume={"approved": "?"}), CONFIG))
        error_of(lambda g=graph, e=engine: g.invoke(e.Command(resume={"approved": True}), CONFIG))
        ended[name] = graph.get_state(CONFIG).values["log"]
    assert ended == {"langgraph": ["handled"], "ours": [True, "z"]}


@shows("an answer is never cached")
def test_result_of_node_resumed_after_interrupt_is_not_cached_unlike_langgraph() -> None:
    ended = {}
    for name, engine in BOTH:
        graph = stored(engine, cached(engine, asks(engine, "q"), key_func=lambda state: "same"))
        for thread in ("one", "two"):
            config = {"configurable": {"thread_id": thread}}
            ended[name] = graph.invoke({"x": 1}, config)["log"]
            if thread == "one":
                graph.invoke(engine.Command(resume="approved"), config)
    assert ended == {"langgraph": ["approved", "z"], "ours": []}


@shows("error and config are filled in by name")
def test_error_handler_parameters_are_matched_by_name_unlike_langgraph() -> None:
    raised = {}
    for name, engine in BOTH:

        def handler(state: Any, error: Any, config: Any) -> dict[str, Any]:
            return {"log": [error.node, sorted(config)[:1]]}

        handler.__annotations__.update(error=Exception, config=int)
        graph = handling(engine, handler=handler).compile()
        raised[name] = type(error_of(lambda graph=graph: graph.invoke({"x": 1})))
    assert raised == {"langgraph": TypeError, "ours": type(None)}


@shows("where nothing failed there is no error")
def test_error_parameter_of_ordinary_node_raises_missing_config_key_unlike_langgraph() -> None:
    told: dict[str, Any] = {}
    for name, engine in BOTH:

        def node(state: Any, error: Any, told: dict[str, Any] = told, name: str = name) -> None:
            told[name] = error

        node.__annotations__["error"] = engine.NodeError
        error = error_of(lambda e=engine, node=node: one(e, node).compile().invoke({"x": 1}))
        told.setdefault(name, str(error))
    assert told == {"langgraph": None, "ours": "Missing required config key 'error' for 'a'."}


@shows("a stored failure is an exception")
def test_error_passed_to_handler_after_reload_is_an_exception_unlike_langgraph() -> None:
    told: dict[str, list[Any]] = {}
    for name, engine in BOTH:
        heard: list[Any] = []

        def handler(state: Any, error: Any, heard: list[Any] = heard) -> dict[str, Any]:
            heard.append(error.error)
            if len(heard) == 1:
                raise OSError("down")
            return {"log": ["handled"]}

        handler.__annotations__["error"] = engine.NodeError
        graph = stored(engine, handling(engine, handler=handler))
        error_of(lambda graph=graph: graph.invoke({"x": 1}, CONFIG))
        graph.invoke(None, CONFIG)
        told[name] = [(str(error), isinstance(error, Exception)) for error in heard]
    assert told == {
        "langgraph": [("no", True), ("ValueError('no')", False)],
        "ours": [("no", True), ("no", True)],
    }


@shows("compiling changes no builder")
def test_graph_with_default_error_handler_compiles_twice_unlike_langgraph() -> None:
    raised = {}
    for name, engine in BOTH:
        graph = alone(engine, fails).set_node_defaults(error_handler=lambda state: None)
        graph.compile()
        raised[name] = type(error_of(graph.compile))
    assert raised == {"langgraph": ValueError, "ours": type(None)}


@shows("a refused request isn't tried again")
def test_exception_with_status_404_is_not_retried_by_default_unlike_langgraph() -> None:
    calls = {}
    for name, engine in BOTH:
        for status in (404, 503):
            made: list[int] = []

            class Refused(Exception):
                response = SimpleNamespace(status_code=status)

            def node(state: Any, made: list[int] = made, kind: Any = Refused) -> None:
                made.append(1)
                raise kind

            retry = engine.RetryPolicy(0.001, max_attempts=2, jitter=False)
            graph = alone(engine, node, retry_policy=retry).compile()
            error_of(lambda graph=graph: graph.invoke({"x": 1}))
            calls[name, status] = len(made)
    assert calls == {("langgraph", 404): 2, ("langgraph", 503): 2, ("ours", 404): 1,
                     ("ours", 503): 2}  # fmt: skip


@shows("an answer is used before a run drains")
def test_draining_run_resumes_the_interrupted_node_before_stopping_unlike_langgraph() -> None:
    left = {}
    for name, engine in BOTH:
        built = engine.StateGraph(State).add_node("b", says("b"))
        built.add_node("a", lambda state, e=engine: {"log": [e.interrupt("q")]})
        graph = stored(engine, built.add_edge(engine.START, "a").add_edge("a", "b"))
        graph.invoke({"x": 1}, CONFIG)
        control = engine.RunControl()
        control.request_drain()
        error = error_of(
            lambda e=engine, g=graph, c=control: g.invoke(e.Command(resume=1), CONFIG, control=c)
        )
        assert type(error).__name__ == "GraphDrained"
        left[name] = graph.get_state(CONFIG).next
        assert graph.invoke(None, CONFIG)["log"] == [1, "b"]
    assert left == {"langgraph": ("a",), "ours": ("b",)}


@shows("an answer lasts through a retry of the caller")
def test_subgraph_retried_after_resume_reuses_the_response_unlike_langgraph() -> None:
    shown = {}
    for name, engine in BOTH:
        flaky = Flaky(1)

        def node(state: State, engine: Engine = engine, flaky: Flaky = flaky) -> dict[str, Any]:
            return {"log": [engine.interrupt("q"), flaky("fine")]}

        retry = engine.RetryPolicy(initial_interval=0.0001, jitter=False)
        below = engine.StateGraph(State).add_node("n", node).add_edge(engine.START, "n").compile()
        graph = engine.StateGraph(State).add_node("a", below, retry_policy=retry)
        graph = stored(engine, graph.add_edge(engine.START, "a"))
        graph.invoke({"x": 1}, CONFIG)
        shown[name] = "__interrupt__" in graph.invoke(engine.Command(resume="yes"), CONFIG)
    assert shown == {"langgraph": True, "ours": False}
