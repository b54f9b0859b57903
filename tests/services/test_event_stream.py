"""Following the events of a run in code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from django.db import connection

import hitl_django
from hitl_django import services, testing
from hitl_django.errors import EventsPrunedError, RunNotFound
from hitl_django.models import Interrupt, Run, RunEvent
from hitl_django.services.runs import event_stream
from hitl_django.worker import runner

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def asking() -> services.RunInfo:
    with testing.inline():
        info = services.start("approval", {"text": "x"})
        runner.advance(str(info.id))
        return info


def go_on(info: services.RunInfo) -> None:
    with testing.inline() as advance:
        services.decide(Interrupt.objects.get(run=info.id).pk, "approve")
        advance()


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Call a function once, when no event is available."""
    looked = event_stream.EventReader.has_news

    def look(reader: event_stream.EventReader, after: int) -> bool:
        if not looked(reader, after):
            act()
        return looked(reader, after)

    monkeypatch.setattr(event_stream.EventReader, "has_news", look)


TOLD = ["queued", "interrupted", "queued", "succeeded"]


def test_follow_yields_events_until_the_run_ends(
    asking: services.RunInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, lambda: go_on(asking))
    assert [event.kind for event in hitl_django.follow(asking.id)] == TOLD
    assert [event.kind for event in hitl_django.follow(asking.id, after=3)] == TOLD[3:]


def test_event_reader_reports_end_of_run_that_ended_while_being_read(
    asking: services.RunInfo,
) -> None:
    reader, ended = event_stream.EventReader(asking.id), []

    def end(execute: Any, sql: str, *rest: Any) -> Any:
        if 'FROM "hitl_django_runevent"' in sql and not ended:
            ended.append(sql)
            go_on(asking)
        return execute(sql, *rest)

    with connection.execute_wrapper(end):
        page = reader.read(2)
    assert ended
    assert not page.ended
    assert reader.has_news(page.last)
    assert reader.read(page.last).ended


def test_afollow_yields_events_until_the_run_ends(
    asking: services.RunInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, lambda: go_on(asking))

    async def collect() -> list[str]:
        return [event.kind async for event in services.afollow(asking.id)]

    assert async_to_sync(collect)() == TOLD


def test_run_events_page_returns_last_number_as_cursor_for_the_next_page(
    asking: services.RunInfo,
) -> None:
    page = services.run_events(asking.id, limit=1)
    assert ([event.kind for event in page.events], page.last, page.ended) == (["queued"], 1, False)
    page = services.run_events(asking.id, after=page.last)
    assert ([event.kind for event in page.events], page.last) == (["interrupted"], 2)
    assert services.run_events(asking.id, after=7).last == 7


def test_run_events_returns_only_events_of_the_given_run(asking: services.RunInfo) -> None:
    with testing.inline() as advance:
        others = [services.start("steps", {"log": []}, events=["states"]) for _ in range(2)]
        advance()
    for info, kinds, ended in [
        (asking, TOLD[:2], False),
        *((other, ["queued", "succeeded"], True) for other in others),
    ]:
        page = services.run_events(info.id)
        assert ([event.kind for event in page.events], page.ended) == (kinds, ended)
        reader = event_stream.EventReader(info.id)
        assert reader.has_news(page.last - 1)
        # An ended run has no more events to wait for.
        assert reader.has_news(page.last) is ended
    # The stream reports an event even if its number is lower than that of an event already sent.
    go_on(asking)
    assert event_stream.EventReader(asking.id).has_news(2)


def test_run_events_are_ordered_by_sequence_number(asking: services.RunInfo) -> None:
    go_on(asking)
    stored = list(RunEvent.objects.order_by("-seq"))
    RunEvent.objects.all().delete()
    for event in stored:
        RunEvent.objects.bulk_create([RunEvent(**{**fields_of(event), "id": None})])
    assert [event.seq for event in services.run_events(asking.id).events] == [1, 2, 3, 4]


def fields_of(event: RunEvent) -> dict[str, Any]:
    return {field.attname: getattr(event, field.attname) for field in RunEvent._meta.fields}


def test_event_reader_reports_end_of_run_without_stored_events(db: None) -> None:
    with testing.inline() as advance:
        runs = [services.start("approval", {"text": "x"}, events=()) for _ in range(3)]
        advance()
    readers = [event_stream.EventReader(run.id) for run in runs]
    assert [reader.has_news(0) for reader in readers] == [False, False, False]
    go_on(runs[1])
    assert [reader.has_news(0) for reader in readers] == [False, True, False]
    assert [reader.read(0).ended for reader in readers] == [False, True, False]


@pytest.mark.parametrize("run", [uuid4(), "no id", ""])
def test_run_events_of_unknown_run_raises_run_not_found(run: object) -> None:
    with pytest.raises(RunNotFound):
        services.run_events(run)  # type: ignore[arg-type]


def test_run_events_before_pruned_events_raises_events_pruned_error(
    asking: services.RunInfo,
) -> None:
    RunEvent.objects.filter(seq=1).delete()
    with pytest.raises(EventsPrunedError) as gone:
        services.run_events(asking.id)
    assert gone.value.last == 2
    assert services.run_events(asking.id, after=1).last == 2


def test_follow_of_run_deleted_during_iteration_raises_run_not_found(
    asking: services.RunInfo,
) -> None:
    following_it = hitl_django.follow(asking.id)
    assert [next(following_it).seq, next(following_it).seq] == [1, 2]
    Run.objects.all().delete()
    with pytest.raises(RunNotFound):
        next(following_it)
