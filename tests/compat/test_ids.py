"""Ids: those of tasks and questions are LangGraph's own, worked out from the same facts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hitl_django.engine import ids

from .driving import CONFIG, Case, attempted
from .engines import LANGGRAPH, OURS
from .test_cases import CASES

pytestmark = pytest.mark.filterwarnings("ignore")


def records(snapshots: Any) -> Iterator[Any]:
    """Yields snapshots and those of the children inside them."""
    for snapshot in snapshots:
        yield snapshot
        yield from records(task.state for task in snapshot.tasks if hasattr(task.state, "tasks"))


def run(case: Case) -> Any:
    """Returns LangGraph's graph after all steps of a case."""
    graph = case.build(LANGGRAPH).compile(checkpointer=LANGGRAPH.InMemorySaver(), **case.compiled)
    for step in case.steps:
        if step.at is None and "update" not in step.options:
            asked = graph.get_state(CONFIG).interrupts if step is not case.steps[0] else ()
            value = step.make(LANGGRAPH, asked)
            attempted(lambda value=value: graph.invoke(value, {**CONFIG, **case.config}))
    return graph


def expected(graph: Any, checkpoint_id: str, ns: str, step: int, task: Any) -> str:
    """Works a task's id out as the engine does."""
    place = f"{ns}|{task.name}" if ns else task.name
    checkpoint = ids.checkpoint_bytes(checkpoint_id)
    if task.path[0] == "__pregel_push":
        return ids.task_id(
            checkpoint, place, str(step), task.name, "__pregel_push", str(task.path[1])
        )
    triggers = graph.blueprint.nodes[task.name].sorted_triggers
    return ids.task_id(checkpoint, place, str(step), task.name, "__pregel_pull", *triggers)


#: Graphs whose state LangGraph can't read back, or whose children aren't found by name.
APART = {"two_writers_of_one_key"}
KINDS = [case for case in CASES if "invoke" in case.ways and case.name not in APART]


@pytest.mark.parametrize("case", KINDS, ids=lambda case: case.name)
def test_tasks_and_questions_have_langgraphs_ids(case: Case) -> None:
    theirs = run(case)
    ours = case.build(OURS).compile()
    for record in [*theirs.get_state_history(CONFIG)]:
        place = record.config["configurable"]
        for task in record.tasks:
            step = record.metadata["step"] + 1
            assert task.id == expected(ours, place["checkpoint_id"], "", step, task)
            if hasattr(task.state, "tasks") or task.state:
                continue
            known = {ids.interrupt_id(f"{task.name}:{task.id}", index) for index in range(4)}
            assert {asked.id for asked in task.interrupts} <= known


def test_a_childs_tasks_and_questions_have_langgraphs_ids() -> None:
    case = next(case for case in CASES if case.name == "the_grandchild_asks")
    theirs = LANGGRAPH.InMemorySaver()
    theirs = case.build(LANGGRAPH).compile(checkpointer=theirs)
    theirs.invoke({"x": 1}, CONFIG)
    ours = case.build(OURS).compile()
    live = theirs.get_state(CONFIG, subgraphs=True)
    seen = 0
    for record in records([live]):
        place = record.config["configurable"]
        graph = ours
        for name in [
            level.partition(":")[0] for level in place["checkpoint_ns"].split("|") if level
        ]:
            graph = dict(graph.get_subgraphs())[name]
        for task in record.tasks:
            ns = place["checkpoint_ns"]
            step = record.metadata["step"] + 1
            assert task.id == expected(graph, place["checkpoint_id"], ns, step, task)
            seen += 1
            if not task.state:
                inside = f"{ns}|{task.name}:{task.id}"
                assert [asked.id for asked in task.interrupts] == [ids.interrupt_id(inside, 0)]
    assert seen == 3
