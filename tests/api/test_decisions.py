"""Decisions over HTTP: concurrency, versions and validation."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from hitl_django import services
from hitl_django.api.preconditions import parse_etag
from hitl_django.models import AuditEntry, Decision, Interrupt, Run
from hitl_django.worker import runner

Asked = Callable[..., Interrupt]


def decided(interrupt: Interrupt) -> bool:
    interrupt.refresh_from_db()
    return interrupt.status == Interrupt.Status.DECIDED


def test_interrupt_detail_contains_payload_schema_allowed_decisions_digest_and_etag(
    api: Any, asked: Asked
) -> None:
    interrupt = asked()
    response = api.get("interrupt", interrupt.pk)
    shown = response.json()
    assert shown["title"] == "Pay 12 EUR?"
    assert shown["payload"] == {"title": "Pay 12 EUR?", "amount": 12}
    assert shown["response_schema"]["properties"]["amount"] == {"type": "integer", "minimum": 1}
    assert shown["allowed_decisions"] == ["approve", "edit", "reject"]
    assert (shown["status"], shown["version"], shown["decision"]) == ("pending", 1, None)
    assert shown["digest"] == interrupt.payload_digest
    assert response["ETag"].startswith(f'"1-{interrupt.payload_digest}-pending-')
    assert response["Cache-Control"] == "private, no-cache"
    assert response["X-Content-Type-Options"] == "nosniff"


def test_interrupt_detail_with_matching_if_none_match_returns_304_until_decided(
    api: Any, asked: Asked
) -> None:
    interrupt = asked()
    etag = api.get("interrupt", interrupt.pk)["ETag"]
    for known in (etag, f"W/{etag}", f'{etag[:-1]}-gzip"', f'"x", {etag}', "*"):
        again = api.get("interrupt", interrupt.pk, headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again["ETag"] == etag
    other = {"If-None-Match": '"x"', "If-Match": '"y"'}
    assert api.get("interrupt", interrupt.pk, headers=other).status_code == 200
    services.decide(interrupt.pk, "approve")
    changed = api.get("interrupt", interrupt.pk, headers={"If-None-Match": etag})
    assert changed.status_code == 200
    assert changed["ETag"] != etag


def test_decision_over_the_api_is_stored_and_returned_and_queues_the_run(
    api: Any, as_role: Any, asked: Asked, make_user: Any
) -> None:
    interrupt = asked()
    etag = api.get("interrupt", interrupt.pk)["ETag"]
    response = as_role("reviewer").post(
        "decisions",
        interrupt.pk,
        body={"type": "edit", "value": {"amount": 7}, "reason": "Part of it."},
        headers={"If-Match": etag},
    )
    assert response.status_code == 202, response.content
    body = dict(response.json())
    decision = Decision.objects.get(interrupt=interrupt)
    assert body.pop("created_at").startswith("20")
    assert body == {
        "id": str(decision.pk),
        "interrupt": str(interrupt.pk),
        "version": 1,
        "type": "edit",
        "value": {"amount": 7, "approved": True},
        "reason": "Part of it.",
        "refusal": "",
        "by": decision.by_label,
        "claimed_by": "",
        "via": "api",
        "complete": True,
        "approvals": 1,
        "quorum": 1,
        "patch": body["patch"],
        "undone_at": None,
    }
    assert response["Location"].endswith(f"/hitl/api/v1/runs/{interrupt.run_id}/")
    assert decided(interrupt)
    assert Run.objects.get(pk=interrupt.run_id).state == Run.State.QUEUED
    assert api.get("decisions", interrupt.pk).json()["results"] == [response.json()]
    assert api.get("interrupt", interrupt.pk).json()["decision"] == response.json()


def test_run_detail_after_decision_shows_succeeded_state_and_result(api: Any, asked: Asked) -> None:
    interrupt = asked()
    waiting = api.get("run", interrupt.run_id).json()
    assert waiting["state"] == "interrupted"
    assert [row["id"] for row in waiting["interrupts"]] == [str(interrupt.pk)]
    assert "result" not in waiting

    api.post("decisions", interrupt.pk, body={"type": "approve"})
    runner.advance(str(interrupt.run_id))
    done = api.get("run", interrupt.run_id).json()
    assert done["state"] == "succeeded"
    assert done["interrupts"] == []
    assert done["result"] == {"amount": 12, "answer": {"amount": 12, "approved": True}}


def test_run_detail_result_is_unchanged_by_a_later_run_on_the_thread(
    api: Any, asked: Asked, invoice: str
) -> None:
    interrupt = asked()
    api.post("decisions", interrupt.pk, body={"type": "approve"})
    runner.advance(str(interrupt.run_id))
    thread_id = interrupt.thread.thread_id
    next_run = services.start(invoice, {"amount": 5}, thread_id=thread_id)
    assert api.get("run", interrupt.run_id).json()["result"]["amount"] == 12
    response = api.get("run", next_run.id)
    assert response.status_code == 200
    assert "result" not in response.json()


def test_run_detail_of_unregistered_graph_returns_200_without_result(
    api: Any, make_run: Any
) -> None:
    run = make_run(graph="long gone", state=Run.State.SUCCEEDED)
    response = api.get("run", run.pk)
    assert response.status_code == 200
    assert "result" not in response.json()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02T03:04:00Z"),
        (Decimal("1.50"), "1.50"),
        ({"a", "b"}, ["a", "b"]),
        (b"\x00\xff", "AP8="),
        (float("nan"), "NaN"),
        ({1: (2, 3)}, {"1": [2, 3]}),
    ],
)
def test_run_result_with_non_json_value_is_returned_as_json(
    api: Any, invoice: str, value: Any, shown: Any
) -> None:
    run = services.start(invoice, {"amount": 1, "silent": True, "answer": value})
    runner.advance(str(run.id))
    result = api.get("run", run.id).json()["result"]["answer"]
    assert (sorted(result) if isinstance(value, set) else result) == shown


def test_run_result_is_returned_only_with_state_permission(
    api: Any, as_role: Any, asked: Asked
) -> None:
    interrupt = asked()
    api.post("decisions", interrupt.pk, body={"type": "approve"})
    runner.advance(str(interrupt.run_id))
    assert "result" in as_role("auditor").get("run", interrupt.run_id).json()
    for role in ("viewer", "reviewer", "operator"):
        assert "result" not in as_role(role).get("run", interrupt.run_id).json()


@pytest.mark.promise("P1")
def test_second_decision_over_the_api_returns_409_with_the_first_decision(
    api: Any, as_role: Any, asked: Asked
) -> None:
    interrupt = asked()
    first = api.post("decisions", interrupt.pk, body={"type": "reject", "reason": "Twice."})
    second = as_role("reviewer").post("decisions", interrupt.pk, body={"type": "approve"})
    assert second.status_code == 409
    problem = second.json()
    assert (problem["code"], problem["interrupt_status"]) == ("already_decided", "decided")
    assert problem["decision"] == first.json()
    assert AuditEntry.objects.filter(verb="decide").count() == 1


@pytest.mark.promise("P1")
def test_decision_on_cancelled_interrupt_returns_409_with_status_and_without_decision(
    api: Any, asked: Asked
) -> None:
    interrupt = asked()
    assert api.post("run-cancel", interrupt.run_id).status_code == 200
    response = api.post("decisions", interrupt.pk, body={"type": "approve"})
    assert response.status_code == 409
    assert response.json()["interrupt_status"] == "cancelled"
    assert response.json()["decision"] is None


@pytest.mark.promise("P2")
def test_decision_repeated_with_its_idempotency_key_returns_the_first_response(
    api: Any, as_role: Any, asked: Asked
) -> None:
    interrupt = asked()
    body, key = {"type": "approve", "value": {"amount": 5}}, {"Idempotency-Key": "a-1"}
    first = api.post("decisions", interrupt.pk, body=body, headers=key)
    quoted = {"Idempotency-Key": '"a-1"'}
    for headers in (key, quoted):
        again = api.post("decisions", interrupt.pk, body=body, headers=headers)
        assert (again.status_code, again.content) == (202, first.content)
        assert again["Idempotent-Replayed"] == "true"
        assert again["Location"] == first["Location"]
    assert "Idempotent-Replayed" not in first
    assert Decision.objects.count() == 1

    other = api.post("decisions", interrupt.pk, body={"type": "reject"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    somebody = as_role("reviewer").post("decisions", interrupt.pk, body=body, headers=key)
    assert (somebody.status_code, somebody.json()["code"]) == (409, "already_decided")


@pytest.mark.promise("P2")
@pytest.mark.parametrize("form", ['W/"{}"', '"{}-gzip"', 'W/"{}-br"'])
def test_decision_with_etag_of_a_compressed_response_is_accepted_unless_stale(
    api: Any, asked: Asked, form: str
) -> None:
    interrupt, stale = asked(), asked()
    Interrupt.objects.filter(pk=stale.pk).update(version=2)
    tag = form.format(api.get("interrupt", interrupt.pk)["ETag"].strip('"'))
    send = partial(api.post, "decisions", headers={"If-Match": tag}, body={"type": "approve"})
    assert send(stale.pk).status_code == 412
    assert send(interrupt.pk).status_code == 202
    entry = {"interrupt": str(interrupt.pk), "etag": tag}
    assert parse_etag(entry["etag"]) == (interrupt.payload_digest, interrupt.version)


def test_decision_repeated_with_idempotency_key_and_if_match_returns_the_first_response(
    api: Any, asked: Asked
) -> None:
    interrupt = asked()
    headers = {
        "If-Match": api.get("interrupt", interrupt.pk)["ETag"],
        "Idempotency-Key": str(uuid.uuid4()),
    }
    first = api.post("decisions", interrupt.pk, body={"type": "approve"}, headers=headers)
    again = api.post("decisions", interrupt.pk, body={"type": "approve"}, headers=headers)
    assert (again.status_code, again.content) == (202, first.content)


def test_decision_with_stale_if_match_returns_412_and_decision_with_if_match_asterisk_is_accepted(
    api: Any, asked: Asked
) -> None:
    interrupt = asked()
    etag = api.get("interrupt", interrupt.pk)["ETag"]
    Interrupt.objects.filter(pk=interrupt.pk).update(version=2)
    response = api.post(
        "decisions", interrupt.pk, body={"type": "approve"}, headers={"If-Match": etag}
    )
    assert (response.status_code, response.json()["code"]) == (412, "stale_interrupt")
    assert not decided(interrupt)
    any_version = {"If-Match": "*"}
    response = api.post("decisions", interrupt.pk, body={"type": "approve"}, headers=any_version)
    assert response.status_code == 202


def test_decision_returns_412_for_if_match_tag_containing_comma_and_400_for_two_tags(
    api: Any, asked: Asked
) -> None:
    interrupt, tag = asked(), {"If-Match": '"a,b"'}
    response = api.post("decisions", interrupt.pk, body={"type": "approve"}, headers=tag)
    assert (response.status_code, response.json()["code"]) == (412, "stale_interrupt")
    two = {"If-Match": '"a", "b"'}
    response = api.post("decisions", interrupt.pk, body={"type": "approve"}, headers=two)
    assert response.status_code == 400


@pytest.mark.promise("P5")
@pytest.mark.parametrize("name", ["decisions", "decision-validate"])
@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"type": "edit", "value": {"amount": "7"}}, "/value/amount"),
        ({"type": "edit", "value": {"amount": 7.5}}, "/value/amount"),
        ({"type": "edit", "value": {"amount": 0}}, "/value/amount"),
        ({"type": "edit", "value": {"amount": None}}, "/value/amount"),
        ({"type": "edit", "value": {"amount": 7, "iban": "x"}}, None),
        ({"type": "edit"}, "/value"),
        ({"type": "edit", "value": [1]}, "/value"),
        ({"type": "approve", "value": 7}, "/value"),
        ({"type": "respond", "value": {"approved": True, "amount": 7}}, None),
    ],
)
def test_decision_and_validation_with_invalid_response_return_422_with_pointer(
    api: Any, asked: Asked, name: str, body: dict[str, Any], pointer: str | None
) -> None:
    interrupt = asked()
    response = api.post(name, interrupt.pk, body=body)
    assert response.status_code == 422, response.content
    problem = response.json()
    assert problem["code"] == "invalid_answer"
    if pointer is not None:
        assert pointer in [fault["pointer"] for fault in problem["errors"]]
    assert not decided(interrupt)
    assert Run.objects.get(pk=interrupt.run_id).state == Run.State.INTERRUPTED


def test_decision_on_interrupt_without_schema_accepts_any_json_value(
    api: Any, asked: Asked
) -> None:
    for value in (None, False, 0, "", [], {}, -0.0, 2**53, "😀", {"a": [1, {"b": None}]}):
        interrupt = asked(free=True)
        response = api.post("decisions", interrupt.pk, body={"type": "respond", "value": value})
        assert response.status_code == 202, response.content
        assert repr(response.json()["value"]) == repr(value)
        assert repr(Decision.objects.get(interrupt=interrupt).value) == repr(value)


def test_decision_validation_returns_the_resume_value_and_saves_no_decision(
    api: Any, asked: Asked
) -> None:
    interrupt = asked()
    body = {"type": "reject", "value": {"amount": 3}, "reason": "No."}
    response = api.post("decision-validate", interrupt.pk, body=body)
    assert response.status_code == 200
    assert response.json() == {"valid": True, "resume": {"amount": 3, "approved": False}}
    assert not decided(interrupt)
    assert not Decision.objects.exists()


def test_decision_validation_requires_reason_where_the_decision_requires_a_reason(
    api: Any, asked: Asked
) -> None:
    interrupt = asked(free=True)
    call = {"name": "send", "args": {}, "description": "Send it?"}
    rule = {"action_name": "send", "allowed_decisions": ["approve", "reject"]}
    Interrupt.objects.filter(pk=interrupt.pk).update(
        payload={"action_requests": [call], "review_configs": [rule]},
        dialect="hitl_request",
        allowed_decisions=["approve", "reject"],
    )
    body = {"type": "reject", "reason": "Not today."}
    checked = api.post("decision-validate", interrupt.pk, body=body).json()
    assert checked["resume"] == {"decisions": [{"type": "reject", "message": "Not today."}]}
    assert api.post("decisions", interrupt.pk, body=body).json()["value"] == checked["resume"]


def test_decision_given_as_resume_value_is_stored_with_derived_type(api: Any, asked: Asked) -> None:
    interrupt = asked()
    resume = {"approved": True, "amount": 7}
    checked = api.post("decision-validate", interrupt.pk, body={"resume": resume})
    assert checked.json() == {"valid": True, "resume": resume}
    wrong = {**resume, "amount": "7"}
    for name in ("decisions", "decision-validate"):
        refused = api.post(name, interrupt.pk, body={"resume": wrong})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_answer")
        assert [fault["pointer"] for fault in refused.json()["errors"]] == ["/resume/amount"]
    done = api.post("decisions", interrupt.pk, body={"resume": resume, "reason": "Part of it."})
    assert done.status_code == 202
    assert (done.json()["type"], done.json()["value"]) == ("edit", resume)
    assert done.json()["reason"] == "Part of it."


def test_decision_with_disallowed_type_returns_field_error_with_allowed_types(
    api: Any, asked: Asked
) -> None:
    interrupt = asked()
    item = {"interrupt": str(interrupt.pk), "type": "respond", "value": 1}
    (result,) = api.post("decisions-bulk", body={"decisions": [item]}).json()["results"]
    del item["interrupt"]
    alone = api.post("decisions", interrupt.pk, body=item).json()
    for told, pointer in ((alone, "/type"), (result["problem"], "/decisions/0/type")):
        (fault,) = told["errors"]
        assert (fault["pointer"], fault["code"]) == (pointer, "not_allowed")
        assert "Allowed: approve, edit, reject." in fault["detail"]


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({"type": "approve", "resume": True}, ["/resume"]),
        ({"value": 1, "resume": True}, ["/value"]),
        ({"reason": "x"}, ["/type"]),
    ],
)
def test_decision_body_with_both_type_and_resume_returns_400(
    api: Any, asked: Asked, body: Any, pointers: list[str]
) -> None:
    refused = api.post("decisions", asked().pk, body=body)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
    assert [fault["pointer"] for fault in refused.json()["errors"]] == pointers


def test_decision_validation_of_decided_interrupt_returns_409(api: Any, asked: Asked) -> None:
    interrupt = asked()
    services.decide(interrupt.pk, "approve")
    response = api.post("decision-validate", interrupt.pk, body={"type": "approve"})
    assert (response.status_code, response.json()["code"]) == (409, "already_decided")


def test_decision_list_of_pending_interrupt_is_empty(api: Any, asked: Asked) -> None:
    page = api.get("decisions", asked().pk).json()
    assert page == {"next": None, "previous": None, "results": []}


@pytest.mark.promise("P19")
def test_interrupt_detail_returns_markup_in_payload_as_unchanged_json_text(
    api: Any, make_interrupt: Any
) -> None:
    nasty = "<script>alert(1)</script>\u2028{{ 7*7 }} %s\r\nSet-Cookie: a=b"
    interrupt = make_interrupt(title=nasty[:300], payload={"<b>": nasty}, node="<i>")
    response = api.get("interrupt", interrupt.pk)
    assert response.json()["payload"] == {"<b>": nasty}
    assert response["Content-Type"] == "application/json"
    assert "Set-Cookie" not in response


def test_head_request_for_interrupt_and_options_request_for_decisions_return_no_body(
    api: Any, asked: Asked
) -> None:
    interrupt = asked()
    head = api.call("HEAD", "interrupt", interrupt.pk)
    assert (head.status_code, head.content) == (200, b"")
    assert head["ETag"]
    options = api.call("OPTIONS", "decisions", interrupt.pk)
    assert (options.status_code, options.content) == (204, b"")
    assert options["Allow"] == "GET, POST, HEAD, OPTIONS"


@pytest.mark.promise("P21")
@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**99])
def test_integer_above_64_bits_in_request_is_rejected_with_422_or_stored_without_rounding(
    api: Any, asked: Asked, number: int
) -> None:
    started = api.post("runs", body={"graph": "invoice", "input": {"amount": number}})
    assert started.status_code in (202, 422), started.content
    interrupt = asked(free=True)
    response = api.post("decisions", interrupt.pk, body={"type": "respond", "value": number})
    assert response.status_code in (202, 422), response.content
    if response.status_code == 202:
        runner.advance(str(interrupt.run_id))
        assert api.get("run", interrupt.run_id).json()["result"]["answer"] == number


def test_decision_with_atomic_requests_returns_422_if_invalid_and_409_if_already_decided(
    api: Any, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    interrupt = asked()
    refused = api.post("decisions", interrupt.pk, body={"type": "edit", "value": {"amount": 0}})
    assert refused.status_code == 422
    assert api.post("decisions", interrupt.pk, body={"type": "approve"}).status_code == 202
    assert api.post("decisions", interrupt.pk, body={"type": "approve"}).status_code == 409
    assert decided(interrupt)


def test_api_view_with_unexpected_exception_raises_the_exception(
    api: Any, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **options: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(services, "decide", broken)
    interrupt = asked()
    with pytest.raises(RuntimeError, match="a bug"):
        api.post("decisions", interrupt.pk, body={"type": "approve"})


@pytest.mark.promise("P4")
def test_interrupt_changed_after_decision_has_a_new_etag_and_changed_at(
    api: Any, asked: Asked
) -> None:
    interrupt = asked()
    before = api.get("interrupt", interrupt.pk)
    assert before.json()["changed_at"] is None
    Interrupt.objects.update(changed_at=interrupt.created_at)
    after = api.get("interrupt", interrupt.pk, headers={"If-None-Match": before["ETag"]})
    assert after.status_code == 200
    assert after.json()["changed_at"] == before.json()["created_at"]


@pytest.mark.promise("P5")
def test_interrupt_detail_after_rejection_by_graph_contains_the_rejected_decision(
    api: Any, asked: Asked
) -> None:
    interrupt = asked()
    services.decide(interrupt.pk, "approve", reason="fine")
    made = Decision.objects.get()
    Decision.objects.update(refusal="The amount is odd.")
    Interrupt.objects.update(status="pending", version=3, refused_version=made.version)
    shown = api.get("interrupt", interrupt.pk).json()
    assert shown["decision"] is None
    assert (shown["refused"]["id"], shown["refused"]["refusal"]) == (
        str(made.pk),
        "The amount is odd.",
    )


def test_decision_by_run_starter_returns_403_if_self_approval_is_forbidden(
    api: Any, asked: Asked
) -> None:
    interrupt = asked()
    user = get_user_model().objects.get(pk=api.client.session["_auth_user_id"])
    Run.objects.filter(pk=interrupt.run_id).update(started_by=user)
    Interrupt.objects.update(no_self_approval=True)
    for name in ("decisions", "decision-validate"):
        refused = api.post(name, interrupt.pk, body={"type": "approve"})
        assert (refused.status_code, refused.json()["code"]) == (403, "self_approval")
    assert not decided(interrupt)


@pytest.mark.promise("P1")
def test_approval_below_quorum_is_stored_as_incomplete_until_the_second_approval(
    api: Any, as_role: Any, asked: Asked
) -> None:
    interrupt = asked()
    Interrupt.objects.update(quorum=2)
    vote = api.post("decisions", interrupt.pk, body={"type": "approve"})
    assert (vote.status_code, vote.json()["complete"]) == (200, False)
    assert (vote.json()["approvals"], vote.json()["quorum"]) == (1, 2)
    again = api.post("decisions", interrupt.pk, body={"type": "approve"})
    assert (again.status_code, again.json()["code"]) == (409, "already_approved")
    assert not decided(interrupt)
    last = as_role("reviewer").post("decisions", interrupt.pk, body={"type": "approve"})
    assert (last.status_code, last.json()["complete"]) == (202, True)
    assert decided(interrupt)


def test_consecutive_api_requests_share_no_host_body_or_errors(api: Any, asked: Asked) -> None:
    interrupt = asked()
    for host in ("one.example", "two.example"):
        shown = api.get("interrupt", interrupt.pk, headers={"Host": host}).json()
        assert shown["url"].startswith(f"http://{host}/")
    body = {"type": "reject", "reason": "Too much."}
    refused = api.post("decisions", interrupt.pk, body={**body, "reson": ""})
    assert [fault["pointer"] for fault in refused.json()["errors"]] == ["/reson"]
    assert api.post("decisions", interrupt.pk, body=body).status_code == 202
    other = api.post("decisions", asked().pk, body={"type": "reject"}).json()
    assert other["reason"] == ""
