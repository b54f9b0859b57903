"""Prefetching of the next request, and its confirmation by a decision."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from hitl_django import services
from hitl_django.models import Decision, Interrupt, Run

from .browsing import press, sheet_of, text_of
from .conftest import list_of, make_interrupt, page_of

pytestmark = pytest.mark.django_db

Asked = Callable[..., Interrupt]


def prefetch_url_of(item: Interrupt) -> str:
    return reverse("admin:hitl_django_reviewitem_prefetch", args=[item.pk])


def decide(client: Client, item: Interrupt, ahead: str, **fields: Any) -> Any:
    sent = {**sheet_of(client, item), "decision": ["approve"], **fields}
    return client.post(page_of(item), sent, headers={"X-Hitl-Prefetched": ahead})


@pytest.fixture
def three(asked: Asked) -> list[Interrupt]:
    for customer in ("Dana", "Sam", "Kim"):
        asked(customer=customer)
    return list(Interrupt.objects.order_by("created_at"))


class TestPrefetchedPage:
    def test_prefetched_page_equals_the_next_page_after_the_decision(
        self, reviewer: Client, three: list[Interrupt]
    ) -> None:
        first, second, _third = three
        page = text_of(reviewer.get(prefetch_url_of(first)))
        press(reviewer, first, "approve")
        opened = text_of(reviewer.get(page_of(second)))

        def comparable(text: str) -> str:
            text = re.sub(r'<div class="hitl-toast.*?</div>', "", text, flags=re.S)
            text = re.sub(r'name="(csrfmiddlewaretoken|key)" value="[^"]*"', "", text)
            return re.sub(r"since=[^&\"]*", "", re.sub(r"\s+", " ", text))

        assert "1 of 2" in page
        assert "Claimed by you" in page
        assert comparable(page) == comparable(opened)

    def test_prefetching_of_a_page_stores_no_rows(
        self, reviewer: Client, three: list[Interrupt]
    ) -> None:
        Interrupt.objects.update(due_at="2020-01-01T00:00Z")
        reviewer.get(page_of(three[0]))
        with CaptureQueriesContext(connection) as queries:
            assert reviewer.get(prefetch_url_of(three[0])).status_code == 200
        verbs = {query["sql"].split()[0] for query in queries}
        # DECLARE opens a server-side cursor on PostgreSQL.
        assert verbs <= {"SELECT", "DECLARE", "SAVEPOINT", "RELEASE"}
        assert not Interrupt.objects.exclude(claimed_by=None).exists()

    def test_prefetching_keeps_messages_for_the_page_that_shows_them(
        self, reviewer: Client, three: list[Interrupt]
    ) -> None:
        press(reviewer, three[0], "approve")
        assert "You approved" not in text_of(reviewer.get(prefetch_url_of(three[1])))
        assert "You approved" in text_of(reviewer.get(page_of(three[1])))

    def test_prefetching_takes_at_most_24_queries(
        self,
        reviewer: Client,
        three: list[Interrupt],
        django_assert_max_num_queries: Any,
    ) -> None:
        with django_assert_max_num_queries(24):
            reviewer.get(prefetch_url_of(three[0]))

    def test_prefetching_skips_requests_the_user_cannot_view_or_claim(
        self, reviewer: Client, three: list[Interrupt], person: Any, monkeypatch: Any
    ) -> None:
        first, second, third = three
        services.claim(second.pk, by=person("public"))
        assert third.title in text_of(reviewer.get(prefetch_url_of(first)))

        def all_but_third(self: Any, user: Any, rows: Any) -> Any:
            return rows.exclude(pk=third.pk)

        monkeypatch.setattr(
            "hitl_django.permissions.ModelPermissionPolicy.visible_interrupts", all_but_third
        )
        response = reviewer.get(prefetch_url_of(first))
        assert (response.status_code, response.content) == (204, b"")

    def test_prefetching_from_hidden_request_returns_404(
        self, browse: Callable[[str], Client], three: list[Interrupt]
    ) -> None:
        assert browse("blind").get(prefetch_url_of(three[0])).status_code == 404
        assert Client().get(prefetch_url_of(three[0])).status_code == 302

    def test_prefetching_keeps_the_filters_of_the_list(
        self, reviewer: Client, three: list[Interrupt]
    ) -> None:
        other = make_interrupt({}, title="Of another graph?", priority=9)
        assert other.title in text_of(reviewer.get(prefetch_url_of(three[0])))
        url = f"{prefetch_url_of(three[0])}?_changelist_filters=graph%3Dtyped"
        assert three[1].title in text_of(reviewer.get(url))

    def test_request_page_contains_url_of_page_to_prefetch_unless_run_has_other_requests(
        self, reviewer: Client, asked: Asked, three: list[Interrupt]
    ) -> None:
        assert f'data-hitl-prefetch="{prefetch_url_of(three[0])}"' in text_of(
            reviewer.get(page_of(three[0]))
        )
        assert "data-hitl-prefetch" not in text_of(reviewer.get(page_of(asked("panel"))))


class TestConfirmation:
    def test_decision_returns_url_of_the_prefetched_page_and_confirmation_message_as_json(
        self, reviewer: Client, three: list[Interrupt]
    ) -> None:
        first, second, _third = three
        response = decide(reviewer, first, f"{second.pk}.1")
        assert response.headers["Content-Type"] == "application/json"
        assert "no-store" in response.headers["Cache-Control"]
        found = response.json()
        assert found["url"] == page_of(second)
        assert "You approved" in found["messages"]
        assert "data-hitl-recorded" in found["messages"]
        second.refresh_from_db()
        assert second.claimed_by is not None
        assert "You approved" not in text_of(reviewer.get(page_of(second)))

    @pytest.mark.parametrize("ahead", ["{third}.1", "{second}.2", "{second}", "", "x"])
    def test_decision_redirects_if_another_page_or_version_was_prefetched(
        self, reviewer: Client, three: list[Interrupt], ahead: str
    ) -> None:
        first, second, third = three
        response = decide(reviewer, first, ahead.format(second=second.pk, third=third.pk))
        assert response.headers["Location"] == page_of(second)
        assert Decision.objects.count() == 1

    def test_decision_redirects_to_the_list_after_the_last_request(
        self, reviewer: Client, three: list[Interrupt]
    ) -> None:
        for item in three[1:]:
            services.cancel(item.run_id)
        response = decide(reviewer, three[0], f"{three[1].pk}.1")
        assert response.headers["Location"] == list_of()

    def test_approval_below_quorum_redirects_because_the_list_still_contains_the_request(
        self, reviewer: Client, three: list[Interrupt]
    ) -> None:
        first, second, _third = three
        Interrupt.objects.filter(pk=first.pk).update(quorum=2)
        response = decide(reviewer, first, f"{second.pk}.1")
        assert response.headers["Location"] == page_of(second)

    def test_invalid_response_shows_the_form_with_errors(
        self, reviewer: Client, three: list[Interrupt]
    ) -> None:
        first, second, _third = three
        response = decide(reviewer, first, f"{second.pk}.1", **{"answer/amount": ["a lot"]})
        assert "Not submitted." in text_of(response)
        assert not Decision.objects.exists()
        assert set(Run.objects.values_list("state", flat=True)) == {"interrupted"}
