"""Bulk decisions on several requests, each with its own result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from hitl_django import services
from hitl_django.admin.display.bulk_buttons import get_checkbox_value
from hitl_django.models import Decision, Interrupt, Run

from .browsing import post_of, text_of
from .conftest import list_of, make_interrupt
from .test_queue import HOUR, words

BULK = reverse("admin:hitl_django_reviewitem_bulk")
Asked = Callable[..., Interrupt]


@pytest.fixture
def sam(db: None) -> User:
    return User.objects.create_user("sam", is_superuser=True)


@pytest.fixture
def three(asked: Asked) -> list[Interrupt]:
    return [asked("approval", text=text) for text in ("one", "two", "three")]


def select(rows: list[Interrupt], decision: str = "approve", **more: Any) -> dict[str, Any]:
    return {"item": [get_checkbox_value(row) for row in rows], "decision": decision, **more}


def confirmed(page: Any, **more: str) -> dict[str, Any]:
    form = text_of(page).split(' class="hitl-work"')[1].split("</form>")[0]
    return {**post_of(form), **more}


def test_bulk_decision_page_before_confirmation_lists_selected_requests_and_saves_no_decision(
    reviewer: Client, three: list[Interrupt]
) -> None:
    page = reviewer.post(BULK, select(three[:2]))
    assert page.status_code == 200
    assert "2 requests to decide" in words(page)
    assert get_checkbox_value(three[0]) in text_of(page)
    assert get_checkbox_value(three[2]) not in text_of(page)
    assert not Decision.objects.exists()


def test_bulk_decision_page_shows_key_facts_of_the_listed_requests(
    reviewer: Client, asked: Asked
) -> None:
    ready, stale = (make_interrupt({"customer": name}) for name in ("Dana", "Sam"))
    shown = select([ready, stale])
    Interrupt.objects.filter(pk=stale.pk).update(version=2)
    page = words(reviewer.post(BULK, shown))
    assert "Customer Dana" in page
    assert "Customer Sam" in page
    assert "1 request to decide 1 skipped" in page


def test_bulk_decision_leaves_deselected_request_pending(
    reviewer: Client, three: list[Interrupt]
) -> None:
    posted = confirmed(reviewer.post(BULK, select(three)))
    assert posted["item"] == [get_checkbox_value(row) for row in three]
    done = reviewer.post(BULK, {**posted, "item": posted["item"][1:]})
    assert "2 decisions saved." in words(done)
    assert Interrupt.objects.get(status="pending") == three[0]


def test_bulk_decision_page_query_count_is_constant_for_two_and_three_requests(
    reviewer: Client, three: list[Interrupt]
) -> None:
    def queries_for(rows: list[Interrupt]) -> int:
        with CaptureQueriesContext(connection) as told:
            assert "to decide" in words(reviewer.post(BULK, select(rows)))
        return len(told)

    queries_for(three)  # content types are looked up once
    assert queries_for(three[:2]) == queries_for(three)


def test_bulk_approval_with_a_request_rejected_by_another_user_approves_remaining_requests(
    reviewer: Client, three: list[Interrupt], sam: User
) -> None:
    page = reviewer.post(BULK, select(three))
    services.decide(three[1].pk, "reject", by=sam)  # between the list and the bulk page
    done = reviewer.post(BULK, confirmed(page))
    assert "2 decisions saved." in words(done)
    assert "sam rejected this" in words(done)
    made = {decision.interrupt_id: decision for decision in Decision.objects.all()}
    assert [made[row.pk].type for row in three] == ["approve", "reject", "approve"]
    assert {made[three[0].pk].via, made[three[0].pk].by_label} == {"admin", "reviewer"}
    assert 'name="item"' not in text_of(done)  # a decided request can't be selected


def test_bulk_decision_of_changed_request_keeps_the_request_selected_for_resubmission(
    reviewer: Client, three: list[Interrupt]
) -> None:
    page = reviewer.post(BULK, select(three))
    Interrupt.objects.filter(pk=three[0].pk).update(payload_digest="other", version=2)
    done = reviewer.post(BULK, confirmed(page))
    assert "This request has changed since you opened the list." in words(done)
    row = Interrupt.objects.get(pk=three[0].pk)
    assert confirmed(done)["item"] == [get_checkbox_value(row)]
    again = reviewer.post(BULK, {**confirmed(done), "decision": "approve"})
    assert "1 decision saved." in words(reviewer.post(BULK, confirmed(again)))
    assert Decision.objects.count() == 3


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_bulk_decision_page_help_text_of_the_reason_fits_approvals_and_rejections(
    reviewer: Client, three: list[Interrupt], decision: str
) -> None:
    page = words(reviewer.post(BULK, select(three, decision)))
    assert "Saved with each decision." in page
    assert "when you reject" not in page


def test_bulk_rejection_without_reason_saves_no_decision(
    reviewer: Client, three: list[Interrupt]
) -> None:
    page = reviewer.post(BULK, select(three, "reject"))
    for reason in ("", "  "):
        back = reviewer.post(BULK, confirmed(page, reason=reason))
        assert "Enter a reason" in words(back)
    assert not Decision.objects.exists()
    reviewer.post(BULK, confirmed(page, reason=" Too late. "))
    found = set(Decision.objects.values_list("type", "reason"))
    assert found == {("reject", "Too late.")}


def test_bulk_decision_submitted_twice_shows_equal_results_and_saves_each_decision_once(
    reviewer: Client, three: list[Interrupt]
) -> None:
    posted = confirmed(reviewer.post(BULK, select(three)))
    first, second = (words(reviewer.post(BULK, posted)) for _ in range(2))
    assert first == second
    assert Decision.objects.count() == 3


def test_bulk_decision_page_lists_undecidable_requests_with_reasons_and_selects_only_decidable_ones(
    reviewer: Client, asked: Asked, sam: User
) -> None:
    good, stale, closed, stopped = (asked("approval", text=str(n)) for n in range(4))
    needs = make_interrupt({}, {"type": "integer"}, title="How many?")
    shown = select([good, stale, closed, stopped, needs])
    Interrupt.objects.filter(pk=stale.pk).update(version=2)
    services.decide(closed.pk, "approve", by=sam)
    Run.objects.filter(pk=stopped.run_id).update(state="parked")
    shown["item"] += [
        "00000000-0000-0000-0000-000000000000.1.x",
        "nonsense",
        get_checkbox_value(good),
    ]
    page = reviewer.post(BULK, shown)
    assert "1 request to decide" in words(page)
    for reason in (
        "This request has changed since", "sam approved this", "The run has stopped",
        "This request needs a response", "This request no longer exists",
    ):  # fmt: skip
        assert reason in words(page), words(page)
    assert confirmed(page)["item"] == [get_checkbox_value(good)]


def test_bulk_approval_of_request_claimed_by_another_user_shows_claimant_and_is_saved(
    reviewer: Client, three: list[Interrupt], sam: User
) -> None:
    services.claim(three[0].pk, by=sam)
    page = reviewer.post(BULK, select(three[:1]))
    assert ">Claimed by sam</span>" in text_of(page)
    selected = {**confirmed(page), "item": [get_checkbox_value(three[0])]}
    assert "1 decision saved" in words(reviewer.post(BULK, selected))
    assert Decision.objects.get().claimed_by_label == "sam"


def test_bulk_decision_page_lists_requests_claimed_by_another_user_last_and_not_selected(
    reviewer: Client, three: list[Interrupt], sam: User
) -> None:
    services.claim(three[0].pk, by=sam)
    page = reviewer.post(BULK, select(three))
    shown = words(page)
    assert "2 requests to decide" in shown
    assert "1 skipped" in shown
    assert shown.index("Publish one?") > shown.index("Publish three?")
    assert "2 decisions saved" in words(reviewer.post(BULK, confirmed(page)))
    three[0].refresh_from_db()
    assert three[0].status == Interrupt.Status.PENDING


def test_bulk_approval_of_request_claimed_after_listing_requires_second_confirmation(
    reviewer: Client, three: list[Interrupt], sam: User
) -> None:
    listed = confirmed(reviewer.post(BULK, select(three[:1])))
    services.claim(three[0].pk, by=sam)
    page = reviewer.post(BULK, listed)
    assert "Claimed by sam." in words(page)
    assert not Decision.objects.exists()
    again = confirmed(reviewer.post(BULK, confirmed(page, decision="approve")))
    assert "item" not in again
    selected = {**again, "item": [get_checkbox_value(three[0])]}
    assert "1 decision saved" in words(reviewer.post(BULK, selected))


def test_bulk_approval_of_request_with_quorum_of_two_adds_one_approval(
    reviewer: Client, three: list[Interrupt]
) -> None:
    Interrupt.objects.filter(pk=three[0].pk).update(quorum=2)
    done = reviewer.post(BULK, confirmed(reviewer.post(BULK, select(three[:1]))))
    assert "Saved: 1 of 2 approvals." in words(done)
    row = Interrupt.objects.get(pk=three[0].pk)
    page = reviewer.post(BULK, select([row], confirmed="1", key="another"))
    assert "You already approved this request." in words(page)


def test_bulk_decision_page_excludes_unclaimed_request_that_requires_a_claim(
    reviewer: Client, three: list[Interrupt]
) -> None:
    Interrupt.objects.filter(pk=three[0].pk).update(claim_required=True)
    page = reviewer.post(BULK, select(three[:1], confirmed="1", key="x"))
    assert "Open it and claim it." in words(page)
    assert not Decision.objects.exists()
    # The page shows the claims before the decision, and lists the requests that it would take over.
    page = reviewer.post(BULK, select(three))
    assert "2 requests to decide" in words(page)
    assert "Open it and claim it." in words(page)
    services.claim(three[0].pk, by=page.wsgi_request.user)
    assert "3 requests to decide" in words(reviewer.post(BULK, select(three)))


def test_bulk_approval_by_run_starter_excludes_request_that_forbids_self_approval(
    reviewer: Client, three: list[Interrupt], person: Callable[[str], Any]
) -> None:
    Interrupt.objects.filter(pk=three[0].pk).update(no_self_approval=True)
    Run.objects.update(started_by=person("reviewer"))
    page = reviewer.post(BULK, select(three))
    assert "2 requests to decide" in words(page)
    assert "You started this run, so someone else has to approve" in words(page)


@pytest.mark.promise("P18")
@pytest.mark.parametrize("role", ["nobody", "blind", "reader", "asker", "operator", "public"])
def test_bulk_decision_by_user_without_decide_permission_saves_no_decision(
    role: str, browse: Callable[[str], Client], three: list[Interrupt]
) -> None:
    client = browse(role)
    for posted in (select(three), select(three, confirmed="1", key="x")):
        page = client.post(BULK, posted)
        if role in ("nobody", "blind", "public"):
            assert page.status_code in (302, 403)
            assert "approval" not in page.content.decode()
    assert not Decision.objects.exists()


@pytest.mark.parametrize(
    "posted",
    [{}, {"decision": "approve"}, {"item": "x", "decision": "approve"}, {"decision": "delete"}],
)
def test_bulk_decision_without_selected_requests_shows_the_message_no_requests_selected(
    posted: dict[str, str], reviewer: Client, three: list[Interrupt]
) -> None:
    page = reviewer.post(BULK, posted, follow=True)
    assert "No requests selected." in words(page)
    assert reviewer.post(BULK, select(three, "edit")).headers["Location"] == list_of()
    assert reviewer.post(BULK, select(three, "respond")).status_code == 302
    assert not Decision.objects.exists()


def test_get_of_bulk_decision_page_redirects_to_the_queue(reviewer: Client) -> None:
    # The same applies to a login between the list and the page.
    assert reviewer.get(BULK).headers["Location"] == list_of()


def test_bulk_decision_without_csrf_token_returns_403(
    person: Callable[[str], Any], three: list[Interrupt]
) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(person("reviewer"))
    assert client.post(BULK, select(three, confirmed="1")).status_code == 403
    assert not Decision.objects.exists()


def test_bulk_decision_page_link_to_queue_contains_the_filters_of_the_queue(
    reviewer: Client, three: list[Interrupt]
) -> None:
    Interrupt.objects.update(snoozed_until=Now() - HOUR)
    page = reviewer.post(f"{BULK}?_changelist_filters=graph%3Dapproval", select(three))
    assert f"{list_of()}?graph=approval" in text_of(page)


@pytest.mark.promise("P3")
def test_error_in_bulk_decision_with_setting_atomic_requests_leaves_earlier_decisions_saved(
    reviewer: Client, three: list[Interrupt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    page = reviewer.post(BULK, select(three))
    decide = services.decide

    def broken(pk: Any, *args: Any, **options: Any) -> Any:
        if pk == three[-1].pk:
            raise RuntimeError("a bug")
        return decide(pk, *args, **options)

    monkeypatch.setattr(services, "decide", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        reviewer.post(BULK, confirmed(page))
    assert Decision.objects.count() == 2
