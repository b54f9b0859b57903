"""The request page: its contents, its form and the next page."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from hitl_django.models import Decision, Interrupt, Run

from .browsing import post_of, press, sheet_of, text_of, told
from .conftest import make_interrupt, page_of

Asked = Callable[..., Interrupt]
Advance = Callable[[], int]
ORDER = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["sku", "count"],
            },
        },
    },
    "required": ["approved", "lines"],
}


def sheets_in(page: str) -> list[str]:
    return re.findall(r"<form [^>]*data-hitl-sheet.*?</form>", page, re.S)


class TestSeveralRequests:
    def test_request_page_of_run_with_two_requests_shows_two_forms_with_unique_element_ids(
        self, reviewer: Client, asked: Asked
    ) -> None:
        first = asked("panel")
        [second] = Interrupt.objects.exclude(pk=first.pk)
        page = text_of(reviewer.get(page_of(second)))
        assert "2 requests from one run" in page
        assert "The run resumes after each decision" in page
        forms = sheets_in(page)
        assert [page_of(item) in form for item, form in zip((second, first), forms, strict=True)]
        ids = re.findall(r' id="([^"]*)"', page)
        assert len(ids) == len(set(ids))

    def test_run_with_two_requests_opens_the_second_request_after_the_first_decision(
        self, reviewer: Client, asked: Asked, advance: Advance
    ) -> None:
        first = asked("panel")
        [second] = Interrupt.objects.exclude(pk=first.pk)
        make_interrupt({}, title="Of another run")
        [form, _other] = sheets_in(text_of(reviewer.get(page_of(first))))
        sent = {**post_of(form), "decision": ["respond"], "reply": ["Yes."]}
        response = reviewer.post(page_of(first), sent)
        assert response.headers["Location"] == page_of(second)
        second.refresh_from_db()
        assert second.status == "pending"
        press(reviewer, second, "respond", reply="No.")
        advance()
        assert Run.objects.get(pk=first.run_id).state == "succeeded"

    def test_run_with_two_requests_shows_only_requests_visible_to_the_user(
        self, reviewer: Client, asked: Asked, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = asked("panel")

        def only_first(self: Any, user: Any, rows: Any) -> Any:
            return rows.filter(pk=first.pk)

        monkeypatch.setattr(
            "hitl_django.permissions.ModelPermissionPolicy.visible_interrupts", only_first
        )
        page = text_of(reviewer.get(page_of(first)))
        assert "requests from one run" not in page
        assert len(sheets_in(page)) == 1

    def test_request_page_with_fifteen_requests_of_a_run_takes_at_most_25_queries(
        self, reviewer: Client, asked: Asked, django_assert_max_num_queries: Any
    ) -> None:
        item = asked()
        others = [make_interrupt({"n": n}).pk for n in range(14)]
        Interrupt.objects.filter(pk__in=others).update(thread=item.thread_id, run=item.run_id)
        Interrupt.objects.update(version=3)
        with django_assert_max_num_queries(25):
            assert "15 requests from one run" in text_of(reviewer.get(page_of(item)))


class TestObjectList:
    def test_object_list_form_without_javascript_adds_rows_and_keeps_entered_values(
        self, reviewer: Client
    ) -> None:
        item = make_interrupt({"lines": [{"sku": "A", "count": 1}]}, ORDER)
        sheet = sheet_of(reviewer, item)
        assert not any(name.startswith("answer/lines/2") for name in sheet)
        sent = {**sheet, "more": ["answer/lines"], "answer/lines/1/sku": ["B"], "reason": ["Hm."]}
        response = reviewer.post(page_of(item), sent)
        page = text_of(response)
        assert "Please correct the errors" not in page
        again = post_of(sheets_in(page)[0])
        assert again["answer/lines/1/sku"] == ["B"]
        assert again["reason"] == ["Hm."]
        assert "answer/lines/4/sku" in again
        assert again["key"] == sheet["key"]
        assert not Decision.objects.exists()

    def test_add_rows_button_with_unknown_list_saves_no_decision(self, reviewer: Client) -> None:
        item = make_interrupt({"lines": []}, ORDER)
        sent = {**sheet_of(reviewer, item), "more": ["answer/no/such/list"]}
        assert reviewer.post(page_of(item), sent).status_code == 200
        assert not Decision.objects.exists()


class TestLargePayload:
    @pytest.mark.promise("P21")
    @pytest.mark.parametrize(
        "payload",
        [
            {"note": "x" * 10_000_000},
            {f"key {n}": "x" * 50_000 for n in range(200)},
            {"k" * 5_000_000: 1, "list": [{"k" * 200_000: "x" * 30_000}] * 40},
            {"deep": {"deep": {"deep": {"deep": ["x" * 100] * 50_000}}}},
            ["x" * 50_000] * 40,
        ],
        ids=["one text", "many texts", "keys", "deep", "list"],
    )
    @pytest.mark.parametrize(
        "schema",
        [
            None,
            {
                "type": "object",
                "properties": {"approved": {"type": "boolean"}, "note": {"type": "string"}},
            },
        ],
        ids=["raw", "typed"],
    )
    def test_request_page_with_ten_megabyte_payload_is_truncated_and_links_to_download(
        self, reviewer: Client, payload: Any, schema: Any
    ) -> None:
        item = make_interrupt(payload, schema, title="Large?")
        response = reviewer.get(page_of(item))
        assert len(response.content) < 150_000
        assert f"{page_of(item).removesuffix('change/')}payload/" in text_of(response)
        assert 'value="reject"' in text_of(response)

    def test_request_with_payload_too_large_to_edit_can_be_rejected(self, reviewer: Client) -> None:
        item = make_interrupt({"note": "x" * 300_000})
        assert "too large to edit here" in text_of(reviewer.get(page_of(item)))
        assert press(reviewer, item, "reject", reason="Too long.").status_code == 302
        assert Decision.objects.get().type == "reject"

    @pytest.mark.promise("P21")
    def test_request_with_payload_above_response_limit_has_no_approve_button(
        self, reviewer: Client
    ) -> None:
        schema = {
            "type": "object",
            "properties": {"approved": {"type": "boolean"}, "note": {"type": "string"}},
        }
        item = make_interrupt({"note": "x" * 300_000}, schema)
        page = text_of(reviewer.get(page_of(item)))
        assert "The response and the original request together are 300027 bytes" in page
        assert 'value="approve"' not in page
        response = press(reviewer, item, "approve")
        assert "the limit is 262144" in text_of(response)
        assert not Decision.objects.exists()
        assert press(reviewer, item, "reject", reason="Too long.").status_code == 302


class TestStatusLine:
    def status_of(self, client: Client, item: Interrupt) -> dict[str, Any]:
        url = page_of(item).removesuffix("change/") + "status/"
        status: dict[str, Any] = client.get(url).json()
        return status

    def test_status_line_after_approval_shows_queued_and_then_succeeded(
        self, reviewer: Client, asked: Asked, advance: Advance
    ) -> None:
        item = asked()
        [message] = told(press(reviewer, item, "approve"))
        assert "Queued, waiting for a worker." in message
        assert self.status_of(reviewer, item) == {
            "text": "Queued, waiting for a worker.",
            "again": 1.5,
        }
        assert "Queued, waiting for a worker." in text_of(reviewer.get(page_of(item)))
        advance()
        assert self.status_of(reviewer, item) == {"text": "Succeeded."}
        assert "Succeeded." in text_of(reviewer.get(page_of(item)))

    def test_status_line_after_approval_shows_waiting_for_review_if_run_creates_another_request(
        self, reviewer: Client, asked: Asked, advance: Advance
    ) -> None:
        item = asked("interview")
        press(reviewer, item, "approve")
        advance()
        assert self.status_of(reviewer, item)["text"] == "Waiting for review."

    def test_decision_message_without_run_permission_links_to_the_request(
        self, browse: Callable[[str], Client], person: Any, asked: Asked
    ) -> None:
        user = person("asker")
        user.user_permissions.add(
            person("reviewer").user_permissions.get(codename="decide_interrupt")
        )
        item = asked()
        [message] = told(press(browse("asker"), item, "approve"))
        assert page_of(item) in message
        assert "/run/" not in message

    @pytest.mark.promise("P18")
    def test_status_url_of_request_hidden_from_user_returns_404(
        self, browse: Callable[[str], Client], asked: Asked
    ) -> None:
        url = page_of(asked()).removesuffix("change/") + "status/"
        assert browse("nobody").get(url).status_code == 404


def test_request_page_describes_the_effect_of_its_decision_buttons(
    reviewer: Client, asked: Asked
) -> None:
    assert "Rejects the request. The run resumes." in text_of(
        reviewer.get(page_of(asked("approval")))
    )
    typed = text_of(reviewer.get(page_of(asked())))
    assert "Approves the request with the response above." in typed
    assert "Resumes the run from the breakpoint." in text_of(
        reviewer.get(page_of(asked("gated", text="x")))
    )


def test_request_page_of_superuser_takes_at_most_25_queries(
    admin_client: Client, asked: Asked, django_assert_max_num_queries: Any
) -> None:
    item = asked("panel")
    with django_assert_max_num_queries(25):
        page = text_of(admin_client.get(page_of(item)))
    for part in ("Previous steps", "Position in the graph", "Activity", "Assign"):
        assert part in page


def test_request_page_shows_next_node_and_graph_diagram(reviewer: Client, asked: Asked) -> None:
    page = text_of(reviewer.get(page_of(asked())))
    assert "Next step: <strong>end of the run</strong>" in page
    assert 'class="hitl-graph"' in page


def test_request_page_of_unregistered_graph_has_approve_button_and_no_diagram(
    reviewer: Client,
) -> None:
    page = text_of(reviewer.get(page_of(make_interrupt({"n": 1}, graph="long gone"))))
    assert 'value="approve"' in page
    assert "Next step" not in page
    assert 'class="hitl-graph"' not in page


def test_request_page_without_thread_permission_has_no_diagram(
    browse: Callable[[str], Client], asked: Asked
) -> None:
    item = asked()
    assert 'class="hitl-graph"' not in text_of(browse("asker").get(page_of(item)))
