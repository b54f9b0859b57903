"""Wording of pages: time formats with time zone, complete sentences, and readable names."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from hitl_django import services
from hitl_django.models import Checkpoint, Interrupt, Run, Thread, WorkerHeartbeat

from .conftest import PASSWORD
from .scenes import ask, people

pytestmark = [
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

BASE = "/admin/hitl_django"
FAMILY = "👩‍👩‍👧"
#: Two full stops that aren't part of three.
TWO_STOPS = re.compile(r"(?<!\.)\.\.(?!\.)")
#: Times in any other format than "March 5, 2026, 5:06 a.m.".
OTHER_STYLES = re.compile(r"\d\d/\d\d/\d{4}|\d{4}-\d\d-\d\d \d\d:|\d\d:\d\d:\d\d")


def read(page: Any, url: str) -> str:
    """Open a page with all details, and return its text and tooltips."""
    page.goto(url)
    for summary in page.locator("details:not([open]) > summary").all():
        if summary.is_visible():
            summary.click()
    tips = page.eval_on_selector_all("#content [title]", "all => all.map((one) => one.title)")
    return "\n".join([page.inner_text("body"), *tips])


def test_every_page_shows_times_in_one_format_with_time_zone_and_graphs_by_title(
    log_in: Callable[..., Any], start: Callable[..., Any], settings: Any
) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    people(PASSWORD)
    item = ask("approval", text=f"the family {FAMILY}")
    waiting = services.start("approval", {"text": "the news"})
    moment = datetime(2026, 3, 4, 20, 6, 7, tzinfo=UTC)
    for model in (Interrupt, Run, Thread, Checkpoint):
        model.objects.update(created_at=moment)
    Interrupt.objects.update(due_at=timezone.now() - timedelta(seconds=20))
    worker = WorkerHeartbeat.objects.create(owner="host:7", host="host", pid=7)
    WorkerHeartbeat.objects.filter(pk=worker.pk).update(at=moment)
    unbegun = Run.objects.get(pk=waiting.id)
    pages = [
        f"{BASE}/reviewitem/",
        f"{BASE}/reviewitem/{item.pk}/change/",
        f"{BASE}/interrupt/",
        f"{BASE}/run/",
        f"{BASE}/run/{item.run_id}/change/",
        f"{BASE}/run/{unbegun.pk}/change/",
        f"{BASE}/thread/",
        f"{BASE}/thread/{item.thread_id}/change/",
        f"{BASE}/thread/{unbegun.thread_id}/change/",
    ]
    page = log_in("rita")
    said = {url: read(page, url) for url in pages}
    for url, text in said.items():
        assert "March 5, 2026, 5:06 a.m." in text, url
        assert OTHER_STYLES.findall(text) == [], url
        assert TWO_STOPS.findall(text) == [], url
        assert text.count("Time zone: Asia/Tokyo") == 1, url
        assert "tep -1" not in text, url
        assert "⟨U+200D⟩" not in text, url
    queue, interrupt, _, runs, run = (said[url] for url in pages[:5])
    assert "Overdue 1 min" in queue
    assert "Last worker seen: March 5, 2026, 5:06 a.m." in queue
    assert FAMILY in queue
    assert FAMILY in interrupt
    # The page shows the title of the graph instead of its name.
    for text in (queue, interrupt, runs, run):
        assert "Approval" in text
    index = read(page, "/admin/")
    assert "Review queue" in index
    assert "All requests" in index
