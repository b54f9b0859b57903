"""Requests that need several approvals, and changes by earlier reviewers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone

from hitl_django import services
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.models import Decision, Interrupt, Run

from .browsing import press, sheet_of, text_of, told
from .conftest import make_interrupt, page_of
from .test_activity import activities
from .test_dialects import REQUEST

Asked = Callable[..., Interrupt]
Person = Callable[[str], Any]
Browse = Callable[[str], Client]

TEXT = "A letter that is long enough to be shown with each of the words that somebody changed."


@pytest.fixture
def other(browse: Browse, person: Person) -> Client:
    person("operator").user_permissions.add(Permission.objects.get(codename="decide_interrupt"))
    return browse("operator")


def jointly(asked: Asked, **terms: Any) -> Interrupt:
    return asked("reviewed", payload={"amount": 5, "text": TEXT}, terms={"quorum": 2, **terms})


class TestQuorumOfTwo:
    def test_request_with_quorum_of_two_shows_approvals_and_resumes_run_after_second_approval(
        self, reviewer: Client, other: Client, asked: Asked, advance: Callable[[], int]
    ) -> None:
        item = jointly(asked)
        page = text_of(reviewer.get(page_of(item)))
        assert "Requires 2 approvals. None yet." in page
        assert "The run resumes once there are enough approvals." in page
        [message] = told(press(reviewer, item, "approve"))
        assert "1 of 2 approvals; the run is waiting for the rest" in message
        page = text_of(other.get(page_of(item)))
        assert "1 of 2 approvals: reviewer approved this version." in page
        assert activities(other, item)[1:] == ["reviewer · Approved, more approvals needed"]
        [message] = told(press(other, item, "approve"))
        assert "Queued, waiting for a worker." in message
        assert "2 of 2" in text_of(other.get(page_of(item)))
        advance()
        assert Run.objects.get(pk=item.run_id).state == "succeeded"

    def test_first_approver_of_request_with_quorum_can_only_reject_afterwards(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = jointly(asked)
        press(reviewer, item, "approve")
        page = text_of(reviewer.get(page_of(item)))
        assert "You approved this version. It needs more approvals." in page
        assert 'value="approve"' not in page
        assert 'value="reject"' in page
        response = press(reviewer, item, "approve")
        assert response.status_code == 409
        assert "You can still reject the request." in text_of(response)
        press(reviewer, item, "reject")
        assert Decision.objects.filter(effective=True).get().type == "reject"

    def test_edit_of_request_with_quorum_is_shown_as_proposal_and_stale_approval_returns_409(
        self, reviewer: Client, other: Client, asked: Asked
    ) -> None:
        item = jointly(asked)
        old = sheet_of(other, item)
        [message] = told(press(reviewer, item, "edit", amount="4", text=f"{TEXT} Regards."))
        assert "The edited version needs more approvals." in message
        page = text_of(other.get(page_of(item)))
        assert "1 of 2 approvals: reviewer approved this version." in page
        assert '<del class="hitl-text">5</del>' in page
        assert '<ins class="hitl-text">4</ins>' in page
        assert "<ins> Regards.</ins>" in page
        stale = press(other, item, "approve", old, reason="Fine by me.")
        assert stale.status_code == 409
        assert "has changed since you opened it" in text_of(stale)
        assert "Fine by me." in text_of(stale)
        press(other, item, "approve")
        assert Decision.objects.get(effective=True).value["amount"] == 4

    def test_edit_of_request_with_quorum_submitted_twice_saves_one_proposal(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = jointly(asked)
        sheet = sheet_of(reviewer, item)
        for _ in range(2):
            response = press(reviewer, item, "edit", sheet, amount="4")
            assert response.status_code == 302
        assert Decision.objects.count() == 1
        again = press(reviewer, item, "reject", {**sheet, "key": ["another"]}, reason="Hm.")
        assert again.status_code == 409
        assert "Hm." in text_of(again)


class TestStarterOfTheRun:
    def test_run_starter_has_no_approve_button_if_self_approval_is_forbidden_and_post_returns_403(
        self, browse: Browse, person: Person, asked: Asked
    ) -> None:
        item = asked("reviewed", payload={"amount": 5}, terms={"no_self_approval": True})
        Run.objects.update(started_by=person("reviewer"))
        reviewer = browse("reviewer")
        page = text_of(reviewer.get(page_of(item)))
        assert "You started this run" in page
        assert 'value="approve"' not in page
        response = press(reviewer, item, "approve", amount="5", reason="Mine.")
        assert response.status_code == 403
        assert "You can&#x27;t approve this request" in text_of(response)
        assert "Mine." in text_of(response)
        assert not Decision.objects.exists()

    def test_run_starter_has_no_edit_reply_or_link_buttons_if_self_approval_is_forbidden(
        self, browse: Browse, person: Person, asked: Asked
    ) -> None:
        item = asked("reviewed", payload={"amount": 5}, terms={"no_self_approval": True})
        Run.objects.update(started_by=person("reviewer"))
        person("reviewer").user_permissions.add(Permission.objects.get(codename="link_interrupt"))
        page = text_of(browse("reviewer").get(page_of(item)))
        assert "Approve with changes" not in page
        assert "Send response" not in page
        assert "Create a review link" not in page
        assert 'value="reject"' in page


class TestRequiredClaim:
    def test_request_requiring_claim_has_no_decision_buttons_until_claimed(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked("reviewed", payload={"amount": 5}, terms={"claim_required": True})
        page = text_of(reviewer.get(page_of(item)))
        assert 'value="approve"' not in page
        assert "Claim" in page
        response = press(reviewer, item, "approve", amount="5", reason="Kept.")
        assert response.status_code == 409
        assert "Claim this request before you decide" in text_of(response)
        assert "Kept." in text_of(response)
        services.claim(item.pk, by=response.wsgi_request.user)
        assert press(reviewer, item, "approve").status_code == 302

    @pytest.mark.parametrize("dialect", ["raw", "several actions"])
    def test_request_requiring_claim_has_no_response_fields_until_claimed(
        self, dialect: str, reviewer: Client, person: Person, asked: Asked
    ) -> None:
        payload = {"amount": 5} if dialect == "raw" else REQUEST
        item = asked("reviewed", payload=payload, terms={"claim_required": True})
        offers = ["Approve with changes", "Reply instead"]
        if dialect != "raw":
            offers = ['class="hitl-call"', "Submit decisions"]
        page = text_of(reviewer.get(page_of(item)))
        assert [offer for offer in offers if offer in page] == []
        services.claim(item.pk, by=person("reviewer"))
        page = text_of(reviewer.get(page_of(item)))
        assert [offer for offer in offers if offer in page] == offers

    @pytest.fixture
    def too_late(self, reviewer: Client, person: Person, asked: Asked) -> tuple[Interrupt, Any]:
        item = asked("reviewed", payload={"amount": 5}, terms={"claim_required": True})
        services.claim(item.pk, by=person("reviewer"))
        sheet = sheet_of(reviewer, item)
        Interrupt.objects.update(claimed_until=timezone.now() - timedelta(minutes=1))
        return item, sheet

    def test_decision_after_expired_claim_is_saved_if_no_other_user_claimed(
        self, reviewer: Client, too_late: tuple[Interrupt, Any]
    ) -> None:
        item, sheet = too_late
        assert press(reviewer, item, "approve", sheet, reason="Kept.").status_code == 302
        assert Decision.objects.get().reason == "Kept."

    def test_decision_after_expired_claim_returns_409_if_another_user_claimed(
        self, reviewer: Client, person: Person, too_late: tuple[Interrupt, Any]
    ) -> None:
        item, sheet = too_late
        services.claim(item.pk, by=person("public"))
        response = press(reviewer, item, "approve", sheet, reason="Kept.")
        assert response.status_code == 409
        assert "Claimed by public" in text_of(response)
        assert "Kept." in text_of(response)
        assert not Decision.objects.exists()


class TestChange:
    def test_edit_is_shown_as_differences_on_request_and_decision_page(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked("approval", text=TEXT)
        press(reviewer, item, "edit", text=TEXT.replace("long", "<i>short</i>"))
        decision = Decision.objects.get()
        for url in (page_of(item), page_of(decision, "decision")):
            page = text_of(reviewer.get(url))
            assert "<del>long</del>" in page
            assert "&lt;i&gt;short&lt;/i&gt;</ins>" in page or "<ins>&lt;i&gt;short" in page

    def test_edit_of_long_text_with_field_error_marks_the_changed_words(
        self, reviewer: Client
    ) -> None:
        item = make_interrupt({"text": TEXT, "amount": 5})
        page = text_of(
            press(reviewer, item, "edit", text=TEXT.replace("letter", "card"), amount="lots")
        )
        assert "<del>letter</del><ins>card</ins>" in page

    def test_edit_rejected_because_of_conflict_marks_the_changed_words(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked("approval", text=TEXT)
        sheet = sheet_of(reviewer, item)
        services.decide(item.pk, "reject")
        response = press(reviewer, item, "edit", sheet, text=TEXT.replace("letter", "card"))
        assert response.status_code == 409
        assert "<del>letter</del><ins>card</ins>" in text_of(response)

    @pytest.mark.promise("P21")
    def test_edit_of_20000_words_shows_truncated_differences(self, reviewer: Client) -> None:
        item = make_interrupt({"text": "word " * 20_000})
        page = text_of(press(reviewer, item, "approve", text="other " * 20_000))
        assert page.count("<del>") < 20
        assert len(page) < 400_000


def test_request_page_of_run_that_resumes_after_all_responses_says_so(
    reviewer: Client, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "hitl_django.graph_registry.registry.get_review_policy",
        lambda name: ReviewPolicy(resume_on="all"),
    )
    item = asked("panel")
    assert "The run resumes when all requests are decided" in text_of(reviewer.get(page_of(item)))
    [message] = told(press(reviewer, item, "respond", reply="Yes."))
    assert "Waiting for review." in message
