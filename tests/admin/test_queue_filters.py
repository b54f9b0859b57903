"""Filters of the queue by priority, assignee and due time."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.timezone import override

from hitl_django.models import Interrupt
from hitl_django.services.reviews.queue_filters import match_due

from .browsing import text_of
from .conftest import list_of, make_interrupt, page_of

pytestmark = pytest.mark.django_db

#: A Wednesday.
NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)


def url_of(name: str) -> str:
    return reverse(f"admin:hitl_django_reviewitem_{name}")


def listed(client: Client, query: str) -> list[str]:
    page = client.get(f"{list_of()}?{query}")
    return [row.title for row in page.context["cl"].rows]


@pytest.fixture
def prioritized() -> None:
    for priority in (3, 2, 1, 0, -1):
        make_interrupt({}, title=f"Priority {priority}", priority=priority)


@pytest.fixture
def assigned(person: Callable[[str], Any]) -> None:
    me, other = person("reviewer"), person("public")
    make_interrupt({}, title="Mine", assignee=me, assignee_label="reviewer")
    make_interrupt({}, title="Theirs", assignee=other, assignee_label="public")
    make_interrupt({}, title="A group's", group=Group.objects.create(name="crew"))
    make_interrupt({}, title="Nobody's")


@pytest.fixture
def dated() -> None:
    now = timezone.now()
    for title, due in {
        "Overdue": now - timedelta(days=30),
        "Later": now + timedelta(days=30),
        "Undated": None,
    }.items():
        make_interrupt({}, title=title, due_at=due)
    make_interrupt({}, title="Soon", due_at=now + timedelta(hours=1))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("urgent", ["Priority 3", "Priority 2"]),
        ("high", ["Priority 1"]),
        ("normal", ["Priority 0"]),
        ("low", ["Priority -1"]),
        ("", ["Priority 3", "Priority 2", "Priority 1", "Priority 0", "Priority -1"]),
    ],
)
def test_queue_filtered_by_priority_lists_only_requests_of_that_priority(
    reviewer: Client, prioritized: None, value: str, expected: list[str]
) -> None:
    assert listed(reviewer, f"priority={value}") == expected


@pytest.mark.parametrize(("value", "expected"), [("me", ["Mine"]), ("nobody", ["Nobody's"])])
def test_queue_filtered_by_assignee_lists_only_requests_of_the_assignee(
    reviewer: Client, assigned: None, value: str, expected: list[str]
) -> None:
    assert listed(reviewer, f"assignee={value}") == expected


@pytest.mark.parametrize(("value", "expected"), [("overdue", ["Overdue"]), ("none", ["Undated"])])
def test_queue_filtered_by_due_time_lists_only_requests_due_in_the_period(
    reviewer: Client, dated: None, value: str, expected: list[str]
) -> None:
    assert listed(reviewer, f"due={value}") == expected
    assert "Later" not in listed(reviewer, "due=week")
    assert "Overdue" not in listed(reviewer, "due=today")


@pytest.mark.parametrize(
    ("name", "first", "end"),
    [
        ("today", datetime(2026, 11, 25), datetime(2026, 11, 26)),
        ("week", datetime(2026, 11, 23), datetime(2026, 11, 30)),
    ],
)
def test_due_filter_includes_whole_days_in_the_current_time_zone(
    monkeypatch: pytest.MonkeyPatch, name: str, first: datetime, end: datetime
) -> None:
    monkeypatch.setattr(timezone, "now", lambda: NOON)
    zone = ZoneInfo("Pacific/Auckland")
    moments = {
        "before": first.replace(tzinfo=zone) - timedelta(seconds=1),
        "first": first.replace(tzinfo=zone),
        "last": end.replace(tzinfo=zone) - timedelta(seconds=1),
        "after": end.replace(tzinfo=zone),
    }
    # In Auckland, it is already Thursday.
    shift = timedelta(days=1 if name == "today" else 0)
    for title, moment in moments.items():
        make_interrupt({}, title=title, due_at=moment + shift)
    with override(zone):
        found = Interrupt.objects.filter(match_due(name)).values_list("title", flat=True)
        assert sorted(found) == ["first", "last"]


@pytest.mark.parametrize("query", ["priority=x", "assignee=reviewer", "due=tomorrow", "due=%00x"])
def test_queue_with_unknown_filter_value_lists_all_requests_or_returns_400(
    reviewer: Client, assigned: None, query: str
) -> None:
    response = reviewer.get(f"{list_of()}?{query}")
    if "%00" in query:
        assert response.status_code == 400
    else:
        assert len(response.context["cl"].rows) == 4


def test_combined_filters_narrow_the_counts_of_the_tabs(
    reviewer: Client, prioritized: None, assigned: None
) -> None:
    query = "priority=normal&assignee=nobody"
    page = reviewer.get(f"{list_of()}?{query}")
    assert sorted(listed(reviewer, query)) == ["Nobody's", "Priority 0"]
    counts = {tab.name: tab.count for tab in page.context["tabs"]}
    assert (counts[""], counts["mine"], counts["unclaimed"]) == ("2", "0", "2")
    assert "2 pending requests" in text_of(page)
    assert listed(reviewer, f"{query}&q=prio") == ["Priority 0"]


def test_filter_menus_name_the_selected_value_and_keep_the_other_filters(
    reviewer: Client, prioritized: None
) -> None:
    page = text_of(reviewer.get(f"{list_of()}?priority=high&due=none"))
    assert "Priority: High" in page
    assert "Due: No due date" in page
    assert re.search(r'href="\?due=none&amp;priority=urgent"', page)
    assert re.search(r'href="\?due=none"[^>]*>All<', page)
    assert "Clear filters" in page


def test_saved_filter_contains_priority_assignee_and_due_time(
    reviewer: Client, prioritized: None
) -> None:
    query = "priority=high&assignee=nobody&due=none"
    done = reviewer.post(url_of("save_filter"), {"query": query, "name": "High"})
    assert done.headers["Location"] == f"{list_of()}?{query}"
    [link] = reviewer.get(list_of()).context["saved"]
    assert listed(reviewer, link.url.removeprefix("?")) == ["Priority 1"]


def test_review_next_and_queue_position_respect_the_filters(
    reviewer: Client, prioritized: None
) -> None:
    kept = "?_changelist_filters=priority%3Durgent"
    second = Interrupt.objects.get(title="Priority 2")
    page = text_of(reviewer.get(page_of(second) + kept))
    assert "2 of 2" in page
    for title in ("Priority 3", "Priority 2"):
        found = reviewer.post(url_of("next") + kept).headers["Location"]
        assert found == page_of(Interrupt.objects.get(title=title)) + kept
    assert reviewer.post(url_of("next") + kept).headers["Location"].startswith(list_of())


def test_updates_of_a_filtered_list_count_only_matching_new_requests(reviewer: Client) -> None:
    make_interrupt({}, title="Before", priority=1)
    page = text_of(reviewer.get(f"{list_of()}?priority=high"))
    [url] = re.findall(r'data-hitl-watch="([^"]*)"', page)
    make_interrupt({}, priority=0)
    make_interrupt({}, priority=1)
    news = reviewer.get(url.replace("&amp;", "&")).json()
    assert news["text"] == "1 new"
    assert news["counts"][""] == "2"


def test_queue_with_all_filters_takes_at_most_ten_queries(
    reviewer: Client, assigned: None, django_assert_max_num_queries: Any
) -> None:
    reviewer.get(list_of())
    with django_assert_max_num_queries(10):
        reviewer.get(f"{list_of()}?priority=normal&assignee=nobody&due=none")
