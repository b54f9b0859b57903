"""The review queue: the list, request pages, and all kinds of decisions."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from hitl_django import services
from hitl_django.contrib.links.models import ReviewLink
from hitl_django.contrib.links.services import create_review_link
from hitl_django.models import Decision, Interrupt, Run, WorkerHeartbeat

from .browsing import press, sheet_of, text_of, told
from .conftest import list_of, make_interrupt, page_of

Asked = Callable[..., Interrupt]
Advance = Callable[[], int]


class TestList:
    def test_queue_row_shows_title_with_link_and_graph(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked()
        page = text_of(reviewer.get(list_of()))
        assert "Refund Dana?" in page
        assert page_of(item) in page
        assert "<bdi>typed</bdi></span>" in page
        assert "1 pending request" in page

    def test_queue_lists_only_pending_requests_oldest_first(self, reviewer: Client) -> None:
        now = timezone.now()
        first = make_interrupt({}, created_at=now - timedelta(minutes=1))
        second = make_interrupt({}, created_at=now)
        for status in ("decided", "expired", "superseded", "cancelled"):
            make_interrupt({}, title=f"It is {status}", status=status)
        page = text_of(reviewer.get(list_of()))
        assert page.index(first.title) < page.index(second.title)
        assert "It is" not in page

    def test_queue_without_requests_or_matches_shows_an_empty_message(
        self, reviewer: Client
    ) -> None:
        assert "No pending requests." in text_of(reviewer.get(list_of()))
        make_interrupt({})
        nothing = text_of(reviewer.get(list_of(), {"q": "no such title"}))
        assert "No results match" in nothing

    def test_queue_filters_by_graph_and_searches_titles_and_payloads(
        self, reviewer: Client
    ) -> None:
        make_interrupt({"found": "needle"}, title="Alpha", graph="one")
        make_interrupt({}, title="Beta", graph="two")
        assert "Beta" not in text_of(reviewer.get(list_of(), {"graph": "one"}))
        assert "Alpha" in text_of(reviewer.get(list_of(), {"q": "alph"}))
        assert "Alpha" in text_of(reviewer.get(list_of(), {"q": "eedl"}))
        assert "Beta" not in text_of(reviewer.get(list_of(), {"q": "eedl"}))

    @pytest.mark.parametrize(
        "query", ["payload__contains=x", "run__started_by__password__startswith=a", "o=99", "p=99"]
    )
    def test_queue_with_unknown_filter_causes_no_server_error(
        self, reviewer: Client, query: str
    ) -> None:
        make_interrupt({"x": 1})
        assert reviewer.get(f"{list_of()}?{query}").status_code in (200, 302, 400)

    @pytest.mark.parametrize("rows", [1, 60])
    def test_queue_with_1_or_60_rows_takes_at_most_twelve_queries_and_reads_no_payloads(
        self, reviewer: Client, django_assert_max_num_queries: Any, rows: int
    ) -> None:
        for number in range(rows):
            make_interrupt({"n": number}, graph=f"graph {number % 3}")
        with django_assert_max_num_queries(12) as counted:
            reviewer.get(list_of())
        # A page of a million payloads doesn't load one of them.
        assert not any('"payload", "' in query["sql"] for query in counted.captured_queries)

    def test_queue_without_recent_worker_heartbeat_says_that_no_worker_is_running(
        self, reviewer: Client
    ) -> None:
        assert "No worker is running" not in text_of(reviewer.get(list_of()))
        worker = WorkerHeartbeat.objects.create(owner="host:7", host="host", pid=7)
        assert "No worker is running" not in text_of(reviewer.get(list_of()))
        WorkerHeartbeat.objects.update(at=timezone.now() - timedelta(hours=1))
        page = text_of(reviewer.get(list_of()))
        assert "No worker is running" in page
        assert "Last worker seen:" in page
        worker.delete()
        make_interrupt({})
        Run.objects.update(state="queued", queued_at=timezone.now() - timedelta(hours=1))
        page = text_of(reviewer.get(list_of()))
        assert "No worker is running" in page
        assert "Last worker seen:" not in page

    def test_queue_with_60_requests_has_a_second_page(self, reviewer: Client) -> None:
        for _ in range(60):
            make_interrupt({})
        page = text_of(reviewer.get(list_of(), {"p": "2"}))
        assert "60 pending requests" in page
        assert page.count("data-hitl-row=") == 10


class TestRequest:
    def test_request_page_shows_title_editable_fields_and_decision_buttons(
        self, reviewer: Client, asked: Asked
    ) -> None:
        page = text_of(reviewer.get(page_of(asked())))
        assert "Refund Dana?" in page
        assert 'name="answer/amount"' in page
        assert 'name="answer/approved"' not in page
        for button in ("approve", "reject"):
            assert f'name="decision" value="{button}"' in page

    def test_request_page_with_one_request_takes_at_most_25_queries(
        self, reviewer: Client, asked: Asked, django_assert_max_num_queries: Any
    ) -> None:
        item = asked()
        with django_assert_max_num_queries(25):
            reviewer.get(page_of(item))

    def test_request_page_shows_the_reason_of_the_request(self, reviewer: Client) -> None:
        item = make_interrupt({"why": "It is a lot of money.", "amount": 7})
        assert '<p class="hitl-why" dir="auto">It is a lot of money.</p>' in text_of(
            reviewer.get(page_of(item))
        )

    def test_request_form_has_a_disabled_first_button_so_enter_submits_no_decision(
        self, reviewer: Client, asked: Asked
    ) -> None:
        # Enter in a text box presses the form's first button.
        page = text_of(reviewer.get(page_of(asked())))
        first = re.search(r"<button[^>]*>", page[page.index("data-hitl-sheet") :])
        assert first is not None
        assert "disabled" in first[0]

    def test_breakpoint_page_offers_only_continue_and_resumes_the_run(
        self, reviewer: Client, asked: Asked, advance: Advance
    ) -> None:
        item = asked("gated", text="x")
        page = text_of(reviewer.get(page_of(item)))
        assert "Continue" in page
        assert 'value="reject"' not in page
        assert press(reviewer, item, "approve").status_code == 302
        advance()
        assert Run.objects.get(pk=item.run_id).state == "succeeded"

    def test_payload_download_is_an_attachment_with_plain_text_type(self, reviewer: Client) -> None:
        item = make_interrupt({"html": "<script>"})
        response = reviewer.get(f"/admin/hitl_django/reviewitem/{item.pk}/payload/")
        assert response["Content-Type"] == "text/plain; charset=utf-8"
        assert response["Content-Disposition"].startswith("attachment")
        assert response["X-Content-Type-Options"] == "nosniff"

    def test_request_page_with_ten_megabyte_text_is_truncated_and_approvable_without_edit(
        self, reviewer: Client
    ) -> None:
        item = make_interrupt({"text": "x" * 10_000_000})
        response = reviewer.get(page_of(item))
        assert len(response.content) < 200_000
        assert "more characters not shown" in text_of(response)
        assert 'value="approve"' in text_of(response)
        assert 'value="edit"' not in text_of(response)


class TestDecision:
    def test_approval_saves_payload_as_response_and_resumes_the_run(
        self, reviewer: Client, asked: Asked, advance: Advance
    ) -> None:
        item = asked()
        response = press(reviewer, item, "approve", reason="Fine.")
        assert response.status_code == 302
        decision = Decision.objects.get(interrupt=item)
        assert (decision.type, decision.reason, decision.via) == ("approve", "Fine.", "admin")
        assert decision.value == {"amount": 12.5, "note": "", "approved": True}
        assert decision.by_label == "reviewer"
        [message] = told(response)
        assert message.startswith("You approved “Refund Dana?”.")
        assert "Queued, waiting for a worker." in message
        assert page_of(item.run_id, "run") in message
        advance()
        assert Run.objects.get(pk=item.run_id).state == "succeeded"

    def test_approval_with_changed_field_is_saved_as_edit_with_schema_types(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked()
        press(reviewer, item, "approve", amount="9")
        decision = Decision.objects.get(interrupt=item)
        assert decision.type == "edit"
        assert decision.value == {"amount": 9.0, "note": "", "approved": True}
        assert type(decision.value["amount"]) is float

    def test_rejection_saves_the_reason_and_the_value_approved_false(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked()
        press(reviewer, item, "reject", reason="Too late.")
        decision = Decision.objects.get(interrupt=item)
        assert (decision.type, decision.reason) == ("reject", "Too late.")
        assert decision.value["approved"] is False

    def test_edit_decision_stores_the_payload_with_the_changed_text_as_value(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked("approval")
        press(reviewer, item, "edit", text="better news")
        assert Decision.objects.get(interrupt=item).value == {**item.payload, "text": "better news"}

    def test_approval_with_changed_payload_text_saves_an_edit_with_the_changed_text(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked("approval")
        assert press(reviewer, item, "approve", text="better news").status_code == 302
        decision = Decision.objects.get()
        assert (decision.type, decision.value["text"]) == ("edit", "better news")

    @pytest.mark.parametrize(
        ("typed", "is_json", "value"),
        [("Ask Sam", "", "Ask Sam"), ("12", "", "12"), ("[1, null]", "on", [1, None])],
    )
    def test_reply_is_saved_as_text_or_parsed_json(
        self, reviewer: Client, asked: Asked, typed: str, is_json: str, value: Any
    ) -> None:
        item = asked("approval")
        extra = {"reply_is_json": is_json} if is_json else {}
        assert press(reviewer, item, "respond", reply=typed, **extra).status_code == 302
        assert Decision.objects.get(interrupt=item).value == value

    def test_decision_on_filtered_queue_redirects_to_next_request_with_the_filter(
        self, reviewer: Client, asked: Asked
    ) -> None:
        first = asked()
        make_interrupt({}, title="Choose another graph's")
        second = asked()
        query = "?_changelist_filters=graph%3Dtyped"
        posted = {**sheet_of(reviewer, first), "decision": ["approve"]}
        response = reviewer.post(page_of(first) + query, posted)
        assert response.headers["Location"] == page_of(second) + query

    def test_decision_on_last_pending_request_redirects_to_the_queue(
        self, reviewer: Client, asked: Asked
    ) -> None:
        assert press(reviewer, asked(), "approve").headers["Location"] == list_of()


class TestRejectedDecision:
    def test_decision_with_unreadable_number_shows_field_error_typed_value_and_reason(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked()
        page = text_of(press(reviewer, item, "approve", amount="lots", reason="Because."))
        assert "Enter a number" in page
        assert 'value="lots"' in page
        assert "Because." in page
        assert "Not submitted." in page
        assert not Decision.objects.exists()

    def test_decision_violating_schema_shows_the_error_at_its_field(self, reviewer: Client) -> None:
        schema = {
            "type": "object",
            "properties": {"approved": {"type": "boolean"}, "n": {"type": "integer", "minimum": 5}},
            "required": ["approved", "n"],
        }
        item = make_interrupt({"n": 7}, schema)
        page = text_of(press(reviewer, item, "approve", n="3"))
        row = page[page.index('name="answer/n"') :].partition('class="hitl-field"')[0]
        assert "errorlist" in row
        assert not Decision.objects.exists()

    @pytest.mark.parametrize(
        "typed", ["", "{", "1e999", "[" * 5000, '{"a": 1, "a": 2}'], ids=lambda text: text[:5]
    )
    def test_reply_with_invalid_json_shows_a_form_error_and_saves_no_decision(
        self, reviewer: Client, asked: Asked, typed: str
    ) -> None:
        item = asked("approval")
        response = press(reviewer, item, "respond", reply=typed, reply_is_json="on")
        assert response.status_code == 200
        assert "errorlist" in text_of(response)
        assert not Decision.objects.exists()

    def test_reply_above_size_limit_shows_the_message_not_submitted_and_saves_no_decision(
        self, reviewer: Client, asked: Asked
    ) -> None:
        response = press(reviewer, asked("approval"), "respond", reply="x" * 300_000)
        assert response.status_code == 200
        assert "Not submitted." in text_of(response)
        assert not Decision.objects.exists()

    @pytest.mark.parametrize("button", ["", "delete", "edit2", "respond"])
    def test_decision_with_unknown_button_value_asks_to_choose_a_decision_and_saves_no_decision(
        self, reviewer: Client, asked: Asked, button: str
    ) -> None:
        item = asked()
        assert "Choose a decision to submit" in text_of(press(reviewer, item, button))
        assert not Decision.objects.exists()

    def test_decision_on_request_decided_by_another_user_returns_409_with_entered_values_and_name(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item, other = asked(), make_interrupt({})
        sheet = sheet_of(reviewer, item)
        services.decide(item.pk, "reject", reason="No.")
        response = press(reviewer, item, "approve", sheet, amount="99", reason="I would pay.")
        page = text_of(response)
        assert response.status_code == 409
        assert "system rejected this" in page
        assert "Your input was not submitted." in page
        assert "I would pay." in page
        assert "99" in page
        # "Review next" on this page claims a request. Opening the page claims none.
        assert f'name="after" value="{item.pk}"' in page
        other.refresh_from_db()
        assert other.claimed_by is None
        assert Decision.objects.get().type == "reject"

    @pytest.mark.promise("P1")
    def test_decision_submitted_twice_redirects_and_is_saved_once(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked()
        sheet = sheet_of(reviewer, item)
        answers = [press(reviewer, item, "approve", sheet) for _ in range(2)]
        assert [response.status_code for response in answers] == [302, 302]
        assert Decision.objects.count() == 1

    @pytest.mark.promise("P1")
    def test_different_decision_from_second_tab_returns_409(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked()
        tabs = [sheet_of(reviewer, item) for _ in range(2)]
        press(reviewer, item, "approve", tabs[0])
        for sheet in tabs:
            response = press(reviewer, item, "reject", sheet)
            assert response.status_code == 409
            assert "You approved this" in text_of(response)
            assert "was not saved" in text_of(response)
        assert Decision.objects.get().type == "approve"

    @pytest.mark.parametrize(
        "seen",
        [{"digest": "0" * 32}, {"version": "2"}, {"digest": ""}, {"version": ""}],
        ids=str,
    )
    def test_decision_with_stale_digest_or_version_returns_409_with_typed_reason(
        self, reviewer: Client, asked: Asked, seen: dict[str, str]
    ) -> None:
        response = press(reviewer, asked(), "approve", reason="Kept.", **seen)
        assert response.status_code == 409
        assert "has changed since you opened it" in text_of(response)
        assert "Kept." in text_of(response)
        assert not Decision.objects.exists()

    @pytest.mark.promise("P18")
    def test_decision_after_permission_was_revoked_returns_403_with_typed_reason(
        self, reviewer: Client, asked: Asked, person: Callable[[str], Any]
    ) -> None:
        item = asked()
        sheet = sheet_of(reviewer, item)
        user = person("reviewer")
        user.user_permissions.remove(user.user_permissions.get(codename="decide_interrupt"))
        response = press(reviewer, item, "approve", sheet, reason="Kept.")
        assert response.status_code == 403
        assert "You can&#x27;t decide this request" in text_of(response)
        assert "Kept." in text_of(response)
        assert not Decision.objects.exists()

    def test_decision_on_request_of_parked_run_returns_409(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked()
        Run.objects.filter(pk=item.run_id).update(state="parked")
        response = press(reviewer, item, "approve")
        assert response.status_code == 409
        assert "The run has stopped." in text_of(response)


class TestClosedRequest:
    @pytest.mark.parametrize(
        ("status", "words"),
        [
            ("expired", "This request has expired"),
            ("superseded", "This request was superseded"),
            ("cancelled", "This request was withdrawn"),
        ],
    )
    def test_closed_request_page_shows_its_status_and_rejects_decisions_with_409(
        self, reviewer: Client, status: str, words: str
    ) -> None:
        item = make_interrupt({"amount": 7}, status=status)
        page = text_of(reviewer.get(page_of(item)))
        assert words in page
        assert "data-hitl-sheet" not in page
        assert reviewer.post(page_of(item), {"decision": "approve"}).status_code == 409

    @pytest.mark.parametrize("status", ["decided", "expired", "superseded", "cancelled"])
    def test_closed_request_page_shows_no_claim_delay_or_consequence_of_expiry(
        self, reviewer: Client, status: str
    ) -> None:
        past = timezone.now() - timedelta(days=1)
        item = make_interrupt({})
        rows = Interrupt.objects.filter(pk=item.pk)
        rows.update(due_at=past, expires_at=past, expiry={"seconds": 1, "then": "park"})
        signs = "Unclaimed", 'class="is-late"', "then the run is parked"
        assert all(sign in text_of(reviewer.get(page_of(item))) for sign in signs)
        rows.update(status=status, closed_at=past)
        page = text_of(reviewer.get(page_of(item)))
        assert "<dt>Due</dt>" in page
        assert not [sign for sign in signs if sign in page]

    def test_superseded_request_page_links_to_the_newer_request_of_the_thread(
        self, reviewer: Client
    ) -> None:
        old = make_interrupt({}, status="superseded")
        new = make_interrupt({})
        Interrupt.objects.filter(pk=new.pk).update(thread=old.thread)
        assert page_of(new) in text_of(reviewer.get(page_of(old)))

    def test_decided_request_page_shows_user_reason_and_value_sent_to_the_graph(
        self, reviewer: Client, asked: Asked
    ) -> None:
        item = asked()
        press(reviewer, item, "reject", reason="Not <b>this</b> time.")
        page = text_of(reviewer.get(page_of(item)))
        assert "You rejected this" in page
        assert "Not &lt;b&gt;this&lt;/b&gt; time." in page
        assert "Sent to the graph" in page


def test_response_rejected_by_graph_is_shown_on_the_pending_request_and_run_page(
    reviewer: Client, asked: Asked, advance: Advance
) -> None:
    item = asked("booking", log=[])
    press(reviewer, item, "respond", seats="3")
    advance()
    page = text_of(reviewer.get(page_of(item)))
    assert "The last response was rejected by the graph" in page
    assert "seats are sold in pairs" in page
    assert "reviewer had responded" in page

    press(reviewer, item, "respond", seats="4")
    advance()
    item.refresh_from_db()
    assert item.status == "decided"
    page = text_of(reviewer.get(page_of(item)))
    assert "The last response was rejected by the graph" not in page
    assert page.count("A response was rejected by the graph") == 1  # in the activity
    run = text_of(reviewer.get(f"/admin/hitl_django/run/{item.run_id}/change/"))
    assert "A response was rejected by the graph" in run


def test_request_changed_after_decision_is_marked_on_request_and_run_page(
    reviewer: Client, asked: Asked
) -> None:
    item = asked()
    press(reviewer, item, "approve")
    plain = reviewer.get(page_of(item))
    assert "asked something different" not in text_of(plain)
    Interrupt.objects.update(changed_at=timezone.now())
    assert "asked something different" in text_of(reviewer.get(page_of(item)))
    run = text_of(reviewer.get(f"/admin/hitl_django/run/{item.run_id}/change/"))
    assert "changed after decision" in run


def test_decision_on_expired_request_returns_409_with_the_effect_on_the_run(
    reviewer: Client, asked: Asked
) -> None:
    for then, said, entry in (
        ("answer", "resumed with", "Request expired: default response sent"),
        ("cancel", "cancelled", "Request expired: run cancelled"),
        ("park", "sends a new request", "Request expired: run parked"),
    ):
        item = asked()
        day = timedelta(days=1)
        terms = {"seconds": 1, "then": then, "answer": {"approved": False, "amount": 1}}
        rows = Interrupt.objects.filter(pk=item.pk)
        rows.update(expires_at=timezone.now() + day, expiry=terms)
        assert "<dt>Expires</dt>" in text_of(reviewer.get(page_of(item)))
        sheet = sheet_of(reviewer, item)
        rows.update(expires_at=timezone.now() - day)
        assert services.expire_due() == 1
        response = press(reviewer, item, "approve", sheet)
        assert response.status_code == 409
        page = text_of(response)
        assert "This request has expired" in page
        assert said in page
        assert entry in page
        assert "Your input was not submitted." in page


def test_erased_request_is_shown_as_erased_on_every_page(
    admin_client: Client, person: Callable[[str], Any], asked: Asked, advance: Callable[[], int]
) -> None:
    item = asked("approval")
    services.comment(item.pk, "A word.")
    create_review_link(item.pk, name="Lena")
    decision = services.decide(item.pk, "approve", by=person("reviewer"), reason="Fine.")
    advance()
    services.erase_thread(item.thread.thread_id)
    page = text_of(admin_client.get(page_of(item)))
    assert "reviewer approved this" in page
    assert "have been erased. Who decided, and when, is kept." in page
    link = ReviewLink.objects.get()
    for url in (
        page_of(item), page_of(decision.id, "decision"), page_of(item.run_id, "run"),
        page_of(item.thread_id, "thread"), page_of(link, "reviewlink"),
        *map(list_of, ("interrupt", "decision", "reviewlink")),
    ):  # fmt: skip
        page = text_of(admin_client.get(url))
        assert ("(erased)" in page) == (url != page_of(item.thread_id, "thread")), url
        assert not re.search(r'<a [^>]*(hitl-title|dir="auto")[^>]*>\s*</a>', page), url
        assert not re.search(r"<h1[^>]*>\s*</h1>", page), url


@pytest.mark.parametrize("state", ["failed", "parked", "cancelled"])
def test_approved_request_page_and_status_warn_the_decider_of_failed_parked_or_cancelled_run(
    reviewer: Client, asked: Callable[..., Interrupt], state: str
) -> None:
    item = asked()
    press(reviewer, item, "approve")
    page = text_of(reviewer.get(page_of(item)))
    assert 'class="hitl-notice " aria-labelledby="became">' in page
    status = page_of(item).removesuffix("change/") + "status/"
    assert "problem" not in reviewer.get(status).json()
    Run.objects.update(state=state)
    page = text_of(reviewer.get(page_of(item)))
    assert 'hitl-notice is-warn" aria-labelledby="became" role="alert"' in page
    assert 'class="hitl-follow is-late"' in page
    assert reviewer.get(status).json()["problem"] is True
