"""Disk errors in nodes, after which the run is resumed, and lock errors of nodes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection

from hitl_django import END, START, StateGraph, once, services, testing, transact
from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine.types import RetryPolicy
from hitl_django.graph_registry import registry
from hitl_django.models import Run
from tests.graphs import Log
from tests.messages import enqueue_run

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.database("sqlite"),
    pytest.mark.promise("P7"),
]

Call = Callable[[Callable[[], Any]], Any]
CALLS: dict[str, Call] = {
    "itself": lambda act: act(),
    "once": partial(once, "k"),
    "transact": partial(transact, "k"),
}


class Disk:
    """Results of a node's statements, in order. All later statements succeed."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.call: Call = CALLS["itself"]

    def query(self) -> None:
        if not self.codes:
            return
        failure = sqlite3.OperationalError("of the file")
        failure.sqlite_errorcode = self.codes.pop(0)
        with connection.wrap_database_errors:
            raise failure

    def graph(self) -> StateGraph:
        def node(state: Any) -> Any:
            self.call(self.query)
            return {"log": ["n"]}

        policy = RetryPolicy(0.0, max_attempts=2, jitter=False)
        graph = StateGraph(Log).add_node("n", node, retry_policy=policy)
        return graph.add_edge(START, "n").add_edge("n", END)


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    registry.register("on a disk")(made.graph)
    yield made
    registry.unregister("on a disk")


@pytest.mark.parametrize("call", CALLS)
def test_run_hitting_full_disk_is_requeued_and_succeeds_later(call: str, disk: Disk) -> None:
    disk.call, disk.codes = CALLS[call], [sqlite3.SQLITE_FULL]
    with testing.inline() as advance:
        run = services.start("on a disk", {"log": []})
        advance()
        found = Run.objects.get(pk=run.id)
        assert (found.state, found.thread.lease_until) == ("queued", None)
        assert found.error == "OperationalError: of the file"
        enqueue_run(run.id)
        advance()
    assert Run.objects.get(pk=run.id).state == "succeeded"


@pytest.mark.parametrize("call", CALLS)
def test_locked_database_error_in_node_is_retried_by_retry_policy_and_then_fails_the_run(
    call: str, disk: Disk
) -> None:
    disk.call, disk.codes = CALLS[call], [sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED]
    with testing.inline() as advance:
        run = services.start("on a disk", {"log": []})
        advance()
    found = Run.objects.get(pk=run.id)
    assert (found.state, disk.codes) == ("failed", [])


def test_direct_graph_call_hitting_disk_error_raises_the_error_and_resumes_on_next_call(
    disk: Disk,
) -> None:
    disk.codes = [sqlite3.SQLITE_IOERR]
    graph = disk.graph().compile(checkpointer=DjangoSaver())
    config = {"configurable": {"thread_id": "mine"}}
    with pytest.raises(OperationalError, match="of the file"):
        graph.invoke({"log": []}, config)
    (waiting,) = graph.get_state(config).tasks
    assert (waiting.name, waiting.error) == ("n", None)
    assert graph.invoke(None, config)["log"] == ["n"]
