"""Saved filters of the review queue."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from hitl_django import services
from hitl_django.models import SavedFilter

from .browsing import text_of
from .conftest import list_of, make_interrupt

SAVE = reverse("admin:hitl_django_reviewitem_save_filter")
REMOVE = reverse("admin:hitl_django_reviewitem_remove_filter")


def saved(client: Client, query: str = "") -> Any:
    return client.get(f"{list_of()}?{query}").context["saved"]


@pytest.mark.slow
def test_queue_filter_can_be_saved_reopened_and_removed(reviewer: Client) -> None:
    make_interrupt({}, title="Refund Dana?", graph="typed")
    query = "show=unclaimed&graph=typed&q=dana+%26+co"
    page = text_of(reviewer.get(f"{list_of()}?{query}"))
    (kept,) = re.findall(r'name="query" value="([^"]*)"', page)
    done = reviewer.post(SAVE, {"query": unescape(kept), "name": "Dana"})
    assert done.headers["Location"] == f"{list_of()}?{query}"
    (link,) = saved(reviewer)
    assert (link.name, link.url, link.is_current) == ("Dana", f"?{query}", False)
    page = text_of(reviewer.get(list_of() + link.url))
    assert saved(reviewer, query)[0].is_current
    assert "Save current filters as" not in page
    (key,) = re.findall(r'name="filter" value="([^"]*)"', page)
    reviewer.post(REMOVE, {"filter": key})
    assert saved(reviewer) == []


def test_queue_offers_saving_a_filter_only_with_active_filters(reviewer: Client) -> None:
    make_interrupt({})
    assert "Save current filters as" not in text_of(reviewer.get(list_of()))
    assert "Save current filters as" not in text_of(reviewer.get(f"{list_of()}?p=1"))
    assert "Save current filters as" in text_of(reviewer.get(f"{list_of()}?show=mine"))


@pytest.mark.parametrize(
    "query",
    ["//evil.example", "https://evil.example/?show=mine", "show=mine&next=//evil.example",
     "\r\nSet-Cookie: a=b&show=mine", "show=mine#//evil.example"],
)  # fmt: skip
@pytest.mark.parametrize("page", [SAVE, REMOVE])
def test_saving_a_filter_with_url_of_another_host_redirects_to_the_queue(
    query: str, page: str, reviewer: Client
) -> None:
    done = reviewer.post(page, {"query": query, "name": "x"})
    address = done.headers["Location"]
    assert address == list_of() or address.startswith(f"{list_of()}?show=mine")
    assert "evil" not in address.replace("%23%2F%2Fevil.example", "")
    for link in saved(reviewer):
        assert link.url.startswith("?show=mine")


def test_saved_filter_with_manipulated_query_links_only_to_the_queue_and_is_escaped(
    reviewer: Client, person: Callable[[str], Any]
) -> None:
    query = {"show": '"><script>', "q": "//evil.example", "o": "1", "graph": "javascript:x"}
    SavedFilter.objects.create(owner=person("reviewer"), name="<b>x</b>\u202e", query=query)
    (link,) = saved(reviewer)
    assert link.url.startswith("?show=%22%3E%3Cscript%3E&graph=javascript%3Ax&q=%2F%2Fevil")
    html = text_of(reviewer.get(list_of()))
    assert "<b>x" not in html
    assert "\u202e" not in html
    assert reviewer.get(list_of() + link.url).status_code == 200


def test_saved_filter_is_shared_only_with_permission_and_removed_only_by_its_owner(
    reviewer: Client, person: Callable[[str], Any], browse: Callable[[str], Client]
) -> None:
    given = {"query": "show=mine", "name": "Ours", "shared": "on"}
    assert "Share with everyone" not in text_of(reviewer.get(f"{list_of()}?show=mine"))
    assert reviewer.post(SAVE, given).status_code == 403
    person("reviewer").user_permissions.add(Permission.objects.get(codename="share_savedfilter"))
    client = browse("reviewer")
    assert "Share with everyone" in text_of(client.get(f"{list_of()}?show=mine"))
    client.post(SAVE, given)
    other = browse("reader")
    (link,) = saved(other, "show=mine")
    assert (link.name, link.shared, link.is_removable) == ("Ours", True, False)
    other.post(REMOVE, {"filter": str(link.id)})
    assert SavedFilter.objects.count() == 1


@pytest.mark.parametrize("number", ["", "x", "²", "1" * 30, "-1"])
def test_remove_of_unknown_saved_filter_id_deletes_no_saved_filter(
    number: str, reviewer: Client, person: Callable[[str], Any]
) -> None:
    services.save_filter("a", {"show": "mine"}, by=person("reviewer"))
    assert reviewer.post(REMOVE, {"filter": number}).status_code == 302
    assert SavedFilter.objects.count() == 1


@pytest.mark.parametrize("name", ["", "x" * 61, "  "])
def test_save_of_filter_with_blank_or_too_long_name_asks_for_a_different_name_and_saves_nothing(
    name: str, reviewer: Client
) -> None:
    done = reviewer.post(SAVE, {"query": "show=mine", "name": name}, follow=True)
    assert "Not saved: enter a different name" in text_of(done)
    assert not SavedFilter.objects.exists()
