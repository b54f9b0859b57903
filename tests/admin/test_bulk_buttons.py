"""Buttons that open the bulk page for all requests of a run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from hitl_django import services
from hitl_django.admin.display.bulk_buttons import get_checkbox_value
from hitl_django.models import Decision, Interrupt

from .browsing import post_of, text_of
from .conftest import make_interrupt, page_of
from .test_bulk import confirmed
from .test_queue import words

BULK = reverse("admin:hitl_django_reviewitem_bulk")
Browse = Callable[[str], Client]


@pytest.fixture
def five(advance: Callable[[], int]) -> list[Interrupt]:
    services.start("approval", {"text": "the news"})
    run = services.start("jury", {})
    advance()
    return list(Interrupt.objects.filter(run_id=run.id).order_by("created_at", "index"))


def forms_of(page: Any) -> dict[str, dict[str, Any]]:
    """Return the POST data of each form that leads to the bulk page, by its button."""
    found = re.findall(rf'<form method="post" action="{BULK}">.*?</form>', text_of(page), re.S)
    made = {}
    for form in found:
        decision = re.search(r'name="decision" value="(\w+)"', form)
        assert decision is not None
        made[decision[1]] = post_of(form) | {"decision": decision[1]}
    return made


@pytest.mark.parametrize("where", ["question", "run"])
@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_bulk_button_on_request_and_run_page_decides_all_five_requests_of_the_run(
    where: str, decision: str, reviewer: Client, five: list[Interrupt]
) -> None:
    address = page_of(five[2]) if where == "question" else page_of(five[0].run_id, "run")
    page = reviewer.get(address)
    assert f"{decision.capitalize()} 5 requests…" in words(page)
    posted = forms_of(page)[decision]
    assert {*posted["item"]} == {get_checkbox_value(item) for item in five}
    asked = reviewer.post(BULK, posted)
    assert "5 requests to decide" in words(asked)
    done = reviewer.post(BULK, confirmed(asked, reason="All the same."))
    assert "5 decisions saved." in words(done)
    assert set(Decision.objects.values_list("type", "reason")) == {(decision, "All the same.")}


def test_bulk_button_excludes_decided_requests_and_requests_that_need_a_response(
    reviewer: Client, five: list[Interrupt]
) -> None:
    typed = make_interrupt({}, {"type": "integer"}, title="How many?")
    Interrupt.objects.filter(pk=typed.pk).update(thread=five[0].thread, run=five[0].run)
    services.decide(five[0].pk, "approve")
    posted = forms_of(reviewer.get(page_of(five[1])))
    assert {*posted["approve"]["item"]} == {get_checkbox_value(item) for item in five[1:]}


@pytest.mark.parametrize("terms", [{"quorum": 2}, {"no_self_approval": True}])
def test_bulk_button_excludes_request_that_needs_two_approvals_or_forbids_self_approval(
    terms: dict[str, Any], reviewer: Client, five: list[Interrupt]
) -> None:
    Interrupt.objects.filter(pk=five[0].pk).update(**terms)
    for address in (page_of(five[1]), page_of(five[0].run_id, "run")):
        posted = forms_of(reviewer.get(address))["approve"]
        assert {*posted["item"]} == {get_checkbox_value(item) for item in five[1:]}


def test_run_with_a_single_pending_request_has_no_bulk_button(
    reviewer: Client, five: list[Interrupt]
) -> None:
    for item in five[:-1]:
        services.decide(item.pk, "approve")
    for address in (page_of(five[-1]), page_of(five[-1].run_id, "run")):
        assert forms_of(reviewer.get(address)) == {}


@pytest.mark.parametrize("role", ["reader", "operator", "asker"])
def test_request_and_run_page_without_decide_permission_have_no_bulk_button(
    role: str, browse: Browse, five: list[Interrupt]
) -> None:
    for address in (page_of(five[0]), page_of(five[0].run_id, "run")):
        assert forms_of(browse(role).get(address)) == {}


def test_request_and_run_pages_with_bulk_buttons_take_at_most_25_queries(
    reviewer: Client, five: list[Interrupt], django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(25):
        reviewer.get(page_of(five[0].run_id, "run"))
    with django_assert_max_num_queries(25):
        reviewer.get(page_of(five[0]))
