"""The queue next to a request: its position, adjacent requests, and hiding it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db.models.functions import Now
from django.test import Client

from hitl_django import services
from hitl_django.models import Interrupt

from .browsing import text_of
from .conftest import make_interrupt, page_of

pytestmark = pytest.mark.django_db


def way(page: str, rel: str) -> str:
    found = re.search(rf'rel="{rel}" href="([^"?]*)', page)
    return found[1] if found else ""


def beside(page: str) -> list[str]:
    return re.findall(r'<a href="[^"]*" dir="auto"[^>]*>([^<]*)<', pane(page))


def pane(page: str) -> str:
    return page.partition('<aside class="hitl-pane"')[2].partition("</aside>")[0]


def open_from(client: Client, item: Interrupt, filters: str = "") -> str:
    address = page_of(item)
    if filters:
        address += f"?_changelist_filters={quote(filters)}"
    return text_of(client.get(address))


def test_request_opened_from_queue_shows_position_and_previous_and_next_links(
    reviewer: Client,
) -> None:
    first, second, third = (make_interrupt({}, title=f"Number {n}?") for n in (1, 2, 3))
    page = open_from(reviewer, second)
    assert "2 of 3" in page
    assert (way(page, "prev"), way(page, "next")) == (page_of(first), page_of(third))
    assert beside(page) == ["Number 1?", "Number 2?", "Number 3?"]
    assert re.search(rf'href="{page_of(second)}" dir="auto" aria-current="page"', page)
    assert way(open_from(reviewer, first), "prev") == ""
    assert way(open_from(reviewer, third), "next") == ""


@pytest.mark.parametrize(
    ("filters", "listed"),
    [
        ("", ["Late?", "Of sam?", "Also of sam?", "Other?", "Lately?"]),
        ("graph=made", ["Late?", "Of sam?", "Also of sam?"]),
        ("show=mine", ["Late?"]),
        ("show=claimed", ["Of sam?", "Also of sam?"]),
        ("show=overdue", ["Late?"]),
        ("show=nonsense", ["Late?", "Of sam?", "Also of sam?", "Other?", "Lately?"]),
        ("show=unclaimed", ["Other?", "Lately?"]),
        ("q=late", ["Late?", "Lately?"]),
        ("q=late&show=claimed", []),
    ],
)
def test_request_opened_from_filtered_queue_shows_position_within_the_filtered_requests(
    reviewer: Client, person: Callable[[str], Any], filters: str, listed: list[str]
) -> None:
    made = [make_interrupt({}, title=title) for title in ("Late?", "Of sam?", "Also of sam?")]
    made += [make_interrupt({}, title=title, graph="other") for title in ("Other?", "Lately?")]
    sam = get_user_model().objects.create_user("sam", is_staff=True)
    sam.user_permissions.set(person("reviewer").user_permissions.all())
    for item, by in zip(made[:3], (person("reviewer"), sam, sam), strict=True):
        services.claim(item.pk, by=by)
    Interrupt.objects.filter(pk=made[0].pk).update(overdue=True, due_at=Now())
    # The request isn't in the list, so it has no number. The list is displayed nevertheless.
    page = open_from(reviewer, made[-1], filters)
    assert beside(page) == listed
    assert (f"{len(listed)} of {len(listed)}" in page) == (made[-1].title in listed)


def test_queue_list_beside_a_request_shows_graph_titles(reviewer: Client) -> None:
    item, _other = (make_interrupt({}, graph="approval") for _n in range(2))
    listed = pane(open_from(reviewer, item))
    assert listed.count("<bdi>Approval</bdi>") == 2
    assert "approval</bdi>" not in listed


def test_queue_position_among_more_than_thirty_requests_shows_thirty_plus(
    reviewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hitl_django.admin.request.queue_position.MOST", 30)
    items = [make_interrupt({}, title=f"Number {n}?") for n in range(32)]
    page = open_from(reviewer, items[10])
    assert "11 of 30+" in page
    assert beside(page) == [f"Number {n}?" for n in range(6, 30)]
    beyond = open_from(reviewer, items[31])
    assert " of 30+" not in beyond
    assert way(beyond, "next") == page_of(items[0])


def test_queue_position_omits_requests_hidden_by_policy(
    reviewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, hidden, other = (make_interrupt({}, title=f"Number {n}?") for n in (1, 2, 3))
    monkeypatch.setattr(
        "hitl_django.permissions.ModelPermissionPolicy.visible_interrupts",
        lambda self, user, rows: rows.exclude(pk=hidden.pk),
    )
    page = open_from(reviewer, seen)
    assert way(page, "next") == page_of(other)
    assert hidden.title not in page


def test_queue_list_beside_a_request_respects_the_group_filter(reviewer: Client) -> None:
    group = Group.objects.create(name="Finance")
    one, two = (make_interrupt({}, title=f"Number {n}?", group=group) for n in (1, 2))
    make_interrupt({}, title="Of nobody?")
    page = open_from(reviewer, one, f"group={group.pk}")
    assert beside(page) == [one.title, two.title]


def test_queue_list_beside_a_request_can_be_hidden_and_shown_by_the_user(reviewer: Client) -> None:
    items = [make_interrupt({}) for _n in range(2)]
    split = page_of(items[0]).removesuffix("change/") + "split/"
    assert reviewer.get(split).cookies.get("hitl_split") is None
    response = reviewer.post(split, {"list": "hide"})
    assert response.headers["Location"] == page_of(items[0])
    page = open_from(reviewer, items[1])
    assert beside(page) == []
    assert "2 of 2" in page
    reviewer.post(split, {"list": "show"})
    assert len(beside(open_from(reviewer, items[1]))) == 2


def test_page_of_the_only_request_in_the_queue_shows_no_position_and_no_list(
    reviewer: Client,
) -> None:
    page = open_from(reviewer, make_interrupt({}))
    assert "hitl-place" not in page
    assert "hitl-pane" not in page


def test_queue_list_beside_a_request_escapes_titles(reviewer: Client) -> None:
    one = make_interrupt({}, title="Plain?")
    make_interrupt({}, title="<b>&\u202e</b>")
    page = open_from(reviewer, one)
    assert "<b>" not in page
    assert "\u202e" not in page
