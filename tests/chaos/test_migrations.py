"""Workers killed during and after migrate_state."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import pytest

from hitl_django import START, StateGraph, interrupt, services
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run
from hitl_django.worker import runner
from tests import processes

from . import invariants, recovery, victim

pytestmark = [
    pytest.mark.crash,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("impatient"),
]


class Cents(TypedDict, total=False):
    cents: int
    said: str


class Euros(TypedDict, total=False):
    euros: float
    said: str


def deploy(version: str, migrate: Any = None) -> None:
    state: Any = Cents if version == "1" else Euros
    graph = StateGraph(state).add_node("ask", lambda state: {"said": interrupt("Well?")})
    graph.add_edge(START, "ask")
    registry.unregister("migrating")
    registry.register("migrating", version=version, migrate_state=migrate)(lambda: graph)


def take_up(run: str, marks: Path, nth: int) -> None:
    """Claim the run with the new code, and crash in the function or at the n-th statement."""

    def migrate(state: dict[str, Any], version: str) -> dict[str, Any]:
        with marks.open("a") as stream:
            stream.write(f"{version} {state['cents']}\n")
        if not nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"euros": state["cents"] / 100}

    deploy("2", migrate)
    with victim.armed(victim.Bomb(nth or 10_000, after=True)):
        runner.advance(run)


@pytest.fixture
def unregistered() -> Iterator[None]:
    yield
    registry.unregister("migrating")


@pytest.mark.usefixtures("unregistered")
def test_run_killed_at_any_statement_of_state_migration_has_old_or_new_state(
    tmp_path: Path,
) -> None:
    finished = nth = 0
    while not finished:
        deploy("1")
        run = services.start("migrating", {"cents": 1250})
        runner.advance(str(run.id))
        services.decide(Interrupt.objects.get(run=run.id, status="pending").pk, "respond", "yes")
        marks = tmp_path / str(nth)
        process = processes.start(take_up, str(run.id), marks, nth)
        process.join(processes.PATIENCE)
        assert process.exitcode in (0, -signal.SIGKILL, victim.CRASHED)
        assert (process.exitcode == -signal.SIGKILL) == (nth == 0)
        finished += process.exitcode == 0
        nth += 1
        (record,) = invariants.records([Run.objects.get(pk=run.id).thread_id])
        held = invariants.values_of(record, invariants.head_of(record))
        state = {key: held[key] for key in ("cents", "euros", "said") if key in held}
        assert state in ({"cents": 1250}, {"euros": 12.5, "said": "yes"})
        deploy("2", lambda state, version: {"euros": state["cents"] / 100})
        recovery.settle()
        assert Run.objects.get(pk=run.id).state == "succeeded"
        assert services.run_result(run.id) == {"euros": 12.5, "said": "yes"}
    assert nth > 5
    assert (tmp_path / "0").read_text() == "1 1250\n"
