"""Overview page, the start page of operators."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from hitl_django import services
from hitl_django.admin.runs import overview_page
from hitl_django.contrib.schedules.models import Schedule
from hitl_django.contrib.schedules.services import create_schedule
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint
from hitl_django.extensions import Extension, OverviewRow, OverviewTable
from hitl_django.models import Interrupt, Run, WorkerHeartbeat

from .conftest import list_of, make_interrupt, page_of

Browse = Callable[[str], Client]
OVERVIEW = "/admin/hitl_django/run/overview/"


def add_runs(count: int, **columns: Any) -> list[Run]:
    runs = [services.start("approval", {"text": "x"}) for _ in range(count)]
    found = Run.objects.filter(pk__in=[run.id for run in runs])
    found.update(**columns)
    return list(found)


def text_of(response: Any) -> str:
    return str(response.content.decode())


def figures_of(response: Any) -> dict[str, tuple[str, str, str]]:
    return {
        str(each.label): (str(each.value), str(each.detail), each.url)
        for each in response.context["figures"]
    }


@pytest.mark.parametrize("role", ["nobody", "reader", "reviewer", "blind"])
def test_overview_without_operate_permission_returns_403(role: str, browse: Browse) -> None:
    assert browse(role).get(OVERVIEW).status_code == 403


def test_overview_without_permission_to_view_runs_returns_403(
    browse: Browse, person: Callable[[str], Any]
) -> None:
    person("nobody").user_permissions.add(Permission.objects.get(codename="operate_run"))
    assert browse("nobody").get(OVERVIEW).status_code == 403


def test_overview_page_counts_runs_by_state_and_links_to_the_lists_of_these_runs(
    browse: Browse,
) -> None:
    now = timezone.now()
    add_runs(2, state="failed", finished_at=now - timedelta(minutes=5), error="KeyError: 'total'")
    add_runs(1, state="failed", finished_at=now - timedelta(days=3), error="KeyError: 'total'")
    add_runs(1, state="parked")
    add_runs(3, queued_at=now - timedelta(minutes=7))
    add_runs(4, state="succeeded", finished_at=now - timedelta(minutes=9))
    figures = figures_of(browse("operator").get(OVERVIEW))
    runs = list_of("run")
    assert figures["failed"] == ("3", "2 in the last hour", f"{runs}?state__exact=failed")
    assert figures["parked"] == ("1", "Retry or cancel", f"{runs}?state__exact=parked")
    assert figures["running"] == ("0", "", f"{runs}?state__exact=running")
    assert figures["queued"] == ("3", "Oldest: 7 min", f"{runs}?state__exact=queued")
    assert figures["throughput"] == ("6 / h", "Runs in the last hour", runs)


def test_overview_shows_numbers_of_pending_and_overdue_requests_and_the_oldest_request(
    browse: Browse, asked: Callable[..., Interrupt]
) -> None:
    asked()
    oldest = make_interrupt({}, title="Pay Dana?", due_at=timezone.now() - timedelta(minutes=1))
    long_ago = timezone.now() - timedelta(hours=26)
    Interrupt.objects.filter(pk=oldest.pk).update(created_at=long_ago)
    response: Any = browse("operator").get(OVERVIEW)
    figures = figures_of(response)
    assert figures["waiting for review"] == ("2", "1 overdue", list_of())
    assert figures["oldest request"] == ("1 d", "Pay Dana?", page_of(oldest))
    assert f'href="{list_of()}?graph=typed"' in text_of(response)


def test_overview_groups_failed_runs_with_the_same_error_and_offers_to_retry_them(
    browse: Browse,
) -> None:
    now = timezone.now()
    same = add_runs(2, state="failed", finished_at=now, error="ValueError: no <b>\nmore")
    (parked,) = add_runs(1, state="parked", error="The graph isn't registered.")
    client = browse("operator")
    page = text_of(client.get(OVERVIEW))
    assert page.count(escape("ValueError: no <b>")) == 1
    assert "more" not in page.partition("Needs attention")[2].partition("</table>")[0]
    assert "Retry 2 runs…" in page
    assert escape("The graph isn't registered.") in page
    assert reverse("admin:hitl_django_run_retry", args=[parked.pk]) in page
    posted = {"verb": "retry", "item": [str(run.pk) for run in same]}
    assert "2 runs to retry" in text_of(client.post(list_of("run"), posted))


def test_overview_hides_requests_from_operators_without_permission_to_view_them(
    browse: Browse, person: Callable[[str], Any], asked: Callable[..., Interrupt]
) -> None:
    asked()
    person("operator").user_permissions.remove(
        Permission.objects.get(codename="view_interrupt", content_type__model="interrupt")
    )
    response: Any = browse("operator").get(OVERVIEW)
    assert figures_of(response)["waiting for review"][0] == "0"
    assert "Refund Dana?" not in text_of(response)


def test_overview_without_recent_heartbeat_shows_a_banner_and_the_last_heartbeat(
    browse: Browse,
) -> None:
    worker = WorkerHeartbeat.objects.create(owner="web-01:7", host="web-01", pid=7)
    response: Any = browse("operator").get(OVERVIEW)
    assert "No worker is running" not in text_of(response)
    assert "web-01" in text_of(response)
    assert figures_of(response)["workers"][0] == "1"
    WorkerHeartbeat.objects.filter(pk=worker.pk).update(at=timezone.now() - timedelta(hours=2))
    response = browse("operator").get(OVERVIEW)
    assert "No worker is running" in text_of(response)
    assert figures_of(response)["workers"][:2] == ("0", "Seen 2 h ago")


def test_overview_shows_next_runs_and_errors_of_schedules_only_with_view_permission(
    browse: Browse, person: Callable[[str], Any]
) -> None:
    create_schedule("approval", "0 7 * * *", {"text": "x"}, description="Morning news")
    broken = create_schedule("approval", "0 8 * * *", {"text": "x"}, description="Evening news")
    Schedule.objects.filter(pk=broken.id).update(last_error="UnknownGraphError: survey")
    assert "Morning news" not in text_of(browse("operator").get(OVERVIEW))
    person("operator").user_permissions.add(
        Permission.objects.get(codename="view_schedule", content_type__app_label="hitl_schedules")
    )
    page = text_of(browse("operator").get(OVERVIEW))
    for words in ("Morning news", "Evening news", "UnknownGraphError: survey", "in "):
        assert words in page
    assert page_of(broken.id, "schedule") in page


def test_overview_shows_failing_webhooks_only_with_view_permission(
    browse: Browse, person: Callable[[str], Any]
) -> None:
    hook = webhook_services.create_webhook("https://crm.example/hooks")
    person("operator").user_permissions.add(Permission.objects.get(codename="view_webhookendpoint"))
    assert "crm.example" not in text_of(browse("operator").get(OVERVIEW))
    WebhookEndpoint.objects.filter(pk=hook.id).update(failures=3)
    page = text_of(browse("operator").get(OVERVIEW))
    assert "3 consecutive failures" in page
    assert page_of(hook.id, "webhookendpoint") in page
    assert "crm.example" not in text_of(browse("engineer").get(OVERVIEW))


def test_overview_shows_next_attempt_of_failing_webhook_from_its_first_due_delivery(
    browse: Browse, person: Callable[[str], Any]
) -> None:
    hook = webhook_services.create_webhook("https://crm.example/" + 1000 * "x")
    person("operator").user_permissions.add(Permission.objects.get(codename="view_webhookendpoint"))
    now = timezone.now()
    paused = now - timedelta(minutes=9)
    WebhookEndpoint.objects.filter(pk=hook.id).update(failures=3, paused_until=paused)
    for hours in (3, 5):
        due_at = now + timedelta(hours=hours, minutes=1)
        Delivery.objects.create(endpoint_id=hook.id, event="run.failed", data={}, due_at=due_at)
    page = text_of(browse("operator").get(OVERVIEW))
    assert "in 3 h" in page
    assert "9 min ago" not in page
    assert 200 * "x" not in page


def test_overview_shows_tables_of_extensions_with_escaped_cells_and_relative_times(
    browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = timezone.now() + timedelta(hours=3, minutes=1)
    seen = []

    def build(user: Any) -> OverviewTable:
        seen.append(user.username)
        row = OverviewRow(["<i>first</i>", soon, "late"], note="a note", tone="bad")
        columns = ["Name", "Due", "State"]
        return OverviewTable(title="Extra", model=Run, columns=columns, rows=[row])

    extension = Extension(name="extra", overview=[build, lambda user: None])
    monkeypatch.setattr(overview_page, "list_extensions", lambda: [extension])
    page = text_of(browse("operator").get(OVERVIEW))
    assert seen == ["operator"]
    for words in ("Extra", "&lt;i&gt;first", "in 3 h", "a note", '"hitl-pill is-bad">Late'):
        assert words in page


def test_overview_query_count_is_the_same_for_many_runs_and_requests(
    browse: Browse, django_assert_max_num_queries: Any
) -> None:
    client = browse("operator")
    for count in (1, 12):
        add_runs(count, state="failed", finished_at=timezone.now(), error="E")
        for number in range(count):
            make_interrupt({}, graph=("typed", "approval")[number % 2])
        with django_assert_max_num_queries(14):
            assert client.get(OVERVIEW).status_code == 200


def test_navigation_begins_with_overview_for_operators_only(browse: Browse) -> None:
    for role, first in (("operator", True), ("reader", False)):
        response: Any = browse(role).get(list_of())
        labels = [str(link.label) for link in response.context["navigation"].links]
        assert (labels[0] == "Overview") is first
        assert (OVERVIEW in text_of(response)) is first
