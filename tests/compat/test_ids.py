"""Ids of tasks and interrupts, equal to LangGraph's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hitl_django.engine import ids
from hitl_django.engine.drivers.task_calls import CalledTask
from hitl_django.engine.task.task import StepOrigin, Task

from .driving import CONFIG, Case, attempted
from .engines import LANGGRAPH, OURS
from .test_cases import CASES

pytestmark = pytest.mark.filterwarnings("ignore")


def records(snapshots: Any) -> Iterator[Any]:
    """Yield snapshots and those of the children inside them."""
    for snapshot in snapshots:
        yield snapshot
        yield from records(task.state for task in snapshot.tasks if hasattr(task.state, "tasks"))


def run(case: Case) -> Any:
    """Return LangGraph's graph after all steps of a case."""
    graph = case.build(LANGGRAPH).compile(checkpointer=LANGGRAPH.InMemorySaver(), **case.compiled)
    for step in case.steps:
        if step.at is None and "update" not in step.options:
            asked = graph.get_state(CONFIG).interrupts if step is not case.steps[0] else ()
            value = step.make(LANGGRAPH, asked)
            attempted(lambda value=value: graph.invoke(value, {**CONFIG, **case.config}))
    return graph


def expected(graph: Any, checkpoint_id: str, ns: str, step: int, task: Any) -> str:
    """Work a task's id out as the engine does."""
    place = f"{ns}|{task.name}" if ns else task.name
    checkpoint = ids.encode_checkpoint_id(checkpoint_id)
    if task.path[0] == "__pregel_push":
        return ids.make_task_id(
            checkpoint, place, str(step), task.name, "__pregel_push", str(task.path[1])
        )
    triggers = graph.spec.nodes[task.name].sorted_triggers
    return ids.make_task_id(checkpoint, place, str(step), task.name, "__pregel_pull", *triggers)


#: Graphs whose state LangGraph can't read back, or whose questions are those of called tasks.
APART = {
    "two_writers_of_one_key",
    "a_failure_after_an_answer",
    "a_loop_that_asks_for_more",
    "a_node_calls_a_task_that_asks",
    "a_interrupt_and_a_task_that_asks",
    "a_task_of_a_task_asks",
    "a_task_that_asks",
    "a_task_that_asks_twice_and_another",
    "a_task_that_asks_until_it_is_right",
    "a_task_is_tried_again_after_its_answer",
    "sent_tasks_call_tasks_that_ask",
    "two_nodes_call_tasks_that_ask",
    "a_workflow_whose_tasks_call_tasks_that_ask",
}
KINDS = [case for case in CASES if "invoke" in case.ways and case.name not in APART]


@pytest.mark.parametrize("case", KINDS, ids=lambda case: case.name)
def test_task_and_interrupt_ids_match_langgraph(case: Case) -> None:
    theirs = run(case)
    ours = case.build(OURS).compile()
    for record in [*theirs.get_state_history(CONFIG)]:
        place = record.config["configurable"]
        for task in record.tasks:
            step = record.metadata["step"] + 1
            assert task.id == expected(ours, place["checkpoint_id"], "", step, task)
            if hasattr(task.state, "tasks") or task.state:
                continue
            known = {ids.make_interrupt_id(f"{task.name}:{task.id}", index) for index in range(4)}
            assert {asked.id for asked in task.interrupts} <= known


def test_task_and_interrupt_ids_of_nested_subgraphs_match_langgraph() -> None:
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
                assert [asked.id for asked in task.interrupts] == [ids.make_interrupt_id(inside, 0)]
    assert seen == 3


def test_task_ids_and_namespaces_of_functional_workflow_match_langgraph() -> None:
    here = LANGGRAPH.get_config

    @LANGGRAPH.task
    def inner() -> str:
        return str(here()["configurable"]["checkpoint_ns"])

    @LANGGRAPH.task
    def outer() -> list[Any]:
        return [here()["configurable"]["checkpoint_ns"], inner().result(), inner().result()]

    def flow(x: int) -> list[Any]:
        return [here()["configurable"]["checkpoint_ns"], outer().result()]

    theirs = LANGGRAPH.entrypoint(LANGGRAPH.InMemorySaver())(flow)
    own, (first, second, third) = theirs.invoke(1, CONFIG)
    started = list(theirs.get_state_history(CONFIG))[-1]
    graph = OURS.entrypoint()(flow)
    place = started.config["configurable"]["checkpoint_id"]
    origin = StepOrigin(graph.spec, {}, place, "", 0, 10)
    node = graph.nodes["flow"]
    root = Task("flow", node, ("__pregel_pull", "flow"), ("__start__",), 1, origin)
    called = CalledTask(node, "outer", root, 0, None)
    below = [CalledTask(node, "inner", called, index, None) for index in range(2)]
    assert root.ns == own
    assert [task.ns for task in (called, *below)] == [first, second, third]
