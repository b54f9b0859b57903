"""People to whom a request can be assigned or who can be mentioned, and unreached mentions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from hitl_django import services
from hitl_django.models import Comment, Decision, Interrupt

from .browsing import sheet_of, text_of, told
from .conftest import make_interrupt, page_of
from .test_queue_actions import handle, permit

Person = Callable[[str], Any]


def suggest(client: Client, item: Interrupt, **query: str) -> list[str]:
    url = page_of(item).removesuffix("change/") + "people/"
    response = client.get(url, query)
    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]
    return [person["username"] for person in response.json()["people"]]


@pytest.fixture
def lead(person: Person, browse: Callable[[str], Client]) -> Client:
    permit(person("reviewer"), "assign_interrupt")
    return browse("reviewer")


def test_comment_with_unnotified_mentions_is_saved_with_a_warning_listing_the_names(
    lead: Client, person: Person
) -> None:
    person("reader")
    person("nobody")
    text = "@reader, @nobody (@ghost). Write to a@b.example; @ghost!"
    messages = told(handle(lead, make_interrupt({}), "comment", text=text))
    assert messages[0].startswith("Comment added.")
    assert messages[1:] == [
        "Not notified: @nobody, @ghost. No user with this name can view this request."
    ]
    assert Comment.objects.get().mentions == ["reader"]


def test_comment_without_assign_permission_shows_the_same_warning_for_existing_and_unknown_users(
    reviewer: Client, person: Person
) -> None:
    person("reader")
    [_, warning] = told(handle(reviewer, make_interrupt({}), "comment", text="@reader @ghost"))
    assert warning == (
        "Not notified: @reader, @ghost. You can mention only people named on this page."
    )


def test_comment_whose_mentions_are_all_notified_is_saved_without_a_warning(
    lead: Client, person: Person
) -> None:
    person("reader")
    [message] = told(handle(lead, make_interrupt({}), "comment", text="See @reader."))
    assert message.startswith("Comment added.")


class TestSuggestions:
    def test_people_suggestions_contain_only_active_users_with_permission_to_view_the_request(
        self, lead: Client, person: Person
    ) -> None:
        for role in ("reader", "nobody", "public"):
            person(role)
        User.objects.create_user("gone", is_active=False, is_superuser=True)
        item = make_interrupt({})
        assert suggest(lead, item) == ["public", "reader", "reviewer"]
        assert suggest(lead, item, assign="1") == ["public", "reviewer"]
        assert suggest(lead, item, q="READ") == ["reader"]
        assert suggest(lead, item, q="nobody") == []

    def test_people_suggestions_match_parts_of_full_name_and_list_recent_reviewers_first(
        self, lead: Client, person: Person
    ) -> None:
        User.objects.filter(pk=person("reader").pk).update(first_name="Ada", last_name="Byron")
        item, other = make_interrupt({}), make_interrupt({})
        assert suggest(lead, item, q="yro ad") == ["reader"]
        Decision.objects.create(
            interrupt=other, type="approve", by=person("reviewer"), by_label="reviewer",
            via="admin", version=other.version,
        )  # fmt: skip
        assert suggest(lead, item) == ["reviewer", "reader"]

    def test_people_suggestions_contain_at_most_eight_users(self, lead: Client) -> None:
        for number in range(12):
            User.objects.create_user(f"boss{number}", is_superuser=True)
        assert len(suggest(lead, make_interrupt({}))) == 8

    def test_people_suggestions_without_assign_permission_contain_only_users_named_on_the_page(
        self, reviewer: Client, person: Person
    ) -> None:
        person("reader")
        item = make_interrupt({})
        assert suggest(reviewer, item) == []
        services.comment(item.pk, "Hello", by=person("public"))
        assert suggest(reviewer, item) == ["public"]

    @pytest.mark.parametrize(("role", "status"), [("reader", 403), ("nobody", 404)])
    def test_people_suggestions_without_comment_permission_return_403_or_404(
        self, browse: Callable[[str], Client], role: str, status: int
    ) -> None:
        url = page_of(make_interrupt({})).removesuffix("change/") + "people/"
        assert browse(role).get(url).status_code == status


class TestAssignForm:
    def test_find_people_on_request_page_shows_an_assign_button_per_user_with_decide_permission(
        self, lead: Client, person: Person
    ) -> None:
        for role in ("reader", "public"):
            person(role)
        item = make_interrupt({})
        page = text_of(handle(lead, item, "people", user=""))
        assert 'value="assign:public"' in page
        assert 'value="assign:reader"' not in page
        response = handle(lead, item, "assign:public", user="pub")
        assert told(response)[0].startswith("Assigned to public.")
        item.refresh_from_db()
        assert item.assignee == person("public")
        # The form shows the assignee, which is not a search.
        assert 'value="assign:reviewer"' in text_of(handle(lead, item, "people", user="public"))

    def test_find_people_on_request_page_shows_typed_reason_and_comment_again(
        self, lead: Client
    ) -> None:
        item = make_interrupt({})
        sheet = {**sheet_of(lead, item), "reason": "Half a thought", "text": "A remark"}
        page = text_of(handle(lead, item, "people", **{**sheet, "user": "nobody like this"}))
        assert "No matching people can decide this request." in page
        assert 'value="nobody like this"' in page
        assert "Half a thought" in page
        assert "A remark" in page

    def test_find_people_without_assign_permission_returns_403_with_the_typed_reason(
        self, reviewer: Client, person: Person
    ) -> None:
        person("public")
        item = make_interrupt({})
        sheet = {**sheet_of(reviewer, item), "reason": "Half a thought"}
        response = handle(reviewer, item, "people", **sheet)
        assert response.status_code == 403
        page = text_of(response)
        assert "Half a thought" in page
        assert "assign:public" not in page
