"""Faulty nodes with a database: damaged connections and threads."""

from __future__ import annotations

import datetime
import decimal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import DatabaseError, IntegrityError, connection, connections, transaction
from django.utils.translation import gettext_lazy

from hitl_django import Command, StateGraph, interrupt
from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine.errors import InvalidUpdateError, PayloadLimitError, UnserializableError
from hitl_django.errors import OpenTransactionError
from tests.engine.faults import Trial, said_of
from tests.engine.graphs import CONFIG, State, answer, line, log_of, open_interrupts, saved, says

Fault = Callable[[Any], Any]


def raising(error: BaseException) -> Fault:
    def node(state: Any) -> Any:
        raise error

    return node


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


def containing_itself() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


FAULTS: dict[str, tuple[Fault, type[Exception]]] = {
    "no update": (lambda state: 5, InvalidUpdateError),
    "queryset": (lambda state: User.objects.all(), InvalidUpdateError),
    "goto": (lambda state: Command(goto="nowhere"), ValueError),
    "no goto": (lambda state: Command(goto=None), InvalidUpdateError),
    "model": (lambda state: {"x": User(username="ann")}, UnserializableError),
    "rows": (lambda state: {"x": User.objects.all()}, UnserializableError),
    "lazy": (lambda state: {"x": gettext_lazy("later")}, UnserializableError),
    "lock": (lambda state: {"x": threading.Lock()}, UnserializableError),
    "self": (lambda state: {"x": containing_itself()}, UnserializableError),
    "surrogate": (lambda state: {"x": "a\ud800b"}, UnserializableError),
    "large": (lambda state: {"x": "x" * 50_000_000}, PayloadLimitError),
    "recursion": (raising(RecursionError("deep")), RecursionError),
    "memory": (raising(MemoryError()), MemoryError),
    "unprintable": (raising(Unprintable()), Unprintable),
    "long": (raising(ValueError("x" * 20_000_000)), ValueError),
    "no text": (raising(ValueError("a\0b\ud800")), ValueError),
    "database": (raising(DatabaseError("of the node's own")), DatabaseError),
}


@pytest.mark.django_db
@pytest.mark.parametrize("place", ["alone", "beside"])
@pytest.mark.parametrize("name", FAULTS)
def test_node_failure_is_stored_by_django_saver_and_run_continues_after_fix(
    name: str, place: str
) -> None:
    fault, kind = FAULTS[name]
    trial = Trial(fault, place, DjangoSaver())
    error = trial.failure()
    assert type(error) is kind
    assert "'bad'" in said_of(error)
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()


ODD: dict[str, Callable[[], Any]] = {
    "Decimal NaN": lambda: decimal.Decimal("NaN"),
    "NaN": lambda: float("nan"),
    "naive datetime": lambda: datetime.datetime(2020, 1, 1, 2, 30),
    "keys": lambda: {1: "a", (1, 2): "b", None: "c"},
    "set": lambda: {1},
    "bytes": lambda: b"\x00\xff",
    "NUL": lambda: "a\0b",
    "huge": lambda: 7**5_000,
}


@pytest.mark.django_db
@pytest.mark.parametrize("name", ODD)
def test_django_saver_restores_unusual_state_value_unchanged(name: str) -> None:
    trial = Trial(lambda state: {"x": ODD[name]()}, saver=DjangoSaver())
    assert trial.advance().status == "finished"
    assert repr(trial.graph.get_state(CONFIG).values["x"]) == repr(ODD[name]())


@pytest.mark.django_db
@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit])
def test_crash_in_node_leaves_state_stored_by_django_saver_before_the_crash(kind: Any) -> None:
    trial = Trial(raising(kind()), saver=DjangoSaver())
    with pytest.raises(kind):
        trial.advance()
    seen = trial.graph.get_state(CONFIG)
    assert (seen.next, seen.values) == (("bad",), {"x": 1, "log": ["able"]})
    trial.assert_goes_on()


@pytest.mark.django_db
def test_interrupt_with_django_object_as_payload_fails_its_node() -> None:
    trial = Trial(lambda state: interrupt(User(username="ann")), saver=DjangoSaver())
    assert isinstance(trial.failure(), UnserializableError)
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["n" * 300, "ünï ✓", "a\nb", "{0}%s"], ids=ascii)
def test_node_with_unusual_name_interrupts_and_resumes_with_django_saver(name: str) -> None:
    graph = saved(
        line(**{name: lambda state: {"log": [interrupt("who?")]}, "b": says("b")}), DjangoSaver()
    )
    graph.invoke({"x": 1}, CONFIG)
    assert graph.get_state(CONFIG).next == (name,)
    answer(graph, "me")
    assert log_of(graph) == ["me", "b"]


# Changes by a node to the connection. The tests need real transactions, which a node may leave
# open.


@pytest.fixture
def real(transactional_db: None) -> Iterator[None]:
    yield
    if connection.connection is not None and not connection.get_autocommit():
        connection.close()


def seen_afresh(trial: Trial) -> Any:
    connection.close()
    return trial.graph.get_state(CONFIG)


@pytest.mark.usefixtures("real")
def test_database_connections_of_parallel_nodes_are_closed_after_the_step() -> None:
    together, used = threading.Barrier(3, timeout=60), []

    def node(state: Any) -> dict[str, Any]:
        Group.objects.count()
        used.append(connections["default"])
        together.wait()
        return {"log": ["x"]}

    graph = StateGraph(State)
    for name in "abc":
        graph.add_node(name, node).add_edge("__start__", name)
    saved(graph, DjangoSaver()).invoke({"x": 1}, CONFIG)
    here = connections["default"]
    assert here.connection is not None
    apart = [one for one in used if one is not here]
    assert len(apart) >= 2
    assert [one.connection for one in apart] == [None] * len(apart)


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize("place", ["alone", "beside"])
def test_node_closing_the_database_connection_does_not_fail_the_run(place: str) -> None:
    def node(state: Any) -> dict[str, Any]:
        Group.objects.create(name="by the node")
        connection.close()
        return {"log": ["bad"]}

    trial = Trial(node, place, DjangoSaver())
    assert trial.advance().status == "finished"
    assert sorted(seen_afresh(trial).values["log"]) == ["able", "after", "bad"]
    assert Group.objects.filter(name="by the node").exists()


def turn_off_autocommit_of_driver() -> None:
    connection.ensure_connection()
    raw: Any = connection.connection
    if connection.vendor == "sqlite":
        raw.isolation_level = "DEFERRED"
    else:
        raw.autocommit = False


BEGINNINGS: dict[str, Callable[[], object]] = {
    "atomic": lambda: transaction.atomic().__enter__(),
    "statement": lambda: connection.cursor().execute("BEGIN"),
    "autocommit": lambda: transaction.set_autocommit(False),
    "driver": turn_off_autocommit_of_driver,
}


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize("place", ["alone", "beside"])
@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize("writes", [True, False])
def test_node_leaving_a_transaction_open_fails_and_its_rows_are_rolled_back(
    beginning: str, place: str, writes: bool
) -> None:
    def node(state: Any) -> dict[str, Any]:
        BEGINNINGS[beginning]()
        if writes:
            Group.objects.create(name="by the node")
        return {"log": ["bad"]}

    trial = Trial(node, place, DjangoSaver())
    error = trial.failure()
    assert isinstance(error, OpenTransactionError)
    assert "Node 'bad'" in str(error)
    assert not connection.in_atomic_block
    assert not Group.objects.exists()
    trial.assert_goes_on()


@pytest.mark.usefixtures("real")
def test_node_failing_after_begin_statement_fails_with_its_own_error() -> None:
    def node(state: Any) -> dict[str, Any]:
        connection.cursor().execute("BEGIN")
        Group.objects.create(name="by the node")
        raise RuntimeError("after BEGIN")

    trial = Trial(node, saver=DjangoSaver())
    assert isinstance(trial.failure(), RuntimeError)
    connection.close()
    trial.assert_waits_at_the_fault()
    assert not Group.objects.exists()
    trial.assert_goes_on()


@pytest.mark.django_db
@pytest.mark.parametrize("savepoint", [True, False])
def test_transaction_left_open_by_node_is_rolled_back_inside_transaction_of_caller(
    savepoint: bool,
) -> None:
    def node(state: Any) -> dict[str, Any]:
        transaction.atomic(savepoint=savepoint).__enter__()
        Group.objects.create(name="by the node")
        return {"log": ["bad"]}

    Group.objects.create(name="by the caller")
    trial = Trial(node, saver=DjangoSaver())
    assert isinstance(trial.failure(), OpenTransactionError)
    names = set(Group.objects.values_list("name", flat=True))
    assert names == {"by the caller"} | ({"by the node"} if not savepoint else set())
    trial.assert_goes_on()


@pytest.mark.usefixtures("real")
def test_node_that_commits_a_transaction_finishes_and_its_rows_are_stored() -> None:
    def node(state: Any) -> dict[str, Any]:
        with transaction.atomic():
            Group.objects.create(name="kept")
        try:
            with transaction.atomic():
                Group.objects.create(name="dropped")
                Group.objects.create(name="kept")
        except IntegrityError:
            return {"log": ["refused"]}
        return {"log": ["bad"]}

    trial = Trial(node, saver=DjangoSaver())
    assert trial.advance().status == "finished"
    assert seen_afresh(trial).values["log"] == ["able", "refused", "after"]
    assert list(Group.objects.values_list("name", flat=True)) == ["kept"]


@pytest.mark.usefixtures("real")
def test_node_failing_inside_its_transaction_rolls_back_only_rows_of_that_transaction() -> None:
    def node(state: Any) -> dict[str, Any]:
        with transaction.atomic():
            Group.objects.create(name="dropped")
            raise RuntimeError("in the transaction")

    trial = Trial(node, saver=DjangoSaver())
    assert isinstance(trial.failure(), RuntimeError)
    connection.close()
    trial.assert_waits_at_the_fault()
    assert not Group.objects.exists()
    trial.assert_goes_on()


@pytest.mark.usefixtures("real")
def test_interrupt_inside_transaction_of_node_rolls_transaction_back_and_pauses() -> None:
    def node(state: Any) -> dict[str, Any]:
        with transaction.atomic():
            Group.objects.create(name="once")
            return {"log": [interrupt("go on?")]}

    trial = Trial(node, saver=DjangoSaver())
    assert trial.advance().status == "interrupted"
    connection.close()
    assert list(open_interrupts(trial.graph)) == ["go on?"]
    assert not Group.objects.exists()
    answer(trial.graph, "yes")
    assert seen_afresh(trial).values["log"] == ["able", "yes", "after"]
    assert Group.objects.count() == 1


# Changes to a thread during its run.


@pytest.mark.django_db
def test_thread_deleted_by_one_of_its_nodes_can_be_started_again() -> None:
    saver = DjangoSaver()

    def node(state: Any) -> dict[str, Any]:
        saver.delete_thread("thread")
        return {"log": ["bad"]}

    trial = Trial(node, saver=saver)
    trial.advance()
    trial.graph.get_state(CONFIG)
    trial.mend()
    saver.delete_thread("thread")
    assert trial.graph.get_state(CONFIG).values == {}
    trial.graph.invoke({"x": 2}, CONFIG)
    assert log_of(trial.graph) == ["able", "fine", "after"]
