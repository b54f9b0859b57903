"""Functional workflows: started, reviewed and finished like graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from hitl_django import Command, entrypoint, services, task, testing
from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine.errors import InvalidInputError
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.services.runs.state import run_result
from tests import graphs

Advance = Callable[[], int]


@pytest.fixture(autouse=True)
def written() -> Iterator[list[str]]:
    graphs.WRITTEN.clear()
    yield graphs.WRITTEN
    graphs.WRITTEN.clear()


def open_interrupts() -> list[Interrupt]:
    return list(Interrupt.objects.filter(status="pending").order_by("task_path"))


def take_to_the_end(info: services.RunInfo, advance: Advance) -> None:
    """Respond to both interrupts, the second reader's first."""
    advance()
    ann, bob = open_interrupts()
    assert (ann.node, bob.node) == ("review", "review")
    services.decide(bob.pk, "respond", "fine")
    advance()
    assert [interrupt.pk for interrupt in open_interrupts()] == [ann.pk]
    services.decide(ann.pk, "respond", "good")
    advance()
    assert Run.objects.get(pk=info.id).state == "succeeded"


def test_workflow_run_executes_each_task_once_across_its_interrupts(
    db: None, written: list[str]
) -> None:
    with testing.inline() as advance:
        info = services.start("essay", {"topic": "cats"})
        take_to_the_end(info, advance)
        again = services.start("essay", {"topic": "dogs"}, thread_id=info.thread_id)
        take_to_the_end(again, advance)
    assert written == ["cats", "cats, again", "dogs", "dogs, again"]
    result = run_result(again.id)
    assert result["said"] == ["Ann: good", "Bob: fine"]
    assert result["before"]["text"] == "An essay about cats, again"


@pytest.mark.django_db(transaction=True)
def test_workflow_run_with_committed_transactions_executes_each_task_once(
    written: list[str],
) -> None:
    with testing.inline() as advance:
        info = services.start("essay", {"topic": "cats"})
        take_to_the_end(info, advance)
    assert written == ["cats", "cats, again"]


def test_rows_updated_by_task_of_workflow_run_are_committed(db: None) -> None:
    @task
    def tag() -> int:
        return Thread.objects.update(metadata={"tagged": True})

    @registry.register("tagging")
    @entrypoint()
    def tagging(x: int) -> int:
        return tag().result()

    try:
        with testing.inline() as advance:
            services.start("tagging", 1)
            advance()
        assert Thread.objects.get().metadata == {"tagged": True}
    finally:
        registry.unregister("tagging")


def test_start_of_workflow_with_unknown_input_field_raises_invalid_input_error(db: None) -> None:
    with pytest.raises(InvalidInputError, match="unknown field"):
        services.start("essay", {"subject": "cats"})


@pytest.mark.django_db(transaction=True)
def test_async_workflow_with_django_saver_resumes_with_its_responses(written: list[str]) -> None:
    graph = registry.get_graph("essay").graph.with_saver(DjangoSaver())
    place = {"configurable": {"thread_id": "t"}}

    async def run() -> Any:
        await graph.ainvoke({"topic": "cats"}, place)
        state = await graph.aget_state(place)
        answers = {asked.id: "ok" for asked in state.interrupts}
        return await graph.ainvoke(Command(resume=answers), place)

    # As under ASGI, the database is used on this OS thread. The test closes its connection.
    assert async_to_sync(run)()["said"] == ["Ann: ok", "Bob: ok"]
    assert written == ["cats", "cats, again"]
