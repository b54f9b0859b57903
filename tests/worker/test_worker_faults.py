"""Catalogue of worker faults: damaged connections, and runs that end during execution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, transaction

from hitl_django import services, testing
from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.graph_registry import registry
from hitl_django.models import Run, Thread
from tests import graphs
from tests.engine.graphs import says

Fault = Callable[[Any], Any]


class Spoilt:
    """Register a graph whose node ``bad`` calls ``fault(state)`` after ``able`` has run."""

    def __init__(self) -> None:
        self.fault: Fault = says("fine")
        self.able = 0
        #: Whether another node runs concurrently, so that each node has its own OS thread.
        self.beside = False

    def build(self) -> StateGraph:
        graph = StateGraph(graphs.Log).add_node("able", self._able)
        graph.add_node("bad", lambda state: self.fault(state)).add_node("after", says("after"))
        graph.add_edge("__start__", "able").add_edge("able", "bad").add_edge("bad", "after")
        graph.add_node("beside", says("beside"))
        graph.add_conditional_edges("able", lambda state: ["beside"] * self.beside, ["beside"])
        return graph

    def _able(self, state: Any) -> dict[str, Any]:
        self.able += 1
        return {"log": ["able"]}


@pytest.fixture
def spoilt() -> Iterator[Spoilt]:
    made = Spoilt()
    registry.register("spoilt")(made.build)
    yield made
    registry.unregister("spoilt")


def leaves_a_transaction_open(state: Any) -> dict[str, Any]:
    transaction.atomic().__enter__()
    Group.objects.create(name="by the node")
    return {"log": ["bad"]}


def leaves_a_broken_transaction_open(state: Any) -> dict[str, Any]:
    transaction.atomic().__enter__()
    Group.objects.create(name="by the node")
    with pytest.raises(IntegrityError):
        Group.objects.create(name="by the node")
    return {"log": ["bad"]}


def sets_autocommit_off(state: Any) -> dict[str, Any]:
    transaction.set_autocommit(False)
    Group.objects.create(name="by the node")
    return {"log": ["bad"]}


def sets_autocommit_off_and_fails(state: Any) -> dict[str, Any]:
    transaction.set_autocommit(False)
    raise ValueError("with autocommit off")


def executes_begin(state: Any) -> dict[str, Any]:
    connection.cursor().execute("BEGIN")
    Group.objects.create(name="by the node")
    return {"log": ["bad"]}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "fault",
    [
        leaves_a_transaction_open,
        leaves_a_broken_transaction_open,
        sets_autocommit_off,
        sets_autocommit_off_and_fails,
        executes_begin,
    ],
)
@pytest.mark.parametrize("beside", [False, True])
def test_node_that_breaks_the_database_connection_fails_and_succeeds_on_retry(
    spoilt: Spoilt, fault: Fault, beside: bool
) -> None:
    spoilt.fault, spoilt.beside = fault, beside
    with testing.inline() as advance:
        info = services.start("spoilt", {"log": ["in"]})
        advance()
        assert (connection.in_atomic_block, connection.get_autocommit()) == (False, True)
        connection.close()  # the existing rows were committed
        run = Run.objects.get()
        assert run.state == "failed"
        raises = fault is sets_autocommit_off_and_fails
        assert (
            "with autocommit off" if raises else "Node 'bad' left a transaction open"
        ) in run.error
        assert not Group.objects.exists()
        spoilt.fault = says("fine")
        services.retry(info.id)
        advance()
        connection.close()
        assert Run.objects.get().state == "succeeded"
        log = ["in", "able", "fine", *["beside"] * beside, "after"]
        assert services.run_result(info.id)["log"] == log
        assert spoilt.able == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.any_database
def test_session_setting_changed_by_node_does_not_affect_later_runs_of_the_worker(
    spoilt: Spoilt, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_sqlite = connection.vendor == "sqlite"

    def makes_session_read_only(state: Any) -> dict[str, Any]:
        read_only = "PRAGMA query_only=ON" if is_sqlite else "SET default_transaction_read_only=on"
        connection.cursor().execute(read_only)
        return {"log": ["bad"]}

    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", None)
    connection.close()
    spoilt.fault = makes_session_read_only
    with testing.inline() as advance:
        first = services.start("spoilt", {"log": []})
        advance()
        found = Run.objects.get(pk=first.id)
        assert (found.state, found.thread.lease_until) == ("queued", None)
        assert ("readonly" if is_sqlite else "read-only") in found.error
        spoilt.fault = says("fine")
        second = services.start("spoilt", {"log": []})
        advance()
        assert Run.objects.get(pk=second.id).state == "succeeded"
    connection.close()


@pytest.mark.django_db
def test_run_cancelled_by_one_of_its_nodes_stores_no_further_step(spoilt: Spoilt) -> None:
    def cancels(state: Any) -> dict[str, Any]:
        services.cancel(Run.objects.get().pk)
        return {"log": ["bad"]}

    spoilt.fault = cancels
    with testing.inline() as advance:
        services.start("spoilt", {"log": ["in"]})
        advance()
        assert Run.objects.get().state == "cancelled"
        graph = registry.get_graph("spoilt").graph.with_saver(DjangoSaver())
        seen = graph.get_state({"configurable": {"thread_id": Thread.objects.get().thread_id}})
        assert seen.values["log"] == ["in", "able"]
        spoilt.fault = says("fine")
        again = services.start("spoilt", {"log": ["anew"]})
        advance()
        assert services.run_result(again.id)["log"] == ["anew", "able", "fine", "after"]


@pytest.mark.django_db
def test_thread_deleted_by_one_of_its_nodes_does_not_stop_the_worker(spoilt: Spoilt) -> None:
    def deletes(state: Any) -> dict[str, Any]:
        Run.objects.all().delete()
        Thread.objects.all().delete()
        return {"log": ["bad"]}

    spoilt.fault = deletes
    with testing.inline() as advance:
        services.start("spoilt", {"log": ["in"]})
        advance()
        assert not Thread.objects.exists()
        spoilt.fault = says("fine")
        again = services.start("spoilt", {"log": ["anew"]})
        advance()
        assert services.run_result(again.id)["log"] == ["anew", "able", "fine", "after"]
