"""Database sessions that end while a node runs: the run is resumed."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import DatabaseError, Error, connection, connections, transaction
from typing_extensions import TypedDict

from hitl_django import END, START, StateGraph, once, services, task, transact
from hitl_django.conf import hitl
from hitl_django.contrib.agents import ToolNode
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.state.messages import MessagesState
from hitl_django.engine.types import RetryPolicy
from hitl_django.graph_registry import registry
from hitl_django.models import Run
from tests.databases import end_session

from . import invariants, recovery

pytestmark = [
    pytest.mark.sessions,
    pytest.mark.database("postgresql"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.promise("P6"),
    pytest.mark.promise("P7"),
]


class State(TypedDict, total=False):
    done: Annotated[list[str], operator.add]


@dataclass
class Trial:
    """The work of a graph's nodes, and the times at which they lose their database session."""

    #: The number of sessions that still end.
    losses: int = 1
    #: The number of times that the work began.
    begun: list[str] = field(default_factory=list)
    #: Callers that were told of a failure although the work succeeded.
    told: list[str] = field(default_factory=list)

    def lose(self) -> None:
        if self.losses:
            self.losses -= 1
            end_session()

    def write(self, name: str = "row") -> str:
        self.begun.append(name)
        Group.objects.create(name=f"{name} {Group.objects.count()}")
        return name


Act = Callable[[Trial], Any]


def loses_before(trial: Trial) -> None:
    trial.lose()
    transact("k", trial.write)


def loses_inside(trial: Trial) -> None:
    def act() -> None:
        trial.write()
        trial.lose()
        Group.objects.count()

    transact("k", act)


def loses_at_the_end(trial: Trial) -> None:
    def act() -> None:
        trial.write()
        trial.lose()

    transact("k", act)


def swallows_inside(trial: Trial) -> None:
    def act() -> None:
        trial.write()
        trial.lose()
        try:
            Group.objects.count()
        except DatabaseError:
            trial.told.append("inside")

    transact("k", act)
    trial.told.clear()  # no caller that could have continued has seen the error


def goes_on_after_transact(trial: Trial) -> None:
    try:
        loses_inside(trial)
    except Exception:
        trial.told.append("node")


def loses_in_once(trial: Trial) -> None:
    def act() -> None:
        trial.lose()
        Group.objects.count()

    once("k", act)
    transact("row", trial.write)


def loses_before_a_result_is_kept(trial: Trial) -> None:
    once("k", trial.lose)
    transact("row", trial.write)


def loses_in_a_query(trial: Trial) -> None:
    transact("row", trial.write)
    trial.lose()
    Group.objects.count()


def loses_in_a_transaction(trial: Trial) -> None:
    transact("row", trial.write)
    loses_in_a_transaction_of_its_own(trial)


def leaves_it_open(trial: Trial) -> None:
    transact("row", trial.write)
    if trial.losses:
        transaction.atomic().__enter__()
        transaction.atomic().__enter__()
        trial.lose()
        Group.objects.count()


def loses_in_a_transaction_of_its_own(trial: Trial) -> None:
    with transaction.atomic():
        trial.lose()
        Group.objects.count()


def translates(trial: Trial) -> None:
    transact("row", trial.write)
    try:
        loses_in_a_transaction_of_its_own(trial)
    except Error as error:
        raise ValueError("no groups") from error


def goes_on(trial: Trial) -> None:
    transact("row", trial.write)
    try:
        trial.lose()
        Group.objects.count()
    except Error:
        pass


ACTS: dict[str, Act] = {
    act.__name__.replace("_", " "): act
    for act in (
        loses_before,
        loses_inside,
        loses_at_the_end,
        swallows_inside,
        goes_on_after_transact,
        loses_in_once,
        loses_before_a_result_is_kept,
        loses_in_a_query,
        loses_in_a_transaction,
        leaves_it_open,
        translates,
        goes_on,
    )
}

Node = Callable[[Any], Any]
Build = Callable[[Trial, Node], Any]


def alone(trial: Trial, node: Node) -> StateGraph:
    return StateGraph(State).add_node("n", node).add_edge(START, "n").add_edge("n", END)


def beside_another(trial: Trial, node: Node) -> StateGraph:
    graph = alone(trial, node).add_node("m", lambda state: {"done": ["m"]})
    return graph.add_edge(START, "m").add_edge("m", END)


def tried_again(trial: Trial, node: Node) -> StateGraph:
    def hear(error: Exception) -> bool:
        trial.told.append("policy")
        return True

    graph = StateGraph(State)
    policy = RetryPolicy(0.0, max_attempts=3, jitter=False, retry_on=hear)
    graph.add_node("n", node, retry_policy=policy)
    return graph.add_edge(START, "n").add_edge("n", END)


def handled(trial: Trial, node: Node) -> StateGraph:
    graph = StateGraph(State)
    graph.add_node("n", node, error_handler=lambda state: trial.told.append("handler"))
    return graph.add_edge(START, "n").add_edge("n", END)


def below(trial: Trial, node: Node) -> StateGraph:
    return alone(trial, tried_again(trial, node).compile().invoke)


def below_without_a_saver(trial: Trial, node: Node) -> StateGraph:
    inner = tried_again(trial, loses(loses_in_a_transaction_of_its_own, trial))
    return alone(trial, inner.compile(checkpointer=False).invoke)


def below_with_a_saver_of_its_own(trial: Trial, node: Node) -> StateGraph:
    inner = tried_again(trial, loses(loses_in_a_transaction_of_its_own, trial))
    compiled = inner.compile(checkpointer=InMemorySaver())
    place = {"configurable": {"thread_id": "its own"}}
    return alone(trial, lambda state: compiled.invoke({"done": []}, place))


def called_as_a_task(trial: Trial, node: Node) -> StateGraph:
    called = task(node)

    def calls(state: Any) -> Any:
        try:
            return called(state).result()
        except Exception:
            trial.told.append("caller")

    return alone(trial, calls)


def branching(trial: Trial, node: Node) -> StateGraph:
    def route(state: Any) -> str:
        node(state)
        return END

    graph = StateGraph(State).add_node("n", lambda state: {"done": ["n"]}).add_edge(START, "n")
    return graph.add_conditional_edges("n", route)


def reducing(trial: Trial, node: Node) -> StateGraph:
    def add(before: list[str], more: list[str]) -> list[str]:
        if more:
            loses_in_a_transaction_of_its_own(trial)
        return [*before, *more]

    reduced = TypedDict("reduced", {"done": Annotated[list[str], add]})  # noqa: UP013
    graph = StateGraph(reduced).add_node("n", lambda state: {"done": ["n"]})
    return graph.add_edge(START, "n").add_edge("n", END)


def using_tools(trial: Trial, node: Node) -> StateGraph:
    def pay() -> str:
        node(None)
        return "paid"

    def ask(state: Any) -> Any:
        calls = [{"name": "pay", "args": {}, "id": name, "type": "tool_call"} for name in "ab"]
        return {"messages": [{"role": "assistant", "content": "", "tool_calls": calls}]}

    def read(state: Any) -> None:
        trial.told += [str(said) for said in state["messages"] if "Error" in str(said)]

    graph = StateGraph(MessagesState).add_node("ask", ask).add_node("read", read)
    graph.add_node("tools", ToolNode([pay], handle_tool_errors=True))
    graph.add_edge(START, "ask").add_edge("ask", "tools").add_edge("tools", "read")
    return graph.add_edge("read", END)


def awaiting(trial: Trial, node: Node) -> StateGraph:
    """Run on Django's OS thread for queries of async code, whose connection stays open."""

    async def queries(state: Any) -> State:
        await sync_to_async(trial.lose)()
        await Group.objects.acount()
        await sync_to_async(connections.close_all)()  # restore the state for later tests
        return {"done": ["n"]}

    return alone(trial, queries)


def awaiting_in_time(trial: Trial, node: Node) -> StateGraph:
    async def queries(state: Any) -> Any:
        async with asyncio.TaskGroup() as group:
            group.create_task(sync_to_async(node)(state))
        await sync_to_async(connections.close_all)()
        return {"done": ["n"]}

    graph = StateGraph(State).add_node("n", queries, timeout=60)
    return graph.add_edge(START, "n").add_edge("n", END)


WAYS: dict[str, Build] = {
    way.__name__.replace("_", " "): way
    for way in (
        beside_another,
        tried_again,
        handled,
        below,
        below_without_a_saver,
        below_with_a_saver_of_its_own,
        called_as_a_task,
        branching,
        reducing,
        using_tools,
        awaiting,
        awaiting_in_time,
    )
}


def loses(act: Act, trial: Trial) -> Node:
    def node(state: Any) -> State:
        act(trial)
        return {"done": ["n"]}

    return node


@pytest.fixture
def trial(settings: Any) -> Iterator[Trial]:
    settings.HITL = recovery.IMPATIENT
    yield Trial()
    connection.close()


@pytest.fixture
def run(trial: Trial) -> Iterator[Callable[[Any], Run]]:
    """Start a run, and execute it until it ends or needs an operator."""

    def start(graph: Any) -> Run:
        registry.register("losing")(lambda: graph)
        info = services.start("losing", {})
        recovery.settle()
        return Run.objects.get(pk=info.id)

    yield start
    registry.unregister("losing")


def rows() -> list[str]:
    return list(Group.objects.values_list("name", flat=True))


@pytest.mark.parametrize("act", ACTS)
def test_run_losing_database_session_inside_node_succeeds_and_writes_rows_once(
    act: str, trial: Trial, run: Callable[[Any], Run]
) -> None:
    found = run(alone(trial, loses(ACTS[act], trial)))
    assert (found.state, found.error, trial.losses) == ("succeeded", "", 0)
    assert (rows(), trial.told) == (["row 0"], [])
    assert invariants.faults() == []


@pytest.mark.parametrize("way", WAYS)
def test_run_losing_database_session_in_any_kind_of_node_call_succeeds(
    way: str, trial: Trial, run: Callable[[Any], Run]
) -> None:
    found = run(WAYS[way](trial, loses(loses_in_a_transaction_of_its_own, trial)))
    assert (found.state, found.error, trial.losses) == ("succeeded", "", 0)
    assert trial.told == []
    assert invariants.faults() == []


@pytest.mark.promise("P11")
def test_run_losing_database_session_at_each_attempt_is_parked_with_database_error(
    trial: Trial, run: Callable[[Any], Run]
) -> None:
    trial.losses = 1000
    found = run(alone(trial, loses(loses_inside, trial)))
    assert found.state == "parked"
    assert "terminating connection" in found.error
    assert 1000 - trial.losses == hitl.MAX_ATTEMPTS
    assert rows() == []

    trial.losses = 0
    services.retry(found.pk)
    recovery.settle()
    assert (recovery.state_of(found.pk), rows()) == ("succeeded", ["row 0"])


@pytest.fixture
def elsewhere() -> Iterator[str]:
    connections.databases["elsewhere"] = {**connection.settings_dict}
    yield "elsewhere"
    connections["elsewhere"].close()
    del connections["elsewhere"], connections.databases["elsewhere"]


@pytest.mark.parametrize("call", [lambda act: act(), partial(transact, "k")])
def test_node_losing_session_of_another_database_fails_after_its_retries(
    call: Any, elsewhere: str, trial: Trial, run: Callable[[Any], Run]
) -> None:
    def act() -> None:
        trial.begun.append("n")
        end_session(elsewhere)
        Group.objects.using(elsewhere).count()

    def node(state: Any) -> None:
        call(act)

    found = run(tried_again(trial, node))
    assert (found.state, trial.begun) == ("failed", ["n"] * 3)
    assert trial.told == ["policy"] * 3


@pytest.mark.parametrize("call", [lambda act: act(), partial(transact, "k"), partial(once, "k")])
def test_statement_timeout_in_node_fails_run_after_its_retries(
    call: Any, trial: Trial, run: Callable[[Any], Run]
) -> None:
    def act() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 1; SELECT pg_sleep(60)")

    found = run(tried_again(trial, lambda state: call(act)))
    assert found.state == "failed"
    assert "statement timeout" in found.error
    assert trial.told == ["policy"] * 3
