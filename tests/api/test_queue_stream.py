"""The queue's event stream: interrupts that are added to a page, change or leave it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext

from hitl_django import services
from hitl_django.api import event_stream, queue_stream, waiting_response
from hitl_django.models import Interrupt
from tests.clock import module_time

from .conftest import API
from .test_events import THREADS, frames

pytestmark = pytest.mark.django_db(transaction=True)

Asked = Callable[..., Interrupt]
LATER = datetime(2999, 1, 1, tzinfo=UTC)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Callable[..., None]:
    """Perform actions one after the other while a stream waits, and then let its time end."""
    settings.HITL = {**settings.HITL, "EVENT_WAIT_SECONDS": 600}
    late: list[float] = []
    clock = module_time(monotonic=lambda: time.monotonic() + sum(late))
    monkeypatch.setattr(queue_stream, "time", clock)
    monkeypatch.setattr(waiting_response, "time", clock)

    def arrange(*happens: Callable[[], object]) -> None:
        steps = iter(happens)

        def sleep(seconds: float) -> None:
            step = next(steps, None)
            if step is None:
                late.append(600)
            else:
                step()

        clock.sleep = sleep

    return arrange


def watch(api: API, query: str = "", **options: Any) -> list[tuple[str, Any]]:
    response = api.get("interrupt-stream", query=query, **THREADS, **options)
    return [(each["event"], json.loads(each["data"])) for each in read(response)]


def read(response: Any) -> list[dict[str, str]]:
    return [each for each in frames(response) if "data" in each]


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


def test_queue_stream_starts_with_the_same_page_as_the_interrupt_list(
    api: API, make_interrupt: Asked
) -> None:
    make_interrupt(), make_interrupt(node="pay"), make_interrupt(node="pay")
    for query in ("", "node=pay", "ordering=-created_at&page_size=2", "unclaimed=true"):
        # A process without capacity for waiting requests.
        stream = api.get("interrupt-stream", query=query)
        assert not stream.streaming
        (event,) = read(stream)
        listed = api.get("interrupts", query=query).json()["results"]
        assert (event["event"], json.loads(event["data"])) == ("reset", {"results": listed})


def test_queue_stream_reports_added_changed_and_removed_interrupts(
    api: API, make_user: Any, make_interrupt: Asked, meanwhile: Callable[..., None]
) -> None:
    interrupt, reviewer = make_interrupt(), make_user(is_superuser=True)
    new: list[Interrupt] = []
    meanwhile(
        lambda: new.append(make_interrupt()),
        lambda: services.claim(interrupt.pk, by=reviewer),
        lambda: services.release(interrupt.pk, by=reviewer),
        lambda: services.assign(interrupt.pk, to=reviewer),
        lambda: services.snooze(interrupt.pk, until=LATER),
        lambda: None,
        lambda: Interrupt.objects.filter(pk=interrupt.pk).update(status="expired"),
        lambda: Interrupt.objects.filter(pk=new[0].pk).update(status="superseded"),
    )
    (_, page), *events = watch(api)
    assert ids(page["results"]) == [str(interrupt.pk)]
    assert [name for name, _ in events] == ["changes"] * 7
    came, claimed, released, assigned, snoozed, expired, withdrawn = (data for _, data in events)
    assert (ids(came["added"]), came["changed"], came["removed"]) == ([str(new[0].pk)], [], [])
    assert [row["claimed_by"] for row in claimed["changed"]] == [reviewer.get_username()]
    assert [row["claimed_by"] for row in released["changed"]] == [""]
    assert [row["assignee"] for row in assigned["changed"]] == [reviewer.get_username()]
    assert snoozed["changed"][0]["snoozed_until"].startswith("2999")
    assert expired["removed"] == [{"id": str(interrupt.pk), "status": "expired"}]
    assert withdrawn["removed"] == [{"id": str(new[0].pk), "status": "superseded"}]


def test_queue_stream_reports_decided_interrupt_as_removed_with_status(
    api: API, asked: Callable[..., Interrupt], meanwhile: Callable[..., None]
) -> None:
    interrupt = asked()
    meanwhile(lambda: services.decide(interrupt.pk, "approve"))
    *_, (name, changes) = watch(api)
    left = [{"id": str(interrupt.pk), "status": "decided"}]
    assert (name, changes) == ("changes", {"added": [], "changed": [], "removed": left})


def test_queue_stream_adds_the_next_interrupt_when_a_row_leaves_the_page(
    api: API, make_interrupt: Asked, meanwhile: Callable[..., None]
) -> None:
    first, second = make_interrupt(), make_interrupt()
    meanwhile(lambda: services.snooze(first.pk, until=LATER))
    *_, (_, changes) = watch(api, "page_size=1&snoozed=false")
    assert ids(changes["added"]) == [str(second.pk)]
    assert changes["removed"] == [{"id": str(first.pk), "status": "pending"}]


@pytest.mark.promise("P18")
def test_queue_stream_after_permission_was_revoked_reports_interrupts_as_removed_and_adds_none(
    make_user: Any, make_interrupt: Asked, meanwhile: Callable[..., None]
) -> None:
    user, interrupt = make_user("view_interrupt"), make_interrupt()
    meanwhile(lambda: (user.user_permissions.clear(), make_interrupt(title="A secret")))
    *_, (name, changes) = watch(API(user))
    lost = [{"id": str(interrupt.pk), "status": None}]
    assert (name, changes) == ("changes", {"added": [], "changed": [], "removed": lost})


@pytest.mark.promise("P18")
def test_queue_stream_ends_at_permission_check_after_its_user_was_deactivated(
    make_user: Any,
    make_interrupt: Asked,
    meanwhile: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0)
    monkeypatch.setattr(queue_stream, "PERMISSION_SECONDS", 0)
    user, interrupt = make_user("view_interrupt", is_active=True), make_interrupt()

    def leave() -> None:
        user.is_active = False
        user.save()

    meanwhile(lambda: None, leave, lambda: pytest.fail("the stream goes on"))
    response = API(user).get("interrupt-stream", **THREADS)
    reset, alive = list(response)[1:]
    assert str(interrupt.pk).encode() in reset
    assert alive == b": nothing new\n\n"


def test_queue_stream_reconnected_with_last_event_id_sends_missed_changes_once(
    api: API, make_interrupt: Asked, meanwhile: Callable[..., None]
) -> None:
    interrupt = make_interrupt()
    (reset,) = read(api.get("interrupt-stream"))
    same = api.get("interrupt-stream", HTTP_LAST_EVENT_ID=reset["id"])
    assert read(same) == []
    other = make_interrupt()
    Interrupt.objects.filter(pk=interrupt.pk).update(status="cancelled")
    (missed,) = read(api.get("interrupt-stream", HTTP_LAST_EVENT_ID=reset["id"]))
    changes = json.loads(missed["data"])
    assert (missed["event"], ids(changes["added"])) == ("changes", [str(other.pk)])
    assert changes["removed"] == [{"id": str(interrupt.pk), "status": "cancelled"}]
    assert read(api.get("interrupt-stream", HTTP_LAST_EVENT_ID=missed["id"])) == []


def test_queue_stream_reconnected_with_other_filters_or_lost_cache_sends_reset(
    api: API, as_role: Any, make_interrupt: Asked
) -> None:
    make_interrupt()
    (reset,) = read(api.get("interrupt-stream"))
    make_interrupt(node="pay")
    back = {"HTTP_LAST_EVENT_ID": reset["id"]}
    for stream in (
        api.get("interrupt-stream", query="node=pay", **back),
        as_role("viewer").get("interrupt-stream", **back),
    ):
        assert [event["event"] for event in read(stream)] == ["reset"]
    cache.clear()
    assert [each["event"] for each in read(api.get("interrupt-stream", **back))] == ["reset"]


def test_queue_stream_reconnected_without_changes_renews_its_cached_page(
    api: API, make_interrupt: Asked
) -> None:
    make_interrupt()
    (reset,) = read(api.get("interrupt-stream"))
    cache.clear()  # simulates a later time
    assert read(api.get("interrupt-stream", HTTP_LAST_EVENT_ID=reset["id"])) == []
    make_interrupt()
    (missed,) = read(api.get("interrupt-stream", HTTP_LAST_EVENT_ID=reset["id"]))
    assert missed["event"] == "changes"


def test_queue_stream_without_cache_sends_reset_at_every_connection(
    api: API, make_interrupt: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("nobody is there")

    monkeypatch.setattr("hitl_django.api.queue_stream.cache.set", fail)
    monkeypatch.setattr("hitl_django.api.queue_stream.cache.get", fail)
    (reset,) = read(api.get("interrupt-stream"))
    make_interrupt()
    (again,) = read(api.get("interrupt-stream", HTTP_LAST_EVENT_ID=reset["id"]))
    assert again["event"] == "reset"


def test_queue_stream_sends_the_page_and_ends_if_too_many_responses_are_waiting(
    api: API, make_interrupt: Asked, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "EVENT_MAX_WAITING_THREADS": 1}
    make_interrupt()
    listening = api.get("interrupts", query="node=none&wait=20", **THREADS)
    refused = api.get("interrupt-stream", **THREADS)
    assert (listening.streaming, refused.streaming) == (True, False)
    assert [event["event"] for event in read(refused)] == ["reset"]
    listening.close()
    stream = api.get("interrupt-stream", **THREADS)
    assert stream.streaming
    assert api.get("interrupts", query="node=none&wait=20", **THREADS)["Retry-After"] == "1"
    stream.close()
    assert waiting_response._threads.count == 0


@pytest.mark.parametrize("count", [1, 40])
def test_queue_stream_poll_of_unchanged_page_takes_one_query(
    count: int, api: API, make_interrupt: Asked, meanwhile: Callable[..., None]
) -> None:
    for _ in range(count):
        make_interrupt()
    found: list[int] = []
    with CaptureQueriesContext(connection) as queries:
        meanwhile(*[lambda: found.append(len(queries))] * 4)
        watch(api)
    assert [later - before for before, later in pairwise(found)] == [1] * 3


@pytest.mark.parametrize("query", ["cursor=x", "wait=1", "status=none", "page_size=0", "nod=pay"])
def test_queue_stream_with_invalid_parameter_returns_400_naming_the_parameter(
    query: str, api: API
) -> None:
    response = api.get("interrupt-stream", query=query)
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["errors"][0]["parameter"] == query.partition("=")[0]


@pytest.mark.parametrize("header", ["x", "7", "0" * 31, "G" * 32])
def test_queue_stream_with_invalid_last_event_id_returns_400_naming_the_header(
    header: str, api: API
) -> None:
    response = api.get("interrupt-stream", HTTP_LAST_EVENT_ID=header)
    assert response.status_code == 400
    assert response.json()["errors"][0]["header"] == "Last-Event-ID"


def test_queue_stream_with_atomic_requests_leaves_no_transaction_open(
    api: API, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "EVENT_WAIT_SECONDS": 0.05, "EVENT_POLL_SECONDS": 0.01}
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    response = api.get("interrupt-stream", **THREADS)
    assert not connection.in_atomic_block
    assert [event["event"] for event in read(response)] == ["reset"]
