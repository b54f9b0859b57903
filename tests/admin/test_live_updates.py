"""Live updates of open pages: decisions, other viewers and new requests."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from html import unescape
from itertools import count
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from hitl_django import services
from hitl_django.models import Interrupt

from .browsing import press, text_of
from .conftest import list_of, make_interrupt, page_of

LATER = timedelta(hours=1)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def watch(client: Client, item: Interrupt, *shown: str) -> dict[str, Any]:
    url = page_of(item).removesuffix("change/") + "watch/"
    news: dict[str, Any] = client.get(url, {"interrupt": shown}).json()
    return news


def test_request_page_updates_without_changes_contain_no_interrupts_and_no_text(
    reviewer: Client, asked: Callable[..., Interrupt]
) -> None:
    item = asked()
    for _again in range(2):
        news = watch(reviewer, item, f"{item.pk}.{item.version}")
        assert news == {"again": 10, "interrupts": {}, "text": ""}


def test_request_page_updates_report_decisions_and_changed_versions(
    reviewer: Client, browse: Callable[[str], Client], asked: Callable[..., Interrupt]
) -> None:
    decided, changed = asked(), asked()
    press(reviewer, decided, "approve")
    Interrupt.objects.filter(pk=changed.pk).update(version=2)
    shown = [f"{one.pk}.1" for one in (decided, changed)]
    assert watch(browse("engineer"), changed, *shown)["interrupts"] == {
        str(decided.pk): "reviewer approved this",
        str(changed.pk): "This request has changed since you opened it",
    }
    assert watch(reviewer, decided, shown[0])["interrupts"][str(decided.pk)] == "You approved this"


def test_request_page_updates_name_other_viewers_for_thirty_seconds(
    reviewer: Client, browse: Callable[[str], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    item = make_interrupt({})
    watch(browse("reader"), item)
    watch(browse("engineer"), item)
    assert watch(reviewer, item)["text"] == "Also viewing: engineer and reader."
    assert watch(reviewer, make_interrupt({}))["text"] == ""
    later = time.time() + 31
    monkeypatch.setattr("hitl_django.admin.request.presence.time.time", lambda: later)
    assert watch(reviewer, item)["text"] == ""


@pytest.mark.promise("P18")
def test_request_page_updates_omit_interrupts_hidden_by_policy(
    browse: Callable[[str], Client], reviewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, hidden = make_interrupt({}), make_interrupt({})
    assert browse("nobody").get(page_of(seen).replace("change", "watch")).status_code == 404
    monkeypatch.setattr(
        "hitl_django.permissions.ModelPermissionPolicy.visible_interrupts",
        lambda self, user, rows: rows.exclude(pk=hidden.pk),
    )
    Interrupt.objects.update(version=2)
    assert watch(reviewer, seen, f"{seen.pk}.1", f"{hidden.pk}.1")["interrupts"].keys() == {
        str(seen.pk)
    }


@pytest.mark.parametrize("shown", ["", "x", ".", "x.y.z", "1" * 5000])
def test_request_page_updates_ignore_invalid_interrupt_parameters(
    reviewer: Client, shown: str
) -> None:
    assert watch(reviewer, make_interrupt({}), shown)["interrupts"] == {}


def test_request_page_updates_for_twenty_interrupts_take_at_most_eight_queries(
    reviewer: Client, django_assert_max_num_queries: Any
) -> None:
    items = [make_interrupt({}) for _n in range(20)]
    for item in items[:10]:
        press(reviewer, item, "reject")
    shown = [f"{one.pk}.1" for one in items]
    with django_assert_max_num_queries(8):
        watch(reviewer, items[0], *shown)


def open_list(client: Client, **query: str) -> str:
    found = re.search(r'data-hitl-watch="([^"]+)"', text_of(client.get(list_of(), query)))
    assert found is not None
    return unescape(found[1])


class TestList:
    def test_queue_updates_without_changes_contain_current_counts_and_no_text(
        self, reviewer: Client
    ) -> None:
        make_interrupt({})
        assert reviewer.get(open_list(reviewer)).json() == {
            "again": 15,
            "text": "",
            "interrupts": {},
            "counts": {
                "": "1", "mine": "0", "unclaimed": "1", "claimed": "0", "overdue": "0",
                "snoozed": "0",
            },
            "total": "1 pending request",
        }  # fmt: skip

    def test_queue_updates_report_number_of_new_requests_and_link_to_show_them(
        self, reviewer: Client
    ) -> None:
        make_interrupt({})
        address = open_list(reviewer, p="1", show="unclaimed")
        for number in range(3):
            make_interrupt({}, title=f"Later {number}?")
        news = reviewer.get(address).json()
        assert news["text"] == "3 new"
        assert news["lead"] == {"url": f"{list_of()}?show=unclaimed", "label": "Show new requests"}
        assert news["counts"]["unclaimed"] == "4"
        assert news["total"] == "4 pending requests"
        assert text_of(reviewer.get(news["lead"]["url"])).count("Later") == 2 * 3
        # Displayed rows no longer count as new.
        assert reviewer.get(open_list(reviewer, show="unclaimed")).json()["text"] == ""

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ({"graph": "typed"}, "1 new"),
            ({"group": "{group}"}, "1 new"),
            ({"show": "snoozed"}, "1 new"),
            ({"show": "mine"}, ""),
            ({"q": "refund"}, "2 new"),
            ({"q": "nothing of the kind"}, ""),
            ({"group": "x", "show": "nonsense", "o": "-9"}, ""),
        ],
    )
    def test_queue_updates_report_only_new_requests_that_match_the_filters(
        self, reviewer: Client, query: dict[str, str], text: str
    ) -> None:
        group = Group.objects.create(name="Crew")
        address = open_list(
            reviewer, **{name: value.format(group=group.pk) for name, value in query.items()}
        )
        make_interrupt({}, graph="typed", title="Refund Dana?")
        make_interrupt({}, group=group, title="Refund Kim?")
        make_interrupt({}, snoozed_until=timezone.now() + LATER)
        assert reviewer.get(address).json()["text"] == text

    def test_queue_updates_report_decided_and_changed_rows(
        self, reviewer: Client, person: Any
    ) -> None:
        asked = {name: make_interrupt({}) for name in ("decided", "changed", "same")}
        address = open_list(reviewer)
        services.decide(asked["decided"].pk, "reject", by=person("public"))
        Interrupt.objects.filter(pk=asked["changed"].pk).update(version=2)
        news = reviewer.get(address).json()
        assert news["interrupts"] == {
            str(asked["decided"].pk): "public rejected this",
            str(asked["changed"].pk): "This request has changed since you opened it",
        }
        assert news["counts"][""] == "2"

    @pytest.mark.promise("P18")
    def test_queue_updates_omit_requests_hidden_by_policy(
        self, browse: Callable[[str], Client], reviewer: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shown = make_interrupt({})
        address = open_list(reviewer)
        make_interrupt({})
        Interrupt.objects.filter(pk=shown.pk).update(version=2)
        assert browse("nobody").get(address).status_code == 403
        assert Client().get(address).status_code == 302
        monkeypatch.setattr(
            "hitl_django.permissions.ModelPermissionPolicy.visible_interrupts",
            lambda self, user, rows: rows.filter(graph="another"),
        )
        news = reviewer.get(address).json()
        assert (news["text"], news["interrupts"], {*news["counts"].values()}) == ("", {}, {"0"})

    @pytest.mark.parametrize("since", ["", "x", "nan", "inf", "-1e400", "9" * 400])
    def test_queue_updates_ignore_invalid_since_and_interrupt_parameters(
        self, reviewer: Client, since: str
    ) -> None:
        address = open_list(reviewer).partition("?")[0]
        make_interrupt({})
        news = reviewer.get(address, {"since": since, "interrupt": ["x", f"{since}.1"]}).json()
        assert (news["text"], news["interrupts"]) == ("", {})

    def test_queue_updates_for_fifty_rows_read_no_payloads_or_schemas(
        self, reviewer: Client, django_assert_max_num_queries: Any
    ) -> None:
        for _n in range(60):
            make_interrupt({"secret": 1})
        address = open_list(reviewer, show="unclaimed", q="question")
        assert len(address) < 4000  # the maximum size that servers accept
        Interrupt.objects.update(version=2)
        with django_assert_max_num_queries(9), CaptureQueriesContext(connection) as queries:
            news = reviewer.get(address)
        assert len(news.json()["interrupts"]) == 50
        asked = [made["sql"] for made in queries.captured_queries]
        assert [sql for sql in asked if '"payload"' in sql or '"response_schema"' in sql] == []

    def test_queue_updates_of_an_empty_queue_report_the_first_new_request(
        self, reviewer: Client
    ) -> None:
        address = open_list(reviewer)
        make_interrupt({})
        assert reviewer.get(address).json()["text"] == "1 new"

    def test_queue_page_title_contains_the_number_of_pending_requests(
        self, reviewer: Client
    ) -> None:
        assert "<title>Review queue |" in text_of(reviewer.get(list_of()))
        for _n in range(2):
            make_interrupt({})
        assert "<title>(2) Review queue |" in text_of(reviewer.get(list_of()))


def test_request_page_updates_during_concurrent_decision_are_empty_or_name_the_deciding_user(
    reviewer: Client, browse: Callable[[str], Client], asked: Callable[..., Interrupt]
) -> None:
    engineer = browse("engineer")
    for at in count(1):
        item, numbers = asked(), count(1)
        with connection.execute_wrapper(decide_before(at, numbers, item)):
            news = watch(engineer, item, f"{item.pk}.1")["interrupts"]
        if next(numbers) <= at:
            break
        assert news in ({}, {str(item.pk): "reviewer approved this"})
    assert at > 2


def decide_before(at: int, numbers: Iterator[int], item: Interrupt) -> Any:
    user = get_user_model().objects.get(username="reviewer")

    def decide(execute: Any, *call: Any) -> Any:
        if next(numbers) == at:
            services.decide(item.pk, "approve", by=user)
        return execute(*call)

    return decide
