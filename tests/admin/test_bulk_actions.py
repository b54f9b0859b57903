"""Claiming, snoozing and assigning several requests at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from hitl_django.models import Interrupt

from .browsing import text_of, told
from .conftest import list_of, make_interrupt
from .test_bulk import confirmed, select
from .test_queue import HOUR, words

MANY = reverse("admin:hitl_django_reviewitem_many")


@pytest.fixture
def three() -> list[Interrupt]:
    return [make_interrupt({}, title=f"Ship {name}?") for name in ("one", "two", "three")]


@pytest.fixture
def assigner(person: Callable[[str], Any], browse: Callable[[str], Client]) -> Client:
    person("reviewer").user_permissions.add(Permission.objects.get(codename="assign_interrupt"))
    return browse("reviewer")


def test_queue_offers_bulk_claim_to_reviewers_and_no_bulk_actions_to_readers(
    reviewer: Client, three: list[Interrupt], browse: Callable[[str], Client]
) -> None:
    page = text_of(reviewer.get(list_of()))
    assert 'name="verb" value="claim"' in page
    assert 'name="verb" value="assign"' not in page
    assert 'name="verb"' not in text_of(browse("reader").get(list_of()))


def test_bulk_claim_skips_request_claimed_by_another_user_and_names_the_claimant(
    reviewer: Client, three: list[Interrupt], person: Callable[[str], Any]
) -> None:
    sam = User.objects.create_user("sam")
    held = {"claimed_by": sam, "claimed_by_label": "sam", "claimed_until": Now() + HOUR}
    Interrupt.objects.filter(pk=three[1].pk).update(**held)
    response = reviewer.post(MANY, select(three, verb="claim"))
    assert response.status_code == 302
    assert told(response) == ["Requests claimed: 2", "“Ship two?”: Claimed by sam."]
    mine = Interrupt.objects.filter(claimed_by=person("reviewer"))
    assert set(mine) == {three[0], three[2]}


def test_bulk_snooze_without_time_shows_time_form_before_snoozing(
    reviewer: Client, three: list[Interrupt]
) -> None:
    page = reviewer.post(MANY, select(three[:2], verb="snooze"))
    assert "Ship one?" in words(page)
    assert not Interrupt.objects.filter(snoozed_until__isnull=False).exists()
    response = reviewer.post(MANY, confirmed(page, at="2040-01-01T12:00"))
    assert told(response) == ["Requests snoozed: 2"]
    assert Interrupt.objects.filter(snoozed_until__gt=Now() + 100 * HOUR).count() == 2


def test_bulk_snooze_until_after_due_dates_shows_number_of_these_requests_in_a_warning(
    reviewer: Client, three: list[Interrupt]
) -> None:
    Interrupt.objects.filter(pk__in=[three[0].pk, three[1].pk]).update(due_at=Now() + HOUR)
    page = reviewer.post(MANY, select(three, verb="snooze"))
    response = reviewer.post(MANY, confirmed(page, until="week"))
    assert told(response) == [
        "Requests snoozed: 3",
        "Requests snoozed until after their due date: 2",
    ]


def test_bulk_assign_to_group_sets_the_group_of_selected_requests(
    assigner: Client, three: list[Interrupt]
) -> None:
    crew = Group.objects.create(name="Crew")
    page = assigner.post(MANY, select(three, verb="assign"))
    wrong = assigner.post(MANY, confirmed(page, user="nobody knows"))
    assert "No user with this username." in words(wrong)
    response = assigner.post(MANY, confirmed(page, group=str(crew.pk)))
    assert told(response) == ["Requests assigned: 3"]
    assert Interrupt.objects.filter(group=crew, group_label="Crew").count() == 3


def test_bulk_assign_without_assign_permission_returns_403(
    reviewer: Client, three: list[Interrupt]
) -> None:
    assert reviewer.post(MANY, select(three, verb="assign")).status_code == 403
    given = select(three, verb="assign", confirmed="1", user="reviewer")
    assert reviewer.post(MANY, given).status_code == 403


def test_bulk_claim_without_decide_permission_claims_no_request(
    browse: Callable[[str], Client], three: list[Interrupt]
) -> None:
    response = browse("reader").post(MANY, select(three[:1], verb="claim"))
    assert told(response) == ["“Ship one?”: You don't have permission to do this."]
    assert not Interrupt.objects.filter(claimed_until__isnull=False).exists()


@pytest.mark.parametrize(
    "given", [{}, {"verb": "claim"}, {"verb": "nonsense", "item": "x"}, {"item": "x.y.z"}]
)
def test_bulk_action_with_invalid_form_data_redirects_to_the_queue(
    reviewer: Client, given: dict[str, str]
) -> None:
    response = reviewer.post(MANY, given)
    assert (response.status_code, response["Location"]) == (302, list_of())
    assert reviewer.get(MANY).status_code == 302
