"""The undo button after a decision and on the request page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from hitl_django import services
from hitl_django.models import Decision, Interrupt, Run

from .browsing import post_of, press, text_of
from .conftest import page_of
from .test_activity import activities
from .test_bulk import BULK, confirmed, select
from .test_queue import words

Asked = Callable[..., Interrupt]
QUEUE = reverse("admin:hitl_django_reviewitem_changelist")
UNDO_BULK = reverse("admin:hitl_django_reviewitem_undo_bulk")


@pytest.fixture(autouse=True)
def _undoable(advance: Callable[[], int], settings: Any) -> None:
    settings.HITL = {**settings.HITL, "UNDO_SECONDS": 60}


def undo_of(item: Interrupt) -> str:
    return reverse("admin:hitl_django_reviewitem_undo", args=[item.pk])


def decide(client: Client, item: Interrupt) -> Any:
    form = text_of(client.get(page_of(item))).split("data-hitl-sheet")[1].split("</form>")[0]
    return client.post(page_of(item), {**post_of(form), "decision": "approve"}, follow=True)


def undo_form(page: Any) -> dict[str, Any]:
    return post_of(text_of(page).split("data-hitl-undo>")[1].split("</form>")[0])


def now(item: Interrupt) -> Interrupt:
    return Interrupt.objects.get(pk=item.pk)


def test_undo_button_after_decision_makes_request_pending_again_and_claimed_by_the_user(
    reviewer: Client, asked: Asked
) -> None:
    item, other = asked("approval"), asked("approval", text="more")
    page = decide(reviewer, item)
    assert page.redirect_chain[-1][0] == page_of(other)
    assert "Undo ( 60 s)" in words(page)
    assert "unless you undo the decision" in words(page)
    back = reviewer.post(undo_of(item), undo_form(page), follow=True)
    assert back.redirect_chain == [(page_of(item), 302)]
    assert "is pending again" in words(back)
    assert now(item).status == "pending"
    assert now(item).claimed_by_label == "reviewer"


def test_undo_button_on_decided_request_page_is_shown_to_the_decider_only(
    reviewer: Client, browse: Callable[[str], Client], asked: Asked
) -> None:
    item = asked("approval")
    decide(reviewer, item)
    page = reviewer.get(page_of(item))
    assert "Undo (" in words(page)
    assert "Undo (" not in words(browse("operator").get(page_of(item)))
    reviewer.post(undo_of(item), undo_form(page))
    assert now(item).status == "pending"


def test_undo_button_is_hidden_when_undo_seconds_is_zero(
    reviewer: Client, asked: Asked, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "UNDO_SECONDS": 0}
    item = asked("approval")
    assert "data-hitl-undo" not in text_of(decide(reviewer, item))
    assert "data-hitl-undo" not in text_of(reviewer.get(page_of(item)))


def test_undo_after_the_time_limit_returns_409_and_keeps_the_decision(
    reviewer: Client, asked: Asked
) -> None:
    item = asked("approval")
    form = undo_form(decide(reviewer, item))
    Run.objects.filter(pk=item.run_id).update(resumes_at=Now() - timedelta(seconds=1))
    page = reviewer.post(undo_of(item), form)
    assert page.status_code == 409
    assert "can no longer be undone" in words(page)
    assert now(item).status == "decided"


def test_undo_submitted_twice_opens_the_pending_request_without_a_new_decision(
    reviewer: Client, asked: Asked
) -> None:
    item = asked("approval")
    form = undo_form(decide(reviewer, item))
    for _ in range(2):
        back = reviewer.post(undo_of(item), form)
        assert (back.status_code, back["Location"]) == (302, page_of(item))
    assert Decision.objects.count() == 1


def test_undo_button_of_an_undone_decision_returns_409_after_a_later_decision(
    reviewer: Client, asked: Asked
) -> None:
    item = asked("approval")
    form = undo_form(decide(reviewer, item))
    reviewer.post(undo_of(item), form)
    decide(reviewer, item)
    assert reviewer.post(undo_of(item), form).status_code == 409
    assert now(item).status == "decided"


def test_undo_by_another_user_returns_403_or_404_and_keeps_the_decision(
    reviewer: Client, browse: Callable[[str], Client], asked: Asked
) -> None:
    item = asked("approval")
    form = undo_form(decide(reviewer, item))
    page = browse("operator").post(undo_of(item), form)
    assert page.status_code == 403
    assert "You can&#x27;t undo this decision" in words(page)
    assert browse("nobody").post(undo_of(item), form).status_code == 404
    assert now(item).status == "decided"


def test_decision_form_resubmitted_after_undo_returns_409(reviewer: Client, asked: Asked) -> None:
    item = asked("approval")
    form = text_of(reviewer.get(page_of(item))).split("data-hitl-sheet")[1].split("</form>")[0]
    sent = {**post_of(form), "decision": "approve"}
    page = reviewer.post(page_of(item), sent, follow=True)
    reviewer.post(undo_of(item), undo_form(page))
    again = reviewer.post(page_of(item), sent)
    assert again.status_code == 409
    assert "has changed since you opened it" in words(again)
    assert now(item).status == "pending"


def test_bulk_undo_makes_requests_pending_again_and_reports_those_past_the_time_limit(
    reviewer: Client, asked: Asked
) -> None:
    three = [asked("approval", text=text) for text in ("one", "two", "three")]
    page = reviewer.post(BULK, confirmed(reviewer.post(BULK, select(three))))
    assert "Undo all ( 60 s)" in words(page)
    form = undo_form(page)
    assert len(form["made"]) == 3
    services.resume_due()
    Run.objects.filter(pk=three[0].run_id).update(state="queued", resumes_at=None)
    back = reviewer.post(UNDO_BULK, form, follow=True)
    assert back.redirect_chain == [(QUEUE, 302)]
    assert "2 decisions undone" in words(back)
    assert "can no longer be undone" in words(back)
    assert [now(item).status for item in three] == ["decided", "pending", "pending"]


def test_undone_decision_is_marked_in_decision_list_page_and_timeline(
    reviewer: Client, browse: Callable[[str], Client], asked: Asked
) -> None:
    item = asked("approval")
    reviewer.post(undo_of(item), undo_form(decide(reviewer, item)))
    decision = Decision.objects.get()
    assert "Undone" in words(reviewer.get(page_of(decision, "decision")))
    assert "Undone" in words(reviewer.get(reverse("admin:hitl_django_decision_changelist")))
    assert "Undid a decision" in words(reviewer.get(page_of(item.thread_id, "thread")))


def test_activity_lists_a_decision_and_its_undo(
    reviewer: Client, asked: Asked, person: Callable[[str], Any]
) -> None:
    item = asked()
    press(reviewer, item, "reject", reason="No.")
    assert activities(reviewer, item) == ["Review requested", "reviewer · Rejected"]
    services.undo(item.pk, by=person("reviewer"))
    assert activities(reviewer, item)[-1].startswith("reviewer · Undid a decision")
