"""Bulk operations on all requests that match the list's filters, in batches."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.test import Client
from django.urls import reverse

from hitl_django.admin.display.bulk_buttons import get_checkbox_value
from hitl_django.admin.queue import batches, queue_list
from hitl_django.admin.queue.queue_admin import ReviewItemAdmin
from hitl_django.models import Decision, Interrupt, Run
from hitl_django.permissions import ModelPermissionPolicy

from .browsing import post_of, text_of, told
from .conftest import list_of, make_interrupt
from .test_bulk import confirmed
from .test_queue import words
from .test_queue_actions import permit

BULK = reverse("admin:hitl_django_reviewitem_bulk")
MANY = reverse("admin:hitl_django_reviewitem_many")
OF_TYPED = "?_changelist_filters=graph%3Dtyped"


class OnlyTyped(ModelPermissionPolicy):
    def visible_interrupts(self, user: Any, interrupts: QuerySet[Interrupt]) -> QuerySet[Interrupt]:
        return super().visible_interrupts(user, interrupts).filter(graph="typed")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Process two rows per batch, and show two rows per page of the list."""
    monkeypatch.setattr(batches, "BATCH", 2)
    monkeypatch.setattr(ReviewItemAdmin, "list_per_page", 2)


@pytest.fixture
def five(asked: Callable[..., Interrupt]) -> list[Interrupt]:
    return [asked("approval", text=f"text {number}") for number in range(5)]


def proceed(client: Client, page: Any, **more: str) -> Any:
    form = text_of(page).split("data-hitl-continue")[1].split("</form>")[0]
    action = text_of(page).split('method="post" action="')[-1].split('"')[0]
    assert "progress" in form
    return client.post(unescape(action), {**post_of(form), **more})


class TestOffer:
    def test_queue_with_several_pages_offers_to_select_all_matching_requests(
        self, reviewer: Client, small: None
    ) -> None:
        for _ in range(3):
            make_interrupt({}, graph="typed")
        make_interrupt({})
        assert "Select all 4 that match" in text_of(reviewer.get(list_of()))
        page = text_of(reviewer.get(list_of(), {"graph": "typed"}))
        assert "Select all 3 that match" in page
        assert 'name="all" value="1"' in page
        assert OF_TYPED in page

    def test_queue_with_one_page_offers_no_selection_of_all_matching_requests(
        self, reviewer: Client, small: None
    ) -> None:
        make_interrupt({})
        assert 'name="all"' not in text_of(reviewer.get(list_of()))

    def test_queue_with_more_matching_requests_than_the_maximum_offers_the_maximum(
        self, reviewer: Client, small: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for _ in range(4):
            make_interrupt({})
        monkeypatch.setattr(queue_list, "MAX_SELECTED", 3)
        assert "Select the first 3 that match" in text_of(reviewer.get(list_of()))


class TestSelection:
    def test_selection_of_all_matching_requests_contains_current_versions_of_filtered_rows(
        self, reviewer: Client, five: list[Interrupt]
    ) -> None:
        other = make_interrupt({}, graph="typed")
        Interrupt.objects.filter(pk=other.pk).update(version=7)
        page = reviewer.post(f"{BULK}{OF_TYPED}", {"decision": "approve", "all": "1", "item": "x"})
        assert "1 request to decide" in words(page)
        other.refresh_from_db()
        assert get_checkbox_value(other) in text_of(page)
        page = reviewer.post(BULK, {"decision": "approve", "all": "1"})
        assert "6 requests to decide" in words(page)

    @pytest.mark.promise("P18")
    def test_selection_of_all_matching_requests_contains_only_visible_requests(
        self, five: list[Interrupt], settings: Any, browse: Callable[[str], Client]
    ) -> None:
        settings.HITL = {**settings.HITL, "POLICY": "tests.admin.test_bulk_matching.OnlyTyped"}
        make_interrupt({}, graph="typed")
        page = browse("reviewer").post(BULK, {"decision": "approve", "all": "1"})
        assert "1 request to decide" in words(page)
        assert "text 1" not in text_of(page)

    def test_selection_of_all_matching_requests_ends_at_the_maximum(
        self, reviewer: Client, five: list[Interrupt], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(batches, "MAX_SELECTED", 3)
        page = reviewer.post(BULK, {"decision": "approve", "all": "1"})
        assert "3 requests to decide" in words(page)

    def test_selection_of_all_matching_requests_without_matches_redirects_to_the_queue(
        self, reviewer: Client
    ) -> None:
        response = reviewer.post(BULK, {"decision": "approve", "all": "1"})
        assert told(response) == ["No requests selected."]

    def test_bulk_decision_page_of_large_selection_has_a_limited_number_of_form_fields(
        self, reviewer: Client, five: list[Interrupt], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(batches, "MAX_FIELDS", 2)
        page = reviewer.post(BULK, {"decision": "approve", "all": "1"})
        assert "5 requests to decide" in words(page)
        assert "and 3 more" in words(page)
        posted = confirmed(page)
        assert len(posted["item"]) == 2
        assert "5 decisions saved." in words(reviewer.post(BULK, posted))


class TestBatches:
    def test_bulk_decisions_on_many_requests_are_made_in_batches_and_show_progress_and_all_results(
        self, reviewer: Client, five: list[Interrupt], small: None
    ) -> None:
        page = reviewer.post(BULK, {"decision": "reject", "all": "1"})
        posted = confirmed(page, reason="Too late.")
        Interrupt.objects.filter(pk=five[1].pk).update(version=2)
        page = reviewer.post(BULK, posted)
        assert "2 of 5 requests processed" in words(page)
        assert '<progress class="hitl-progress" value="2" max="5"' in text_of(page)
        assert "no-store" in page["Cache-Control"]
        assert Decision.objects.count() == 1
        page = proceed(reviewer, page)
        assert "4 of 5 requests processed" in words(page)
        page = proceed(reviewer, page)
        assert "4 decisions saved." in words(page)
        assert "This request has changed since you opened the list." in words(page)
        assert confirmed(page)["item"] == [get_checkbox_value(Interrupt.objects.get(pk=five[1].pk))]
        assert {(one.type, one.reason) for one in Decision.objects.all()} == {
            ("reject", "Too late.")
        }

    def test_bulk_decision_batch_submitted_twice_saves_each_decision_once_and_shows_equal_results(
        self, reviewer: Client, five: list[Interrupt], small: None
    ) -> None:
        page = reviewer.post(BULK, {"decision": "approve", "all": "1"})
        posted = confirmed(page)
        first, second = (reviewer.post(BULK, posted) for _ in range(2))
        assert words(first) == words(second)
        for _ in range(2):
            first, second = proceed(reviewer, second), proceed(reviewer, first)
        assert "5 decisions saved." in words(second)
        assert Decision.objects.count() == 5

    def test_bulk_decision_stopped_between_batches_leaves_remaining_requests_pending(
        self, reviewer: Client, five: list[Interrupt], small: None
    ) -> None:
        page = reviewer.post(
            BULK, confirmed(reviewer.post(BULK, {"decision": "approve", "all": 1}))
        )
        page = proceed(reviewer, page, stop="1")
        assert "2 decisions saved." in words(page)
        assert "Stopped. 3 selected requests were not decided." in words(page)
        assert Decision.objects.count() == 2

    @pytest.mark.parametrize(
        "results",
        ["{", "1", "[1]", '[["x", "y", "z", "1"]]', "[" * 100_000, '[["\\ud800", "a", "b", ""]]'],
    )
    def test_bulk_decision_batch_with_malformed_earlier_results_counts_only_its_decisions(
        self, reviewer: Client, five: list[Interrupt], results: str
    ) -> None:
        posted = confirmed(reviewer.post(BULK, {"decision": "approve", "all": "1"}))
        page = reviewer.post(BULK, {**posted, "results": results, "done": "9" * 5000})
        assert "5 decisions saved." in words(page)

    def test_bulk_decision_page_escapes_results_of_earlier_batches(
        self, reviewer: Client, five: list[Interrupt]
    ) -> None:
        hostile = json.dumps([[str(five[0].pk), "", "<script>\ud800", ""]])
        page = reviewer.post(
            BULK, {"decision": "approve", "results": hostile, "confirmed": "1", "stop": "1"}
        )
        assert page.status_code == 200
        assert "&lt;script&gt;" in text_of(page)

    def test_bulk_snooze_of_many_requests_is_made_in_batches(
        self, reviewer: Client, five: list[Interrupt], small: None
    ) -> None:
        page = reviewer.post(MANY, {"verb": "snooze", "all": "1"})
        assert "Selected requests (5)" in words(page)
        page = reviewer.post(MANY, confirmed(page, at="2040-01-01T12:00"))
        response = proceed(reviewer, proceed(reviewer, page))
        assert told(response) == ["Requests snoozed: 5"]
        assert Interrupt.objects.filter(snoozed_until__year=2040).count() == 5

    def test_bulk_claim_of_all_matching_requests_requires_confirmation_and_is_made_in_batches(
        self, reviewer: Client, five: list[Interrupt], small: None
    ) -> None:
        Run.objects.filter(pk=five[0].run_id).update(state=Run.State.INTERRUPTED)
        page = reviewer.post(MANY, {"verb": "claim", "all": "1"})
        assert "Selected requests (5)" in words(page)
        assert not Interrupt.objects.filter(claimed_until__isnull=False).exists()
        page = reviewer.post(MANY, confirmed(page))
        page = proceed(reviewer, page)
        assert told(proceed(reviewer, page, stop="1")) == [
            "Requests claimed: 4",
            "Requests not changed: 1",
        ]
        assert Interrupt.objects.filter(claimed_by_label="reviewer").count() == 4

    def test_bulk_claim_of_selected_requests_beyond_one_batch_continues_without_confirmation(
        self, reviewer: Client, five: list[Interrupt], small: None
    ) -> None:
        ticked = {"verb": "claim", "item": [get_checkbox_value(row) for row in five]}
        page = proceed(reviewer, reviewer.post(MANY, ticked))
        assert told(proceed(reviewer, page)) == ["Requests claimed: 5"]

    def test_bulk_assignment_of_many_requests_to_a_group_is_made_in_batches(
        self, person: Callable[[str], Any], browse: Callable[[str], Client],
        five: list[Interrupt], small: None,
    ) -> None:  # fmt: skip
        permit(person("reviewer"), "assign_interrupt")
        client, crew = browse("reviewer"), Group.objects.create(name="Crew")
        page = client.post(MANY, {"verb": "assign", "all": "1"})
        page = client.post(MANY, confirmed(page, group=str(crew.pk)))
        assert told(proceed(client, proceed(client, page))) == ["Requests assigned: 5"]
        assert Interrupt.objects.filter(group=crew).count() == 5
