"""Spot checks in the admin: the page before and after the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from hitl_django.contrib.insights.admin import spot_check_admin
from hitl_django.contrib.insights.models import SpotCheck
from hitl_django.contrib.insights.spot_checks import record_spot_check
from hitl_django.models import Decision, Interrupt
from tests.admin.browsing import text_of
from tests.admin.conftest import *  # noqa: F403
from tests.admin.conftest import list_of, make_interrupt, page_of

SECRET = "because-she-asked-nicely"


@pytest.fixture
def look(db: None) -> SpotCheck:
    """A spot check of an approval by Ann."""
    ann = User.objects.create_superuser("ann-the-first")
    item = make_interrupt(
        {"amount": 17, "note": "<b>hostile</b>"}, status="decided", version=2, title="Pay Dana?"
    )
    made = Decision.objects.create(
        interrupt=item, version=1, type="approve", value={"sent": "to-the-graph"}, by=ann,
        by_label=ann.username, reason=SECRET, via="admin", request_digest="1", payload_digest="1",
    )  # fmt: skip
    return SpotCheck.objects.create(interrupt=item, decision=made)


def url_of(look: SpotCheck) -> str:
    return page_of(look, "spotcheck")


def test_spot_check_page_shows_approver_reason_and_response_only_after_the_result(
    look: SpotCheck, reviewer: Client
) -> None:
    hidden = ("ann-the-first", SECRET, "to-the-graph")
    before = text_of(reviewer.get(url_of(look)))
    assert "Pay Dana?" in before
    assert "17" in before
    assert "&lt;b&gt;hostile" in before
    listed = text_of(reviewer.get(list_of("spotcheck")))
    assert "Pay Dana?" in listed
    assert not [word for word in hidden if word in before + listed]
    done = reviewer.post(url_of(look), {"result": "agree"}, follow=True)
    assert "The result of your spot check was saved." in text_of(done)
    assert all(word in text_of(done) for word in hidden)
    look.refresh_from_db()
    assert (look.result, look.by_label) == ("agree", "reviewer")


def test_spot_check_page_shows_graph_title(look: SpotCheck, reviewer: Client) -> None:
    Interrupt.objects.update(graph="approval")
    page = text_of(reviewer.get(url_of(look)))
    assert "<bdi>Approval</bdi> ▸" in page
    assert "<bdi>approval</bdi>" not in page


def test_spot_check_disagreement_without_reason_shows_an_error_and_entered_values(
    look: SpotCheck, reviewer: Client
) -> None:
    page = reviewer.post(url_of(look), {"result": "disagree", "reason": "  "})
    assert "Enter a reason." in text_of(page)
    assert "checked" in text_of(page)
    page = reviewer.post(url_of(look), {"reason": "Too much."})
    assert "Too much." in text_of(page)
    assert SpotCheck.objects.get().result == ""
    reviewer.post(url_of(look), {"result": "disagree", "reason": "Too much."})
    assert SpotCheck.objects.get().reason == "Too much."


def test_spot_check_page_returns_404_for_the_approver_until_the_result_is_saved(
    look: SpotCheck, person: Callable[[str], Any]
) -> None:
    ann = Client()
    ann.force_login(User.objects.get(username="ann-the-first"))
    assert "Pay Dana?" not in text_of(ann.get(list_of("spotcheck")))
    assert ann.get(url_of(look)).status_code == 404
    record_spot_check(look.pk, False, reason="Too much.", by=person("reviewer"))
    assert "Too much." in text_of(ann.get(url_of(look)))


def test_spot_check_result_saved_concurrently_by_another_user_is_not_overwritten(
    look: SpotCheck, reviewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = record_spot_check

    def overtaken(*arguments: Any, **options: Any) -> Any:
        SpotCheck.objects.update(result="agree", by_label="ben")
        return real(*arguments, **options)

    monkeypatch.setattr(spot_check_admin, "record_spot_check", overtaken)
    page = reviewer.post(url_of(look), {"result": "disagree", "reason": "x"}, follow=True)
    assert "Another reviewer has already checked this approval" in text_of(page)
    assert (SpotCheck.objects.get().result, SpotCheck.objects.get().reason) == ("agree", "")


def test_spot_check_result_after_result_of_another_reviewer_shows_a_message_and_is_not_saved(
    look: SpotCheck, reviewer: Client
) -> None:
    record_spot_check(look.pk, True, by=User.objects.create_superuser("ben"))
    page = reviewer.post(url_of(look), {"result": "disagree", "reason": "x"}, follow=True)
    assert "Another reviewer has already checked this approval" in text_of(page)
    assert SpotCheck.objects.get().by_label == "ben"


def test_spot_check_result_submitted_twice_by_its_reviewer_shows_no_error(
    look: SpotCheck, reviewer: Client
) -> None:
    reviewer.post(url_of(look), {"result": "agree"})
    page = reviewer.post(url_of(look), {"result": "agree"}, follow=True)
    assert "was not stored" not in text_of(page)


def test_spot_check_page_without_decide_permission_has_no_form_and_post_returns_403(
    look: SpotCheck, browse: Callable[[str], Client]
) -> None:
    page = text_of(browse("reader").get(url_of(look)))
    assert "Record the result" not in page
    assert "Pending. You" in page
    assert browse("reader").post(url_of(look), {"result": "agree"}).status_code == 403
    assert SpotCheck.objects.get().result == ""


def test_spot_check_list_filtered_by_approver_omits_pending_checks(
    look: SpotCheck, admin_client: Client, reviewer: Client
) -> None:
    ann = look.decision.by_id
    page: Any = admin_client.get(f"{list_of('spotcheck')}?by={ann}")
    assert page.context["cl"].result_count == 0
    assert "ann-the-first" not in text_of(page)
    assert reviewer.get(f"{list_of('spotcheck')}?by={ann}").status_code == 403
    SpotCheck.objects.update(result="agree")
    page = admin_client.get(f"{list_of('spotcheck')}?by={ann}")
    assert page.context["cl"].result_count == 1


@pytest.mark.parametrize(("result", "count"), [("waiting", 1), ("agree", 0), ("given", 0), ("", 1)])
def test_spot_check_list_is_filtered_by_result(
    result: str, count: int, look: SpotCheck, reviewer: Client
) -> None:
    page: Any = reviewer.get(f"{list_of('spotcheck')}?result={result}")
    assert page.context["cl"].result_count == count


def test_spot_check_list_query_defers_the_payload(look: SpotCheck, reviewer: Client) -> None:
    page: Any = reviewer.get(list_of("spotcheck"))
    (row,) = page.context["cl"].result_list
    assert "payload" in row.interrupt.get_deferred_fields()


def test_spot_check_page_of_erased_request_shows_erased(look: SpotCheck, reviewer: Client) -> None:
    Interrupt.objects.update(title="", payload=None)
    assert "(erased)" in text_of(reviewer.get(url_of(look)))
