"""Admin pages with USE_TZ turned off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client, RequestFactory, override_settings
from django.utils import timezone
from django.utils.formats import localize

from hitl_django import services
from hitl_django.admin.display.history_display import read_history
from hitl_django.admin.display.live_updates import ShownPage, build_updates_url
from hitl_django.contrib.schedules.models import Schedule
from hitl_django.contrib.schedules.services import create_schedule
from hitl_django.contrib.schedules.start_due import start_due
from hitl_django.db import clock
from hitl_django.models import Interrupt

from .addresses import ADDRESSES, address_of, rows
from .browsing import text_of
from .conftest import list_of, page_of

__all__ = ["rows"]  # the fixture


pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _without_zones(db: None) -> Iterator[None]:
    # A connection reads datetimes with the settings at its opening, and caches the database's
    # clock.
    connection.close()
    clock.forget()
    with override_settings(USE_TZ=False, TIME_ZONE="UTC"):
        yield
        connection.close()
    clock.forget()


@pytest.mark.slow
def test_every_admin_page_without_time_zone_support_causes_no_server_error(
    admin_user: Any, rows: dict[str, Any]
) -> None:
    client = Client()
    client.force_login(admin_user)
    for name in ADDRESSES:
        assert client.get(address_of(name, rows)).status_code < 500, name


@pytest.mark.parametrize("due", ["today", "week"])
def test_queue_filter_by_due_time_without_time_zone_support_includes_request_due_at_noon_today(
    asked: Callable[..., Interrupt], reviewer: Client, due: str
) -> None:
    asked()
    noon = timezone.now().replace(hour=12, minute=0)
    Interrupt.objects.update(title="Noon", due_at=noon)
    page = reviewer.get(list_of(), {"due": due})
    assert "Noon" in text_of(page)


@pytest.mark.parametrize("arguments", [["list", "interrupts"], ["list", "runs"], ["schedules"]])
def test_hitl_command_without_time_zone_support_prints_local_times(
    asked: Callable[..., Interrupt], arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked()
    create_schedule("steps", "0 7 * * *", {"log": []})
    call_command("hitl", *arguments)
    assert f"{timezone.now():%Y}" in capsys.readouterr().out


def test_audit_export_without_time_zone_support_ends_with_the_current_day(
    asked: Callable[..., Interrupt], capsys: pytest.CaptureFixture[str]
) -> None:
    services.decide(asked().pk, "approve")
    call_command("hitl", "export-audit", "--since", f"{timezone.now():%Y-%m-%d}")
    assert "approve" in capsys.readouterr().out


@pytest.mark.slow
def test_request_page_without_time_zone_support_shows_due_snooze_and_decision_times(
    asked: Callable[..., Interrupt], reviewer: Client, person: Callable[[str], Any]
) -> None:
    item = asked()
    soon = timezone.now() + timedelta(hours=3)
    Interrupt.objects.update(due_at=soon)
    assert f'datetime="{soon.isoformat()}"' in text_of(reviewer.get(list_of("reviewitem")))
    services.claim(item.pk, by=person("public"))
    page = reviewer.post(page_of(item), {
        "decision": "approve", "digest": item.payload_digest, "version": item.version,
        "answer/amount": "12.5",
    })  # fmt: skip
    assert "Claimed by public until" in text_of(page)
    services.release(item.pk, by=person("public"))
    services.snooze(item.pk, until=soon, by=person("reviewer"))
    assert "The first snoozed request returns at" in text_of(reviewer.get(list_of("reviewitem")))
    put_off = {"verb": "snooze", "until": "tomorrow"}
    page = reviewer.post(f"{page_of(item).removesuffix('change/')}handling/", put_off, follow=True)
    assert "is snoozed until" in text_of(page)
    services.decide(item.pk, "approve", by=person("reviewer"))
    assert "You approved" in text_of(reviewer.get(page_of(item)))


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_schedule_without_time_zone_support_starts_due_run_once(
    admin_client: Client, zone: str
) -> None:
    connection.close()
    with override_settings(TIME_ZONE=zone):
        made = create_schedule("steps", "0 7 * * *", {"log": []}, timezone="Asia/Kolkata")
        assert made.next_at is not None
        assert timezone.is_naive(made.next_at)
        due = made.next_at.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
        assert f"{due:%H:%M}" == "01:30"
        assert start_due() == []
        two_days_ago, a_day_ago = (clock.to_stored(due - timedelta(days=days)) for days in (2, 1))
        Schedule.objects.update(next_at=two_days_ago)
        assert len(start_due()) == 1
        row = Schedule.objects.get()
        assert (row.next_at, row.started, row.skipped) == (made.next_at, 1, 1)
        assert row.last_due_at == a_day_ago
        page = text_of(admin_client.get(page_of(made.id, "schedule")))
        assert localize(made.next_at) in page
        connection.close()


def test_thread_timeline_without_time_zone_support_shows_only_events_before_a_time(
    asked: Callable[..., Interrupt], person: Callable[[str], Any]
) -> None:
    thread = asked().thread
    request = RequestFactory().get("/")
    request.user = person("engineer")
    now = timezone.now()
    shown = [
        len(read_history(request, thread, at.isoformat()).moments)
        for at in (now + timedelta(minutes=1), now - timedelta(days=1))
    ]
    assert shown[0] > 0
    assert shown[1] == 0
    last_day = "9999-12-31T23:59:59-23:59"
    assert read_history(request, thread, last_day) == read_history(request, thread, "")


def test_live_updates_url_without_time_zone_support_contains_the_time_of_page_creation(
    person: Callable[[str], Any],
) -> None:
    request = RequestFactory().get(build_updates_url("/", []))
    before = timezone.now() - timedelta(minutes=1)
    assert ShownPage.read(request).since > before
