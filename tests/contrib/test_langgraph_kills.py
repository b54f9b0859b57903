"""Workers killed with SIGKILL at each commit of an agent's run: no losses or duplicates.

Each kill has its own process and run, so a case takes some seconds. The agents are LangChain agents
with each decision of their middleware, tools that store their results themselves, a supervisor of
two agents, and the functional API.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db.models import Count

from hitl_django import services
from hitl_django.graph_registry import registry
from hitl_django.models import Decision, Interrupt, Run
from tests import processes
from tests.chaos import recovery
from tests.chaos.crash_points import SIDES

from . import agent_victim

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]


#: A graph, its number of interrupts, its parts, and its final result.
CASES = [
    ("approved", 1, "1", ["1 paid"]),
    ("effects", 1, "1", ["1 paid"]),
    ("asking", 2, "12", ["1 part 1", "2 part 2"]),
    ("decided", 1, "15", ["1 paid", "3 refused", "4 answered", "5 paid"]),
    ("desk", 2, "123", ["1 supervised", "2 paid", "3 part 3"]),
    ("sale", 2, "124", ["1 priced", "2 part 2", "3 part 3", "4 shipped"]),
]


@pytest.fixture(autouse=True)
def impatient(settings: Any) -> Iterator[None]:
    settings.HITL = recovery.IMPATIENT
    with registry.hide_graphs():
        yield


@pytest.mark.promise("P6")
@pytest.mark.promise("P7")
@pytest.mark.parametrize("after", SIDES)
@pytest.mark.parametrize(("graph", "interrupts", "parts", "said"), CASES)
def test_langgraph_agent_run_killed_at_any_commit_repeats_no_tool_call_or_decision(
    tmp_path: Path, graph: str, interrupts: int, parts: str, said: list[str], after: bool
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
    recovery.finish(agent_victim.answer)

    assert set(Run.objects.values_list("state", flat=True)) == {"succeeded"}
    lines = path.read_text().split("\n")
    assert {f"stored-{part} {runs}" for part in parts} <= set(lines), "the last one wasn't killed"
    for run in Run.objects.all():
        messages = services.run_result(run.pk)["messages"]
        texts = [one["content"] for one in messages if one["type"] in ("tool", "human")]
        told = [agent_victim.last_line(text) for text in texts if text != run.key]
        assert sorted(line.split(": ")[-1] for line in told) == said
        done = {line[4] for line in lines if line.startswith("ran-") and line[6:] == run.key}
        assert done == set(parts)
        for part in parts:
            ran = [at for at, line in enumerate(lines) if line == f"ran-{part} {run.key}"]
            stored = lines.index(f"stored-{part} {run.key}") if _in(lines, part, run) else max(ran)
            assert 1 <= len(ran) <= 2
            assert max(ran) <= stored, "a part was done again that had been finished"
    assert Group.objects.count() == (runs if graph == "effects" else 0)
    answered = Decision.objects.values("interrupt").annotate(times=Count("pk"))
    assert {one["times"] for one in answered} == {1}
    assert Interrupt.objects.count() == runs * interrupts
    assert not Interrupt.objects.exclude(status="decided").exists()


def _in(lines: list[str], part: str, run: Run) -> bool:
    """Return whether the victim had stored the result of a part before the kill."""
    return f"stored-{part} {run.key}" in lines
