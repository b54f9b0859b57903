"""Demonstration of the table of differences in both engines."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage

from hitl_django.engine import errors

from .cases_asking import asks, one, parallel
from .cases_flow import State, chain, says
from .differences import TABLE
from .engines import LANGGRAPH, OURS, Engine

pytestmark = pytest.mark.filterwarnings("ignore")

CONFIG = {"configurable": {"thread_id": "thread"}}
SHOWN: set[str] = set()


def shows(name: str) -> Callable[[Any], Any]:
    """Says which row a test shows."""
    SHOWN.add(name)
    return lambda test: test


def stored(engine: Engine, graph: Any, **options: Any) -> Any:
    """Return the graph with a saver of its own."""
    return graph.compile(checkpointer=engine.InMemorySaver(), **options)


def paused(engine: Engine, node: Any) -> Any:
    """Return a graph of one node, stopped at its first question."""
    graph = stored(engine, one(engine, node))
    graph.invoke({"x": 1}, CONFIG)
    return graph


def error_of(call: Callable[[], Any]) -> BaseException | None:
    """Return the exception of a call."""
    try:
        call()
    except Exception as error:
        return error
    return None


def test_every_documented_difference_from_langgraph_has_a_test_and_a_reason() -> None:
    from . import test_failing_differences  # noqa: F401 (it shows further rows)

    names = [row.name for row in TABLE]
    assert len(set(names)) == len(names)
    assert set(names) == SHOWN
    assert all(row.langgraph and row.here and row.why for row in TABLE)


def catching(engine: Engine, caught: type[BaseException]) -> Any:
    def node(state: Any) -> dict[str, Any]:
        try:
            return {"log": [engine.interrupt("q")]}
        except caught:
            return {"log": ["went on"]}

    return node


@shows("the pause is a BaseException")
def test_except_exception_in_node_does_not_catch_an_interrupt_unlike_langgraph() -> None:
    assert paused(LANGGRAPH, catching(LANGGRAPH, Exception)).get_state(CONFIG).values["log"]
    ours = paused(OURS, catching(OURS, Exception)).get_state(CONFIG)
    assert (ours.values["log"], [asked.value for asked in ours.interrupts]) == ([], ["q"])
    assert not issubclass(errors.GraphInterrupt, Exception)


@shows("a swallowed pause pauses all the same")
def test_bare_except_around_interrupt_still_pauses_and_is_logged_unlike_langgraph(
    caplog: pytest.LogCaptureFixture,
) -> None:
    theirs = paused(LANGGRAPH, catching(LANGGRAPH, BaseException))
    assert theirs.get_state(CONFIG).values["log"] == ["went on"]
    ours = paused(OURS, catching(OURS, BaseException))
    assert [asked.value for asked in ours.get_state(CONFIG).interrupts] == ["q"]
    assert "node a caught an interrupt() and returned" in caplog.text
    assert ours.invoke(OURS.Command(resume="yes"), CONFIG)["log"] == ["yes"]


UNKNOWN = "0" * 32


@shows("a thread has one run at a time")
def test_two_concurrent_resumes_of_an_interrupt_run_the_node_once_unlike_langgraph() -> None:
    async def answer_twice(engine: Engine) -> list[str]:
        done: list[str] = []

        async def node(state: Any) -> dict[str, Any]:
            answer = engine.interrupt("q")
            await asyncio.sleep(0)
            done.append(answer)
            return {"log": [answer]}

        graph = stored(engine, one(engine, node))
        await graph.ainvoke({"x": 1}, CONFIG)
        both = (graph.ainvoke(engine.Command(resume=said), CONFIG) for said in ("yes", "no"))
        await asyncio.gather(*both, return_exceptions=True)
        return sorted(done)

    assert asyncio.run(answer_twice(LANGGRAPH)) == ["no", "yes"]
    assert asyncio.run(answer_twice(OURS)) == ["yes"]


@shows("a map names open questions only")
def test_resume_map_with_unknown_id_raises_error_unlike_langgraph() -> None:
    theirs = paused(LANGGRAPH, asks(LANGGRAPH, "q"))
    assert "__interrupt__" in theirs.invoke(LANGGRAPH.Command(resume={UNKNOWN: 1}), CONFIG)
    ours = paused(OURS, asks(OURS, "q"))
    [asked] = ours.get_state(CONFIG).interrupts
    with pytest.raises(errors.UnknownInterruptError) as raised:
        ours.invoke(OURS.Command(resume={UNKNOWN: 1, asked.id: 2}), CONFIG)
    assert raised.value.reason == "not_pending"
    assert raised.value.interrupt_ids == (UNKNOWN,)
    assert raised.value.pending_ids == (asked.id,)
    assert ours.invoke(OURS.Command(resume={asked.id: 2}), CONFIG)["log"] == [2]


@shows("an empty map is an error")
def test_resume_with_empty_map_raises_error_unlike_langgraph() -> None:
    theirs = paused(LANGGRAPH, asks(LANGGRAPH, "q"))
    assert "__interrupt__" in theirs.invoke(LANGGRAPH.Command(resume={}), CONFIG)
    ours = paused(OURS, asks(OURS, "q"))
    with pytest.raises(errors.UnknownInterruptError) as raised:
        ours.invoke(OURS.Command(resume={}), CONFIG)
    assert raised.value.reason == "empty_map"


@shows("a value needs one open question")
def test_resume_value_without_id_for_two_interrupts_raises_error_with_ids_unlike_langgraph() -> (
    None
):
    raised = {}
    for engine in (LANGGRAPH, OURS):
        graph = parallel(engine, a=asks(engine, "qa"), b=asks(engine, "qb"))
        graph = stored(engine, graph)
        graph.invoke({"x": 1}, CONFIG)
        error = error_of(lambda g=graph, e=engine: g.invoke(e.Command(resume=1), CONFIG))
        asked = sorted(asked.id for asked in graph.get_state(CONFIG).interrupts)
        raised["ours" if engine is OURS else "langgraph"] = (error, asked)
    assert type(raised["langgraph"][0]) is RuntimeError
    error, open_ids = raised["ours"]
    assert isinstance(error, errors.UnknownInterruptError)
    assert isinstance(error, RuntimeError)
    assert (error.reason, list(error.pending_ids)) == ("ambiguous", open_ids)


@shows("nothing pending is an error")
def test_resume_of_finished_thread_raises_error_that_nothing_is_pending_unlike_langgraph() -> None:
    theirs = paused(LANGGRAPH, asks(LANGGRAPH, "q"))
    theirs.invoke(LANGGRAPH.Command(resume="first"), CONFIG)
    assert error_of(lambda: theirs.invoke(LANGGRAPH.Command(resume="late"), CONFIG)) is None
    ours = paused(OURS, asks(OURS, "q"))
    ours.invoke(OURS.Command(resume="first"), CONFIG)
    before = list(ours.get_state_history(CONFIG))
    with pytest.raises(errors.NothingPendingError):
        ours.invoke(OURS.Command(resume="late"), CONFIG)
    assert list(ours.get_state_history(CONFIG)) == before
    assert "__interrupt__" in ours.invoke({"x": 2}, CONFIG)


@shows("an empty thread can't be resumed")
def test_resume_of_thread_without_runs_raises_thread_not_found_unlike_langgraph() -> None:
    theirs = stored(LANGGRAPH, one(LANGGRAPH, asks(LANGGRAPH, "q")))
    error = error_of(lambda: theirs.invoke(LANGGRAPH.Command(resume="a"), CONFIG))
    assert not isinstance(error, LookupError)
    ours = stored(OURS, one(OURS, asks(OURS, "q")))
    with pytest.raises(errors.ThreadNotFound, match="'thread' has no checkpoint to resume"):
        ours.invoke(OURS.Command(resume="a"), CONFIG)
    assert list(ours.get_state_history(CONFIG)) == []


@shows("an empty Command is an error")
def test_empty_command_raises_empty_input_error_unlike_langgraph() -> None:
    theirs = paused(LANGGRAPH, asks(LANGGRAPH, "q"))
    for empty in (LANGGRAPH.Command(), LANGGRAPH.Command(resume=None)):
        assert error_of(lambda empty=empty: theirs.invoke(empty, CONFIG)) is not None
    ours = paused(OURS, asks(OURS, "q"))
    for empty in (OURS.Command(), OURS.Command(resume=None)):
        with pytest.raises(errors.EmptyInputError, match=r"resume=\{id: None\}"):
            ours.invoke(empty, CONFIG)


@shows("an answer is used once")
def test_response_to_first_interrupt_is_not_reused_for_the_second_unlike_langgraph() -> None:
    left = {}
    for name, engine in (("langgraph", LANGGRAPH), ("ours", OURS)):
        graph = paused(engine, asks(engine, "one", "two"))
        graph.invoke(engine.Command(resume="first"), CONFIG)
        graph.invoke(None, CONFIG)
        seen = graph.get_state(CONFIG)
        left[name] = (seen.values["log"], [asked.value for asked in seen.interrupts])
    assert left == {"langgraph": (["first", "first"], []), "ours": ([], ["two"])}


@shows("a breakpoint's value answers nothing")
def test_resume_value_at_breakpoint_is_not_used_for_the_next_interrupt_unlike_langgraph() -> None:
    left = {}
    for name, engine in (("langgraph", LANGGRAPH), ("ours", OURS)):
        graph = stored(engine, one(engine, asks(engine, "q")), interrupt_before=["a"])
        graph.invoke({"x": 1}, CONFIG)
        graph.invoke(engine.Command(resume="go"), CONFIG)
        seen = graph.get_state(CONFIG)
        left[name] = (seen.values["log"], [asked.value for asked in seen.interrupts])
    assert left == {"langgraph": (["go"], []), "ours": ([], ["q"])}


@shows("a corrected answer replaces the first")
def test_second_response_after_failed_node_replaces_the_first_unlike_langgraph() -> None:
    def node(engine: Engine) -> Any:
        def ask(state: Any) -> dict[str, Any]:
            return {"log": [10 // engine.interrupt("q")]}

        return ask

    theirs = paused(LANGGRAPH, node(LANGGRAPH))
    ours = paused(OURS, node(OURS))
    for graph, engine in ((theirs, LANGGRAPH), (ours, OURS)):
        with pytest.raises(ZeroDivisionError):
            graph.invoke(engine.Command(resume=0), CONFIG)
    with pytest.raises(ZeroDivisionError):
        theirs.invoke(LANGGRAPH.Command(resume=5), CONFIG)
    assert ours.invoke(OURS.Command(resume=5), CONFIG)["log"] == [2]


@shows("no questions without a saver")
def test_interrupt_without_saver_raises_error_for_missing_saver_unlike_langgraph() -> None:
    assert "__interrupt__" in one(LANGGRAPH, asks(LANGGRAPH, "q")).compile().invoke({"x": 1})
    ours = one(OURS, asks(OURS, "q")).compile()
    with pytest.raises(
        errors.NoSaverError,
        match=r"Node 'a' called interrupt\(\), but the graph has no checkpointer",
    ):
        ours.invoke({"x": 1})
    unsaved = ours.invoke({"x": 1}, {"configurable": {"allow_unsaved": True}})
    assert [asked.value for asked in unsaved["__interrupt__"]] == ["q"]


@shows("payloads are plain JSON")
def test_interrupt_payload_with_non_json_value_raises_error_with_path_unlike_langgraph() -> None:
    payload = {"order": [{"amount": 1 + 2j}]}
    assert paused(LANGGRAPH, asks(LANGGRAPH, {"when": {1, 2}})).get_state(CONFIG).interrupts
    ours = stored(OURS, one(OURS, asks(OURS, payload)))
    with pytest.raises(errors.UnserializableError) as raised:
        ours.invoke({"x": 1}, CONFIG)
    assert raised.value.path == "$.order[0].amount"


@shows("new input waits for open questions")
def test_new_input_during_pending_interrupt_raises_error_unlike_langgraph() -> None:
    theirs = paused(LANGGRAPH, asks(LANGGRAPH, "q"))
    assert "__interrupt__" in theirs.invoke({"x": 2}, CONFIG)
    ours = paused(OURS, asks(OURS, "q"))
    [asked] = ours.get_state(CONFIG).interrupts
    with pytest.raises(errors.PendingInterruptsError) as raised:
        ours.invoke({"x": 2}, CONFIG)
    assert raised.value.pending_ids == (asked.id,)
    assert ours.get_state(CONFIG).interrupts == (asked,)
    discarding = {"configurable": {**CONFIG["configurable"], "discard_pending": True}}
    assert ours.invoke({"x": 2}, discarding)["x"] == 2
    [later] = ours.get_state(CONFIG).interrupts
    assert later.id != asked.id


@shows("an unknown goto is an error")
def test_goto_of_node_to_unknown_node_raises_value_error_unlike_langgraph() -> None:
    theirs = one(LANGGRAPH, lambda s: LANGGRAPH.Command(goto="nowhere"))
    assert stored(LANGGRAPH, theirs).invoke({"x": 1}, CONFIG) == {"x": 1, "log": []}
    ours = one(OURS, lambda s: OURS.Command(goto="nowhere"))
    with pytest.raises(ValueError, match=r"Node 'a' goes to unknown node 'nowhere'. Nodes: a\."):
        stored(OURS, ours).invoke({"x": 1}, CONFIG)


@shows("an unknown goto is an error")
def test_invoke_with_goto_to_unknown_node_raises_invalid_update_error_unlike_langgraph() -> None:
    theirs = stored(LANGGRAPH, chain(LANGGRAPH, "a"))
    theirs.invoke({"x": 1}, CONFIG)
    assert error_of(lambda: theirs.invoke(LANGGRAPH.Command(goto="nowhere"), CONFIG)) is None
    ours = stored(OURS, chain(OURS, "a"))
    ours.invoke({"x": 1}, CONFIG)
    with pytest.raises(errors.InvalidUpdateError, match="goto: unknown node 'nowhere'"):
        ours.invoke(OURS.Command(goto="nowhere"), CONFIG)


@shows("an unknown update key is an error")
def test_invoke_with_update_of_unknown_key_raises_invalid_update_error_unlike_langgraph() -> None:
    theirs = stored(LANGGRAPH, chain(LANGGRAPH, "a"))
    theirs.invoke({"x": 1}, CONFIG)
    assert error_of(lambda: theirs.invoke(LANGGRAPH.Command(update={"y": 1}), CONFIG)) is None
    ours = stored(OURS, chain(OURS, "a"))
    ours.invoke({"x": 1}, CONFIG)
    with pytest.raises(errors.InvalidUpdateError, match=r"unknown key 'y'. Keys: x, log\."):
        ours.invoke(OURS.Command(update={"y": 1}), CONFIG)


@shows("an empty list turns breakpoints off")
def test_empty_interrupt_before_list_disables_compiled_breakpoints_unlike_langgraph() -> None:
    ended = {}
    for name, engine in (("langgraph", LANGGRAPH), ("ours", OURS)):
        graph = stored(engine, chain(engine, "a", "b"), interrupt_before=["b"])
        graph.invoke({"x": 1}, CONFIG, interrupt_before=[])
        ended[name] = graph.get_state(CONFIG).next
    assert ended == {"langgraph": ("b",), "ours": ()}


@shows("questions come in task order")
def test_interrupts_of_parallel_tasks_are_listed_in_task_order_unlike_langgraph() -> None:
    order = {}
    for name, engine in (("langgraph", LANGGRAPH), ("ours", OURS)):

        async def late(state: Any, engine: Engine = engine) -> Any:
            for _ in range(100):  # rounds of the event loop, of which the other needs a few
                await asyncio.sleep(0)
            return {"log": [engine.interrupt("qa")]}

        async def early(state: Any, engine: Engine = engine) -> Any:
            return {"log": [engine.interrupt("qb")]}

        graph = stored(engine, parallel(engine, a=late, b=early))
        asked = asyncio.run(graph.ainvoke({"x": 1}, CONFIG))["__interrupt__"]
        order[name] = [one.value for one in asked]
    assert order == {"langgraph": ["qb", "qa"], "ours": ["qa", "qb"]}


@shows("a failed branch fails its node")
def test_failed_conditional_edge_runs_its_node_again_unlike_langgraph() -> None:
    ended = {}
    for name, engine in (("langgraph", LANGGRAPH), ("ours", OURS)):
        calls: list[int] = []

        def route(state: Any, calls: list[int] = calls) -> str:
            calls.append(1)
            if len(calls) == 1:
                raise OSError("down")
            return "b"

        graph = chain(engine, "a").add_node("b", says("b"))
        graph = stored(engine, graph.add_conditional_edges("a", route, ["b"]))
        with pytest.raises(OSError, match="down"):
            graph.invoke({"x": 1}, CONFIG)
        graph.invoke(None, CONFIG)
        ended[name] = graph.get_state(CONFIG).values["log"]
    assert ended == {"langgraph": ["a"], "ours": ["a", "b"]}


@shows("a paused node has written nothing")
def test_node_paused_by_interrupt_in_its_conditional_edge_has_no_writes_unlike_langgraph() -> None:
    shown = {}
    for name, engine in (("langgraph", LANGGRAPH), ("ours", OURS)):
        graph = chain(engine, "a").add_node("b", says("b"))
        graph.add_conditional_edges("a", lambda s, e=engine: e.interrupt("where to?"), ["b"])
        graph = stored(engine, graph)
        shown[name] = graph.invoke({"x": 1}, CONFIG)["log"]
        assert graph.invoke(engine.Command(resume="b"), CONFIG)["log"] == ["a", "b"]
    assert shown == {"langgraph": ["a"], "ours": []}


@shows("a jump is on record")
def test_invoke_with_goto_stores_a_checkpoint_with_the_next_node_unlike_langgraph() -> None:
    recorded = {}
    for name, engine in (("langgraph", LANGGRAPH), ("ours", OURS)):
        graph = stored(engine, chain(engine, "a").add_node("b", asks(engine, "q")))
        graph.invoke({"x": 1}, CONFIG)
        graph.invoke(engine.Command(goto="b"), CONFIG)
        record = next(graph.get_state_history(CONFIG))
        recorded[name] = (record.next, [asked.value for asked in record.interrupts])
        assert graph.invoke(engine.Command(resume="r"), CONFIG)["log"] == ["a", "r"]
    assert recorded == {"langgraph": ((), []), "ours": (("b",), ["q"])}


@shows("a failed task streams no update")
def test_failed_task_after_resume_streams_no_update_unlike_langgraph() -> None:
    told = {}
    for name, engine in (("langgraph", LANGGRAPH), ("ours", OURS)):
        heard: list[Any] = []
        graph = paused(engine, lambda s, e=engine: 1 / e.interrupt("q"))
        with pytest.raises(ZeroDivisionError):
            heard.extend(graph.stream(engine.Command(resume=0), CONFIG))
        told[name] = heard
    assert told == {"langgraph": [{"a": None}], "ours": []}


@shows("a broken step can be looked at")
def test_state_after_conflicting_writes_is_readable_unlike_langgraph() -> None:
    for engine in (LANGGRAPH, OURS):
        graph = engine.StateGraph(State)
        for name in "ab":
            graph.add_node(name, says(name, x=1)).add_edge(engine.START, name)
        graph = stored(engine, graph)
        with pytest.raises(Exception, match="At key 'x': Can receive only one value per step"):
            graph.invoke({"x": 0}, CONFIG)
        error = error_of(lambda graph=graph: graph.get_state(CONFIG))
        assert (error is None) == (engine is OURS)


@shows("options of a call are checked")
@pytest.mark.parametrize("options", [{"stream_mode": "update"}, {"durability": "never"}])
def test_unknown_option_of_a_call_is_an_error_unlike_langgraph(options: dict[str, Any]) -> None:
    errors = {}
    for name, engine in (("langgraph", LANGGRAPH), ("ours", OURS)):
        graph = stored(engine, one(engine, lambda s: {"x": 1}))
        errors[name] = error_of(lambda graph=graph: [*graph.stream({"x": 0}, CONFIG, **options)])
    assert errors["langgraph"] is None
    assert isinstance(errors["ours"], ValueError)


@shows("messages carry no links")
def test_error_message_has_no_troubleshooting_link_unlike_langgraph() -> None:
    said = {}
    for name, engine in (("langgraph", LANGGRAPH), ("ours", OURS)):
        graph = stored(engine, one(engine, lambda s: 5))
        said[name] = str(error_of(lambda graph=graph: graph.invoke({"x": 1}, CONFIG)))
    assert said["ours"] == "Expected dict, got 5"
    assert said["langgraph"].startswith("Expected dict, got 5\nFor troubleshooting, visit")


@shows("records are of their own step")
def test_join_of_branches_of_different_length_is_recorded_as_a_separate_step() -> None:
    graph = chain(OURS, "a", "b", "c")
    graph.add_node("short", says("short")).add_node("join", says("join"))
    graph = stored(OURS, graph.add_edge("a", "short").add_edge(["short", "c"], "join"))
    graph.invoke({"x": 1}, CONFIG, durability="async")
    planned = [record.next for record in graph.get_state_history(CONFIG)]
    assert planned == [(), ("join",), ("c",), ("b", "short"), ("a",), ("__start__",)]


@shows("graph errors list all faults")
def test_compile_error_lists_all_faults_unlike_langgraph() -> None:
    said = {}
    for name, engine in (("langgraph", LANGGRAPH), ("ours", OURS)):
        graph = engine.StateGraph(State)
        graph.add_node("a", says("a")).add_edge("nowhere", "a").add_edge("a", "elsewhere")
        error = error_of(graph.compile)
        assert isinstance(error, ValueError)
        said[name] = str(error).splitlines()
    assert len(said["langgraph"]) == 1
    assert len(said["ours"]) == 3
    assert said["langgraph"][0] in said["ours"]


@shows("a node that is due has to be there")
def test_resume_after_node_was_removed_raises_graph_changed_error_unlike_langgraph() -> None:
    ended = {}
    for name, engine in (("langgraph", LANGGRAPH), ("ours", OURS)):
        graph = paused(engine, asks(engine, "q"))
        other = chain(engine, "other").compile(checkpointer=graph.checkpointer)
        error = error_of(lambda g=other, e=engine: g.invoke(e.Command(resume="yes"), CONFIG))
        ended[name] = type(error).__name__
        assert graph.invoke(engine.Command(resume="yes"), CONFIG)["log"] == ["yes"]
    assert ended == {"langgraph": "NoneType", "ours": "GraphChangedError"}


@shows("a packet to nowhere is an error")
def test_send_to_unknown_node_raises_value_error_unlike_langgraph() -> None:
    theirs = chain(LANGGRAPH, "a")
    theirs.add_conditional_edges("a", lambda s: [LANGGRAPH.Send("nowhere", 1)])
    assert stored(LANGGRAPH, theirs).invoke({"x": 1}, CONFIG)["log"] == ["a"]
    ours = chain(OURS, "a").add_conditional_edges("a", lambda s: [OURS.Send("nowhere", 1)])
    with pytest.raises(ValueError, match=r"Node 'a' goes to unknown node 'nowhere'. Nodes: a\."):
        stored(OURS, ours).invoke({"x": 1}, CONFIG)


@shows("an update waits for open questions")
def test_update_state_during_pending_interrupt_raises_error_unlike_langgraph() -> None:
    theirs = paused(LANGGRAPH, asks(LANGGRAPH, "q"))
    theirs.update_state(CONFIG, {"x": 5}, as_node="a")
    assert theirs.get_state(CONFIG).interrupts == ()
    ours = paused(OURS, asks(OURS, "q"))
    with pytest.raises(errors.PendingInterruptsError):
        ours.update_state(CONFIG, {"x": 5}, as_node="a")
    assert [asked.value for asked in ours.get_state(CONFIG).interrupts] == ["q"]
    discarding = {"configurable": {**CONFIG["configurable"], "discard_pending": True}}
    ours.update_state(discarding, {"x": 5}, as_node="a")
    assert ours.get_state(CONFIG).values["x"] == 5


@shows("an update loses no write")
def test_update_state_preserves_writes_of_finished_tasks_unlike_langgraph() -> None:
    left = {}
    for name, engine in (("langgraph", LANGGRAPH), ("ours", OURS)):
        graph = parallel(engine, a=says("a"), b=lambda s: {"x": 1 // 0})
        graph = stored(engine, graph.add_node("c", says("c")).add_edge(["a", "b"], "c"))
        with pytest.raises(ZeroDivisionError):
            graph.invoke({"x": 1}, CONFIG)
        graph.update_state(CONFIG, {"log": ["mended"]}, as_node="b")
        left[name] = graph.invoke(None, CONFIG)["log"]
    assert left == {"langgraph": ["mended", "z"], "ours": ["a", "mended", "c", "z"]}


@shows("an update loses no write")
def test_update_state_preserves_update_of_command_passed_to_invoke_unlike_langgraph() -> None:
    left = {}
    for name, engine in (("langgraph", LANGGRAPH), ("ours", OURS)):
        graph = stored(engine, chain(engine, "a"))
        graph.invoke({"x": 1}, CONFIG)
        graph.invoke(engine.Command(update={"log": ["told"]}), CONFIG)
        graph.update_state(CONFIG, {"log": ["updated"]})
        left[name] = graph.get_state(CONFIG).values["log"]
    assert left == {"langgraph": ["a", "updated"], "ours": ["a", "told", "updated"]}


@shows("a replayed beginning is a beginning")
def test_update_state_on_replayed_input_checkpoint_is_accepted_unlike_langgraph() -> None:
    for engine in (LANGGRAPH, OURS):
        graph = stored(engine, chain(engine, "a"))
        graph.invoke({"x": 1}, CONFIG)
        *_, first = graph.get_state_history(CONFIG)
        graph.invoke(None, first.config)
        [again] = [
            record
            for record in graph.get_state_history(CONFIG)
            if record.next == ("__start__",) and record.metadata["source"] == "fork"
        ]
        error = error_of(lambda g=graph, at=again: g.update_state(at.config, {"x": 2}))
        assert (error is None) == (engine is OURS)
        graph.update_state(first.config, {"x": 2})


@shows("a root has no graphs above it")
def test_root_checkpoint_after_subgraph_replay_has_no_parents_unlike_langgraph() -> None:
    parents = {}
    for name, engine in (("langgraph", LANGGRAPH), ("ours", OURS)):
        child = one(engine, asks(engine, "q")).compile()
        graph = engine.StateGraph(State).add_node("sub", child)
        graph = stored(engine, graph.add_edge(engine.START, "sub"))
        graph.invoke({"x": 1}, CONFIG)
        [task] = graph.get_state(CONFIG, subgraphs=True).tasks
        graph.invoke(None, task.state.config)
        newest = next(graph.get_state_history(CONFIG))
        parents[name] = sorted(ns.partition(":")[0] for ns in newest.metadata["parents"])
    assert parents == {"langgraph": ["", "sub"], "ours": []}


@shows("what others were answered is done")
def test_resume_at_old_checkpoint_repeats_only_the_resumed_task_unlike_langgraph() -> None:
    ran, left = {}, {}
    for name, engine in (("langgraph", LANGGRAPH), ("ours", OURS)):
        told: list[str] = []

        def ask(state: Any, which: str, engine: Engine = engine, told: Any = told) -> Any:
            told.append(f"{which}: {engine.interrupt(which)}")
            return {"log": [told[-1]]}

        graph = parallel(engine, **{which: partial(ask, which=which) for which in "ab"})
        graph = stored(engine, graph)
        graph.invoke({"x": 1}, CONFIG)
        seen = graph.get_state(CONFIG)
        ids = {asked.value: asked.id for asked in seen.interrupts}
        graph.invoke(engine.Command(resume={ids["a"]: "yes", ids["b"]: "yes"}), CONFIG)
        told.clear()
        left[name] = graph.invoke(engine.Command(resume={ids["a"]: "no"}), seen.config)["log"]
        ran[name] = sorted(told)
    assert ran == {"langgraph": ["a: yes", "b: yes"], "ours": ["a: no"]}
    assert left == {"langgraph": ["a: yes", "b: yes", "z"], "ours": ["a: no", "b: yes", "z"]}


@shows("async nodes run under a sync caller")
def test_async_node_runs_in_sync_invoke_unlike_langgraph() -> None:
    async def node(state: Any) -> dict[str, Any]:
        return {"log": ["a"]}

    with pytest.raises(TypeError, match="No synchronous function provided"):
        stored(LANGGRAPH, one(LANGGRAPH, node)).invoke({"x": 1}, CONFIG)
    assert stored(OURS, one(OURS, node)).invoke({"x": 1}, CONFIG)["log"] == ["a"]


def workflow(engine: Engine, function: Any, **options: Any) -> Any:
    """Return an entrypoint with a saver of its own."""
    return engine.entrypoint(engine.InMemorySaver(), **options)(function)


def asker(engine: Engine) -> Any:
    """Return a task that asks what it is given."""
    return engine.task(lambda payload: engine.interrupt(payload), name="ask")


@shows("a retry keeps what tasks returned")
def test_retried_workflow_does_not_repeat_finished_tasks_unlike_langgraph() -> None:
    ran: dict[str, list[int]] = {}
    for name, engine in (("theirs", LANGGRAPH), ("ours", OURS)):
        calls = ran.setdefault(name, [])
        count = engine.task(lambda x, calls=calls: calls.append(x), name="count")
        fails = [ConnectionError()]

        def flow(x: int, count: Any = count, fails: Any = fails) -> str:
            count(x).result()
            if fails:
                raise fails.pop()
            return "done"

        policy = engine.RetryPolicy(0.0001, jitter=False)
        assert workflow(engine, flow, retry_policy=policy).invoke(1, CONFIG) == "done"
    assert ran == {"theirs": [1, 1], "ours": [1]}


@shows("tasks side by side ask at once")
def test_parallel_task_interrupts_of_workflow_are_pending_together_unlike_langgraph() -> None:
    seen = {}
    for name, engine in (("theirs", LANGGRAPH), ("ours", OURS)):
        ask = asker(engine)

        def flow(x: int, ask: Any = ask) -> Any:
            return [called.result() for called in [ask("one"), ask("two")]]

        graph = workflow(engine, flow)
        graph.invoke(1, CONFIG)
        pending_interrupts = graph.get_state(CONFIG).interrupts
        seen[name] = [asked.value for asked in pending_interrupts]
        assert isinstance(
            error_of(lambda g=graph, e=engine: g.invoke(e.Command(resume=1), CONFIG)), RuntimeError
        )
    assert seen == {"theirs": ["one"], "ours": ["one", "two"]}
    answers = {asked.id: f"re {asked.value}" for asked in pending_interrupts}
    assert graph.invoke(OURS.Command(resume=answers), CONFIG) == ["re one", "re two"]


@shows("a task that nobody waited for may ask")
def test_interrupt_of_task_not_awaited_by_its_workflow_is_pending_unlike_langgraph() -> None:
    seen = {}
    for name, engine in (("theirs", LANGGRAPH), ("ours", OURS)):
        ask = asker(engine)

        def flow(x: int, ask: Any = ask) -> str:
            ask("q")
            return "went on"

        graph = workflow(engine, flow)
        graph.invoke(1, CONFIG)
        seen[name] = [asked.value for asked in graph.get_state(CONFIG).interrupts]
    assert seen == {"theirs": [], "ours": ["q"]}
    assert graph.invoke(OURS.Command(resume="yes"), CONFIG) == "went on"


@shows("a question surfaces once")
def test_interrupt_of_nested_workflow_is_listed_once_unlike_langgraph() -> None:
    seen = {}
    for name, engine in (("theirs", LANGGRAPH), ("ours", OURS)):
        ask = asker(engine)

        @engine.entrypoint()
        def inner(x: int, ask: Any = ask) -> Any:
            return ask("q").result()

        def flow(x: int, inner: Any = inner) -> Any:
            return inner.invoke(x)

        graph = workflow(engine, flow)
        graph.invoke(1, CONFIG)
        seen[name] = [asked.value for asked in graph.get_state(CONFIG).interrupts]
    assert seen == {"theirs": ["q", "q"], "ours": ["q"]}
    assert graph.invoke(OURS.Command(resume="yes"), CONFIG) == "yes"


@shows("batch() within a node goes one after the other")
def test_batch_inside_a_node_runs_inputs_on_one_os_thread_unlike_langgraph() -> None:
    threads: dict[str, set[int]] = {"ours": set(), "langgraph": set()}
    for name, engine in (("ours", OURS), ("langgraph", LANGGRAPH)):
        together = threading.Barrier(1 if engine is OURS else 2)
        noted = threads[name]

        def note(state: State, noted: set[int] = noted, together: Any = together) -> State:
            together.wait(60)
            noted.add(threading.get_ident())
            return {}

        inner = one(engine, note).compile()
        outer = one(
            engine, lambda state, inner=inner: len(inner.batch([{"x": 1}, {"x": 2}])) and {}
        )
        outer.compile().invoke({"x": 0})
    assert {name: len(noted) for name, noted in threads.items()} == {"ours": 1, "langgraph": 2}


@shows("a value that would come back as less is refused")
def test_instance_of_local_class_in_state_raises_unserializable_error_unlike_langgraph() -> None:
    def node(state: Any) -> dict[str, Any]:
        @dataclass
        class Local:
            x: int

        return {"log": [Local(1)]}

    theirs = stored(LANGGRAPH, one(LANGGRAPH, node))
    theirs.invoke({"x": 1}, CONFIG)
    assert theirs.get_state(CONFIG).values["log"] == [{"x": 1}]
    error = error_of(lambda: stored(OURS, one(OURS, node)).invoke({"x": 1}, CONFIG))
    assert isinstance(error, errors.UnserializableError)
    assert "register_model(Local)" in str(error)


def words(texts: Any) -> list[list[float]]:
    """Return how often two letters are in a text, and a one."""
    return [[float(text.count("a")), float(text.count("b")), 1.0] for text in texts]


def indexed(engine: Engine, *fields: str) -> Any:
    """Return a store with an index."""
    index = {"embed": words, "dims": 3, "fields": list(fields) or None}
    return engine.store.memory.InMemoryStore(index=index)


@shows("each item is on one page of a ranked search")
def test_ranked_store_search_pages_contain_each_item_once_unlike_langgraph() -> None:
    seen = {}
    for name, engine in (("theirs", LANGGRAPH), ("ours", OURS)):
        store = indexed(engine)
        store.put(("n",), "ranked", {"text": "a"})
        for key in ("1", "2", "3"):
            store.put(("n",), key, {"text": "a"}, index=False)
        pages = [store.search(("n",), query="a", limit=2, offset=at) for at in (0, 2)]
        seen[name] = [item.key for page in pages for item in page]
    assert seen == {"theirs": ["ranked", "1", "1", "2"], "ours": ["ranked", "1", "2", "3"]}


@shows("what is put again is embedded again")
def test_store_item_replaced_without_index_loses_its_embedding_unlike_langgraph() -> None:
    seen = {}
    for name, engine in (("theirs", LANGGRAPH), ("ours", OURS)):
        store = indexed(engine)
        store.put(("n",), "k", {"text": "a"})
        store.put(("n",), "k", {"text": "b"}, index=False)
        [found] = store.search(("n",), query="a")
        seen[name] = found.score is None
    assert seen == {"theirs": False, "ours": True}


@shows("a batch may hold a text twice")
def test_store_batch_with_equal_texts_is_stored_unlike_langgraph() -> None:
    seen = {}
    for name, engine in (("theirs", LANGGRAPH), ("ours", OURS)):
        store = indexed(engine, "text")
        put = engine.store.base.PutOp
        ops = [put(("n",), key, {"text": "a"}) for key in ("1", "2")]
        error = error_of(lambda store=store, ops=ops: store.batch(ops))
        seen[name] = type(error), len(store.search(("n",)))
    assert seen == {"theirs": (ValueError, 0), "ours": (type(None), 2)}


@shows("the whole item may be named")
def test_store_put_with_root_path_embeds_the_whole_item_unlike_langgraph() -> None:
    seen = {}
    for name, engine in (("theirs", LANGGRAPH), ("ours", OURS)):
        store = indexed(engine, "title")
        store.put(("n",), "k", {"text": "a"}, index=["$"])
        seen[name] = store.search(("n",), query="a")[0].score is None
    assert seen == {"theirs": True, "ours": False}


@shows("a filter meets any value")
def test_store_ordering_filter_skips_items_without_the_field_unlike_langgraph() -> None:
    seen = {}
    for name, engine in (("theirs", LANGGRAPH), ("ours", OURS)):
        store = engine.store.memory.InMemoryStore()
        store.put(("n",), "without", {})
        store.put(("n",), "with", {"age": 20})
        search = partial(store.search, ("n",), filter={"age": {"$gt": 18}})
        error = error_of(search)
        seen[name] = type(error) if error else [item.key for item in search()]
    assert seen == {"theirs": TypeError, "ours": ["with"]}


@shows("a namespace holds something")
def test_store_namespaces_without_items_are_not_listed_unlike_langgraph() -> None:
    seen = {}
    for name, engine in (("theirs", LANGGRAPH), ("ours", OURS)):
        store = engine.store.memory.InMemoryStore()
        store.get(("asked",), "k")
        store.put(("emptied",), "k", {})
        store.delete(("emptied",), "k")
        seen[name] = store.list_namespaces()
    assert seen == {"theirs": [("asked",), ("emptied",)], "ours": []}


@shows("an item is created once")
def test_store_item_put_again_keeps_created_at_unlike_langgraph() -> None:
    seen = {}
    for name, engine in (("theirs", LANGGRAPH), ("ours", OURS)):
        store = engine.store.memory.InMemoryStore()
        store.put(("n",), "k", {})
        created = store.get(("n",), "k").created_at
        while (now := datetime.now(UTC)) <= created:  # the clock has gone on
            pass
        store.put(("n",), "k", {})
        seen[name] = store.get(("n",), "k").created_at >= now
    assert seen == {"theirs": True, "ours": False}


@shows("a written message is stored as one")
def test_text_written_to_messages_channel_is_streamed_as_message_unlike_langgraph() -> None:
    def streamed(engine: Engine) -> Any:
        graph = engine.StateGraph(engine.MessagesState)
        graph.add_node("a", lambda state: {"messages": "hello"}).add_edge(engine.START, "a")
        (chunk,) = graph.compile().stream({"messages": "hi"}, stream_mode="updates")
        return chunk["a"]["messages"]

    assert streamed(LANGGRAPH) == "hello"
    written = streamed(OURS)
    assert (written["role"], written["content"], len(written["id"])) == ("user", "hello", 36)


@shows("a change in place is stored when the run leaves")
def test_state_value_changed_in_place_keeps_stored_history_unchanged_unlike_langgraph() -> None:
    def change(engine: Engine) -> tuple[list[int], int]:
        class Growing(TypedDict):
            found: Annotated[list[dict[str, Any]], operator.add]

        def add(state: Growing) -> dict[str, Any]:
            if len(state["found"]) == 3:
                state["found"][0]["seen"] = 1
            return {"found": [{"text": "x" * 1500, "seen": 0}]}

        graph = engine.StateGraph(Growing).add_node("add", add).add_edge(engine.START, "add")
        graph.add_conditional_edges(
            "add",
            lambda state: "add" if len(state["found"]) < 6 else engine.END,
            ["add", engine.END],
        )
        app = stored(engine, graph)
        app.invoke({"found": [{"text": "x" * 1500, "seen": 0}]}, CONFIG, durability="sync")
        history = [one.values["found"] for one in app.get_state_history(CONFIG)]
        seen = [found[0]["seen"] for found in history if found]
        return seen[1:-1], seen[0]

    assert change(LANGGRAPH) == ([1, 1, 0, 0], 1)
    assert change(OURS) == ([0, 0, 0, 0], 1)


@shows("functions of a dict run in order")
def test_functions_of_node_given_as_dict_run_one_after_another_in_dict_order_unlike_langgraph() -> (
    None
):
    threads: dict[str, set[int]] = {"ours": set(), "langgraph": set()}
    for name, engine in (("ours", OURS), ("langgraph", LANGGRAPH)):
        together = threading.Barrier(1 if engine is OURS else 2)
        noted = threads[name]

        def note(state: State, noted: set[int] = noted, together: Any = together) -> int:
            together.wait(60)
            noted.add(threading.get_ident())
            return 1

        graph = engine.StateGraph(dict).add_node("a", {"x": note, "y": note})
        assert graph.add_edge(engine.START, "a").compile().invoke({}) == {"x": 1, "y": 1}
    assert {name: len(noted) for name, noted in threads.items()} == {"ours": 1, "langgraph": 2}


@shows("ids of raised interrupts are like any others")
def test_two_nodes_raising_node_interrupt_have_different_interrupt_ids_unlike_langgraph() -> None:
    found = []
    for engine in (OURS, LANGGRAPH):

        def ask(state: State, error: Any = engine.NodeInterrupt) -> State:
            raise error("q")

        graph = one(engine, ask).add_node("other", ask).add_edge(engine.START, "other")
        made = stored(engine, graph)
        made.invoke({"x": 1}, CONFIG)
        found.append({each.id for each in made.get_state(CONFIG).interrupts})
    assert len(found[0]) == 2
    assert found[1] == {"placeholder-id"}


@shows("warnings have no kinds of their own")
def test_deprecated_parameter_warns_with_category_of_python_unlike_langgraph() -> None:
    for engine, kind in ((OURS, "DeprecationWarning"), (LANGGRAPH, "LangGraphDeprecatedSinceV10")):
        with pytest.deprecated_call() as caught:
            engine.StateGraph(State, config_schema=State)
        assert [each.category.__name__ for each in caught] == [kind]


@shows("metadata omits LangGraph's integration")
def test_message_metadata_has_no_key_ls_integration_unlike_langgraph() -> None:
    found = []
    for engine in (OURS, LANGGRAPH):
        inner = engine.StateGraph(engine.MessagesState)
        inner.add_node("say", lambda state: {"messages": [AIMessage("hi", id="1")]})
        outer = engine.StateGraph(engine.MessagesState).add_edge(engine.START, "call")
        below = inner.add_edge(engine.START, "say").compile()
        outer.add_node("call", below, metadata={"by": "me"})
        stream = outer.compile().stream({"messages": []}, stream_mode="messages", subgraphs=True)
        _, (_, metadata) = next(iter(stream))
        found.append(metadata.keys() & {"by", "ls_integration", "langgraph_node"})
    assert found == [{"langgraph_node", "by"}, {"langgraph_node", "by", "ls_integration"}]
