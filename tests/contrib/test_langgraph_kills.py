"""A worker that is killed (-9) at each commit of an agent's run: nothing is lost, nothing doubled.

Each point is a process and a run of its own, which takes some twenty seconds in all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Count

from hitl_django import services
from hitl_django.graph_registry import registry
from hitl_django.models import Decision, Interrupt, Run
from hitl_django.worker.sweeper import sweep
from tests import processes
from tests.chaos import recovery

from . import agent_victim

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def impatient(settings: Any) -> Iterator[None]:
    settings.HITL = recovery.IMPATIENT
    with registry.hide_graphs():
        yield


def settle() -> None:
    """Lets sweeps, workers and the reviewer go on until all runs have ended."""
    deadline = time.monotonic() + recovery.PATIENCE
    while Run.objects.filter(state__in=Run.LIVE).exists():
        assert time.monotonic() < deadline, list(Run.objects.values("state", "error"))
        sweep()
        if not recovery.deliver() + agent_victim.answer():
            threading.Event().wait(0.02)


@pytest.mark.promise("P6")
@pytest.mark.promise("P7")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("graph", "said", "parts"),
    [("approved", "paid {}", [""]), ("asking", "1 part 1; 2 part 2", ["-1", "-2"])],
)
def test_a_kill_at_any_commit_loses_and_doubles_nothing(
    tmp_path: Path, graph: str, said: str, parts: list[str], after: bool
) -> None:
    path = tmp_path / "marks"
    ours, theirs = processes.SERVER.Pipe(duplex=False)
    die = partial(agent_victim.die_everywhere, after=after)
    process = processes.start(die, graph, path, theirs)
    assert ours.poll(processes.PATIENCE)
    runs = ours.recv()
    process.join(processes.PATIENCE)
    assert runs > 10

    agent_victim.register_agents(path)
    for key in map(str, range(1, runs + 1)):
        services.start(graph, {"messages": [("user", key)]}, key=key)
    settle()

    assert set(Run.objects.values_list("state", flat=True)) == {"succeeded"}
    lines = path.read_text().split("\n")
    for run in Run.objects.all():
        assert services.run_result(run.pk)["messages"][-1]["content"] == said.format(run.key)
        for part in parts:
            ran = [at for at, line in enumerate(lines) if line == f"ran{part} {run.key}"]
            stored = lines.index(f"stored{part} {run.key}") if _in(lines, part, run) else max(ran)
            assert 1 <= len(ran) <= 2
            assert max(ran) <= stored, "a tool ran again that had finished"
    answered = Decision.objects.values("interrupt").annotate(times=Count("pk"))
    assert {one["times"] for one in answered} == {1}
    assert Interrupt.objects.count() == runs * len(parts)
    assert not Interrupt.objects.exclude(status="decided").exists()


def _in(lines: list[str], part: str, run: Run) -> bool:
    """Returns whether the victim had stored what the tool said when it was killed."""
    return f"stored{part} {run.key}" in lines
