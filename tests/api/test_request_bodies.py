"""Invalid bodies, headers and URLs: the reported location, limits, and no stored changes."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from hitl_django.models import AuditEntry, Decision, Interrupt, Run

pytestmark = [pytest.mark.promise("P21"), pytest.mark.django_db]

BAD_BYTES: list[tuple[str, bytes, int, str, str | None]] = [
    ("no body", b"", 400, "invalid_request", "/type"),
    ("an empty object", b"{}", 400, "invalid_request", "/type"),
    ("null", b"null", 400, "malformed_json", ""),
    ("a number", b"1", 400, "malformed_json", ""),
    ("a list", b'[{"type": "approve"}]', 400, "malformed_json", ""),
    ("half an object", b'{"type": "appr', 400, "malformed_json", ""),
    ("a trailing comma", b'{"type": "approve",}', 400, "malformed_json", ""),
    ("smart quotes", '{“type”: "approve"}'.encode(), 400, "malformed_json", ""),
    ("a BOM", b'\xef\xbb\xbf{"type": "approve"}', 400, "malformed_json", ""),
    ("UTF-16", '{"type": "approve"}'.encode("utf-16"), 400, "malformed_json", ""),
    ("invalid UTF-8", b'{"type": "\xff"}', 400, "malformed_json", ""),
    ("two keys", b'{"type": "reject", "type": "approve"}', 400, "malformed_json", "/type"),
    ("NaN", b'{"type": "respond", "value": [NaN]}', 400, "malformed_json", "/value/0"),
    ("Infinity", b'{"type": "respond", "value": -Infinity}', 400, "malformed_json", "/value"),
    ("1e400", b'{"type": "respond", "value": {"a": 1e400}}', 422, "unstorable_value", "/value/a"),
    ("NUL", b'{"type": "respond", "value": "\\u0000"}', 422, "unstorable_value", "/value"),
    ("a surrogate", b'{"type": "respond", "value": "\\ud800"}', 422, "unstorable_value", "/value"),
    (
        "a NUL in a key",
        b'{"type": "respond", "value": {"\\u0000": 1}}',
        422,
        "unstorable_value",
        "/value/\\u0000",
    ),
    (
        "5 000 digits",
        b'{"type": "respond", "value": ' + b"9" * 5000 + b"}",
        400,
        "malformed_json",
        "/value",
    ),
    ("an unknown field", b'{"type": "approve", "resum": 1}', 400, "invalid_request", "/resum"),
    (
        "a field of the model",
        b'{"type": "approve", "by": 1, "run_id": "x"}',
        400,
        "invalid_request",
        "/by",
    ),
    ("an unknown type", b'{"type": "Approve"}', 400, "invalid_request", "/type"),
    ("a type of another type", b'{"type": ["approve"]}', 400, "invalid_request", "/type"),
    ("type null", b'{"type": null}', 400, "invalid_request", "/type"),
    ("a reason of 1", b'{"type": "approve", "reason": 1}', 400, "invalid_request", "/reason"),
    ("a reason of true", b'{"type": "approve", "reason": true}', 400, "invalid_request", "/reason"),
    (
        "a very long reason",
        b'{"type": "approve", "reason": "' + b"x" * 10_001 + b'"}',
        400,
        "invalid_request",
        "/reason",
    ),
    (
        "33 levels",
        b'{"type": "respond", "value": ' + b"[" * 33 + b"]" * 33 + b"}",
        413,
        "too_large",
        None,
    ),
    ("990 levels", b'{"value": ' + b"[" * 990 + b"]" * 990 + b"}", 413, "too_large", None),
    ("100 000 levels", b"[" * 100_000, 413, "too_large", None),
    (
        "10 100 items",
        b'{"type": "respond", "value": [' + b"0," * 10_100 + b"0]}",
        413,
        "too_large",
        None,
    ),
    (
        "257 KiB",
        b'{"type": "respond", "value": "' + b"x" * 257 * 1024 + b'"}',
        413,
        "too_large",
        None,
    ),
    (
        "3 MB",
        b'{"type": "respond", "value": "' + b"x" * 3_000_000 + b'"}',
        413,
        "too_large",
        None,
    ),
]


@pytest.fixture
def interrupt(make_interrupt: Any) -> Interrupt:
    asked: Interrupt = make_interrupt()
    return asked


def nothing_happened(interrupt: Interrupt) -> bool:
    interrupt.refresh_from_db()
    return (
        interrupt.status == Interrupt.Status.PENDING
        and not Decision.objects.exists()
        and not AuditEntry.objects.exists()
    )


@pytest.mark.parametrize("name", ["decisions", "decision-validate"])
@pytest.mark.parametrize(
    ("raw", "status", "code", "pointer"),
    [pytest.param(*rest, id=title) for title, *rest in BAD_BYTES],
)
def test_decision_with_malformed_body_returns_error_with_code_and_pointer(
    api: Any,
    interrupt: Interrupt,
    name: str,
    raw: bytes,
    status: int,
    code: str,
    pointer: str | None,
) -> None:
    response = api.post(name, interrupt.pk, body=raw)
    assert (response.status_code, response.json()["code"]) == (status, code), response.content
    assert response["Content-Type"] == "application/problem+json"
    if pointer is not None:
        assert response.json()["errors"][0]["pointer"] == pointer
    assert len(response.content) < 20_000
    assert nothing_happened(interrupt)


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, ["/graph", "/input"]),
        ({"graph": "invoice"}, ["/input"]),
        ({"graph": 1, "input": {}}, ["/graph"]),
        ({"graph": "", "input": {}}, ["/graph"]),
        ({"graph": "x" * 201, "input": {}}, ["/graph"]),
        ({"graph": "invoice", "input": {}, "key": ""}, ["/key"]),
        ({"graph": "invoice", "input": {}, "key": None}, ["/key"]),
        ({"graph": "invoice", "input": {}, "key": "x" * 256}, ["/key"]),
        ({"graph": "invoice", "input": {}, "thread_id": 7}, ["/thread_id"]),
        ({"graph": "invoice", "input": {}, "thread_id": "x" * 256}, ["/thread_id"]),
        ({"graph": "invoice", "input": {}, "metadata": []}, ["/metadata"]),
        ({"graph": "invoice", "input": {}, "on_pending": "drop"}, ["/on_pending"]),
        ({"graph": "invoice", "input": {}, "state": "succeeded", "a/b": 1}, ["/state", "/a~1b"]),
    ],
)
def test_run_creation_reports_every_missing_or_invalid_field(
    api: Any, body: dict[str, Any], pointers: list[str]
) -> None:
    response = api.post("runs", body=body)
    assert response.status_code == 400, response.content
    assert [fault["pointer"] for fault in response.json()["errors"]] == pointers
    assert not Run.objects.exists()


def test_decision_error_response_does_not_contain_submitted_values(
    api: Any, interrupt: Interrupt
) -> None:
    response = api.post("decisions", interrupt.pk, body={"type": "hunter2", "reason": ["hunter2"]})
    assert response.status_code == 400
    assert b"hunter2" not in response.content


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "multipart/form-data",
        "application/xml",
        "application/jsonp",
        "nonsense",
        "/",
        "application/json/x; =",
    ],
)
def test_decision_with_content_type_other_than_json_returns_400_or_415(
    api: Any, interrupt: Interrupt, content_type: str
) -> None:
    response = api.post(
        "decisions", interrupt.pk, body=b'{"type": "approve"}', content_type=content_type
    )
    assert response.status_code in (400, 415), response.content
    assert response["Content-Type"] == "application/problem+json"
    assert nothing_happened(interrupt)


def test_get_of_decisions_with_method_override_header_lists_decisions_and_saves_none(
    api: Any, interrupt: Interrupt
) -> None:
    response = api.call(
        "GET", "decisions", interrupt.pk, headers={"X-HTTP-Method-Override": "POST"}
    )
    assert response.status_code == 200
    assert nothing_happened(interrupt)


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "x", "*/*", "a/b;q=z,,"])
def test_interrupt_detail_is_json_for_any_accept_header(
    api: Any, interrupt: Interrupt, accept: str
) -> None:
    response = api.get("interrupt", interrupt.pk, headers={"Accept": accept})
    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"


@pytest.mark.parametrize("host_limit", [1000, None])
def test_decision_above_data_upload_limit_of_the_project_returns_413(
    api: Any, interrupt: Interrupt, settings: Any, host_limit: int | None
) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = host_limit
    body = {"type": "nothing", "reason": "x" * 2000}
    response = api.post("decisions", interrupt.pk, body=body)
    assert response.status_code == (413 if host_limit else 400)


@pytest.mark.parametrize("key", ["", " ", '""', "x" * 256, "a b", "ключ", "a\tb", "x" * 10_000])
def test_decision_with_invalid_idempotency_key_returns_400_naming_the_header(
    api: Any, interrupt: Interrupt, key: str
) -> None:
    response = api.post(
        "decisions",
        interrupt.pk,
        body={"type": "approve"},
        headers={"Idempotency-Key": key.encode().decode("latin-1")},
    )
    assert response.status_code == 400, response.content
    assert response.json()["errors"][0]["header"] == "Idempotency-Key"
    assert nothing_happened(interrupt)


@pytest.mark.parametrize(
    ("tag", "status"),
    [
        ("", 400),
        ("garbage", 400),
        ('"a", "b"', 400),
        ('"1-x-pending"', 412),
        ('W/"1-' + "d" * 32 + '-pending"', 412),
        ('"2-' + "d" * 32 + '-pending"', 412),
        ('"1-' + "e" * 32 + '-pending"', 412),
        ('"99999999999999999999-' + "d" * 32 + '-pending"', 412),
        ('"' + "x" * 10_000 + '"', 412),
    ],
)
def test_decision_with_invalid_or_stale_if_match_returns_400_or_412(
    api: Any, interrupt: Interrupt, tag: str, status: int
) -> None:
    response = api.post(
        "decisions", interrupt.pk, body={"type": "approve"}, headers={"If-Match": tag}
    )
    assert response.status_code == status, response.content
    assert response.json()["code"] == ("stale_interrupt" if status == 412 else "invalid_request")
    assert nothing_happened(interrupt)


@pytest.mark.parametrize(
    "part",
    [
        "1",
        "../runs",
        "%2e%2e",
        "99999999999999999999999999",
        "1;DROP TABLE hitl_django_interrupt",
        "١٢٣",
        "x" * 10_000,
        "11111111-2222-4333-8444-55555555555",
        "11111111-2222-4333-8444-555555555555\n",
        "11111111-2222-4333-8444-55555555555A",
        "11111111222243338444555555555555",
        "\x00",
    ],
)
@pytest.mark.parametrize("kind", ["runs", "interrupts"])
def test_run_or_interrupt_url_with_invalid_id_returns_404_problem(
    api: Any, kind: str, part: str
) -> None:
    path = f"/hitl/api/v1/{kind}/{quote(part)}/"
    for response in (
        api.client.get(path),
        api.client.post(path, {}, content_type="application/json"),
        api.client.delete(f"{path}?x=1&x=2"),
    ):
        assert response.status_code == 404
        assert response["Content-Type"] == "application/problem+json"
        assert response.json()["code"] == "not_found"


def test_request_with_invalid_header_and_stale_etag_returns_400(
    api: Any, interrupt: Interrupt
) -> None:
    late = {"If-Match": '"none of ours"', "Idempotency-Key": "a b"}
    refused = api.post("decisions", interrupt.pk, body={"type": "approve"}, headers=late)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
    assert [fault["header"] for fault in refused.json()["errors"]] == ["Idempotency-Key"]


def test_url_without_trailing_slash_returns_404_with_a_hint(api: Any, interrupt: Interrupt) -> None:
    for path in (f"interrupts/{interrupt.pk}", "nothing/at/all"):
        answer = api.client.get(f"/hitl/api/v1/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert "end with a slash" in answer.json()["detail"]


def test_url_with_upper_case_id_returns_404(api: Any, make_interrupt: Any) -> None:
    make_interrupt(id="aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee")
    path = "/hitl/api/v1/interrupts/{}-bbbb-4ccc-8ddd-eeeeeeeeeeee/"
    assert api.client.get(path.format("aaaaaaaa")).status_code == 200
    assert api.client.get(path.format("AAAAAAAA")).status_code == 404


@pytest.mark.parametrize("name", ["nothing", "x" * 10_000, "a b", "%00", "é", ".."])
def test_graph_url_with_unknown_or_invalid_name_returns_404(api: Any, name: str) -> None:
    response = api.client.get(f"/hitl/api/v1/graphs/{quote(name)}/")
    assert response.status_code == 404


def test_endpoint_with_unexpected_query_parameter_returns_400(
    api: Any, interrupt: Interrupt
) -> None:
    for name, args in (
        ("interrupt", [interrupt.pk]),
        ("graphs", []),
        ("decisions", [interrupt.pk]),
    ):
        response = api.get(name, *args, query="expand=all")
        assert response.status_code == 400, name
        assert response.json()["errors"][0]["parameter"] == "expand"
    response = api.post("runs", body={"graph": "a", "input": 1}, query="page_size=1")
    assert response.status_code == 400


@pytest.mark.promise("P18")
class TestSession:
    """Requests with a browser's session, which need a CSRF token for writes."""

    @pytest.fixture
    def browser(self, make_user: Any) -> Client:
        client = Client(enforce_csrf_checks=True)
        client.force_login(make_user(is_superuser=True))
        return client

    def path(self, interrupt: Interrupt) -> str:
        return f"/hitl/api/v1/interrupts/{interrupt.pk}/decisions/"

    def test_session_request_without_csrf_token_returns_403(
        self, browser: Client, interrupt: Interrupt
    ) -> None:
        for headers in ({}, {"X-CSRFToken": "x" * 32}, {"Origin": "https://elsewhere.example"}):
            response = browser.post(
                self.path(interrupt),
                json.dumps({"type": "approve"}),
                content_type="application/json",
                headers=headers,
            )
            assert response.status_code == 403
            assert response["Content-Type"] == "application/problem+json"
        assert nothing_happened(interrupt)

    def test_session_form_post_without_csrf_token_returns_403(
        self, browser: Client, interrupt: Interrupt
    ) -> None:
        response = browser.post(self.path(interrupt), {"type": "approve"})
        assert response.status_code == 403
        assert nothing_happened(interrupt)

    def test_session_request_with_csrf_token_returns_field_errors_instead_of_403(
        self, browser: Client, interrupt: Interrupt
    ) -> None:
        browser.cookies["csrftoken"] = "a" * 32
        response = browser.post(
            self.path(interrupt),
            json.dumps({"type": "nothing"}),
            content_type="application/json",
            headers={"X-CSRFToken": "a" * 32},
        )
        assert response.status_code == 400
        assert response.json()["errors"][0]["pointer"] == "/type"

    def test_session_get_without_csrf_token_returns_200(
        self, browser: Client, interrupt: Interrupt
    ) -> None:
        assert browser.get(self.path(interrupt)).status_code == 200
