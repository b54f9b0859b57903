"""Invalid input over HTTP: the reported location, bounded cost, and no stored changes.

The time of each request is in the report of the test run (``-rP``). Memory is limited.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from hitl_django.models import AuditEntry, Decision, Interrupt, Run, Thread

from .conftest import API
from .test_request_bodies import BAD_BYTES

pytestmark = [pytest.mark.promise("P21"), pytest.mark.django_db]

MB = 1024 * 1024
#: Maximum size of a response to invalid input, in addition to the size of the input.
MOST = 50 * MB
#: Maximum processor time in seconds, which only quadratic algorithms exceed.
TOO_LONG = 30.0
JSON = "application/json"
#: Pattern with catastrophic backtracking.
SLOW_PATTERN = {"type": "string", "pattern": "^(a+)+$"}


@dataclass(frozen=True)
class Case:
    """A request and its expected response. {…} in the path is an existing object."""

    title: str
    path: str
    status: int
    code: str | None
    method: str = "POST"
    body: bytes | Callable[[], bytes] = b'{"type": "approve"}'
    type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)


DECIDE = "interrupts/{question}/decisions/"


def repeated(before: bytes, unit: bytes, times: int, after: bytes = b"") -> Callable[[], bytes]:
    return lambda: before + unit * times + after


SIZES = [
    Case("100 MB of text", DECIDE, 413, "too_large",
         body=repeated(b'{"type": "respond", "value": "', b"x", 100 * MB, b'"}')),
    Case("a million keys", DECIDE, 413, "too_large",
         body=lambda: b"{" + b",".join(b'"%d":1' % n for n in range(1_000_000)) + b"}"),
    Case("100 000 levels of objects", DECIDE, 413, "too_large",
         body=repeated(b"", b'{"a":', 100_000)),
    Case("2 000 levels", DECIDE, 413, "too_large",
         body=repeated(b'{"value":', b"[", 2000, b"]" * 2000 + b"}")),
    Case("990 levels to start with", "runs/", 413, "too_large",
         body=repeated(b'{"graph":"invoice","input":', b"[", 990, b"]" * 990 + b"}")),
    Case("a megabyte of backslashes", DECIDE, 400, "malformed_json",
         body=repeated(b'{"', b"\\", MB)),
    Case("a megabyte of a name", "runs/", 400, "invalid_request",
         body=repeated(b'{"input": {}, "graph": "', b"x", MB - 100, b'"}')),
    Case("10 000 unknown fields", DECIDE, 400, "invalid_request",
         body=lambda: b"{" + b",".join(b'"k%d":1' % n for n in range(10_000)) + b"}"),
    Case("101 decisions", "decisions/bulk/", 400, "invalid_request",
         body=repeated(b'{"decisions": [', b'{"type": "approve", "interrupt": "x"},', 100,
                       b'{"type": "approve", "interrupt": "x"}]}')),
    Case("a pattern that backtracks, and a long answer", "interrupts/{slow}/decisions/", 422,
         "invalid_answer", body=repeated(b'{"type": "respond", "value": "', b"a", 100_000, b'!"}')),
]  # fmt: skip
FORMS = [
    Case("a form", DECIDE, 415, "unsupported_media_type", body=b"type=approve",
         type="application/x-www-form-urlencoded"),
    Case("many parts", DECIDE, 415, "unsupported_media_type",
         type="multipart/form-data; boundary=x"),
    Case("JSONP", DECIDE + "?callback=steal", 400, "invalid_request"),
    Case("another method by a header", DECIDE, 200, None, method="GET",
         headers={"X-HTTP-Method-Override": "POST"}),
    Case("another method by a parameter", DECIDE + "?_method=POST", 400, "invalid_request",
         method="GET"),
    Case("another format", "interrupts/?format=api", 400, "invalid_request", method="GET"),
    Case("a token in the address", "interrupts/?token=x", 400, "invalid_request", method="GET"),
]  # fmt: skip
ADDRESSES = [
    Case(title, f"{kind}/{part}/", 404, "not_found", method="GET")
    for kind in ("runs", "interrupts")
    for title, part in {
        "an id in upper case": "AAAAAAAA-BBBB-4CCC-8DDD-EEEEEEEEEEEE",
        "an id that nothing has": "11111111-2222-4333-8444-555555555555",
        "a number that overflows": "9" * 40,
        "a path": "..%2f..%2fetc%2fpasswd",
        "10 kB": "x" * 10_000,
        "SQL": "1'%20OR%20'1'='1",
        "unicode digits": "%D9%A1%D9%A2",
        "NUL": "%00",
    }.items()
]
STATES = [
    Case("a question that was answered", "interrupts/{decided}/decisions/", 409, "already_decided"),
    Case("a question that was withdrawn", "interrupts/{cancelled}/decisions/", 409,
         "already_decided"),
    Case("a question of a parked run", "interrupts/{parked}/decisions/", 409, "run_state"),
    Case("a run that is no question", "interrupts/{run}/decisions/", 404, "not_found"),
    Case("a run to cancel that is through", "runs/{through}/cancel/", 409, "run_state", body=b"{}"),
    Case("a run to retry that waits", "runs/{run}/retry/", 409, "run_state", body=b"{}"),
    Case("a start on a thread that waits", "runs/", 409, "thread_waiting",
         body=b'{"graph": "invoice", "input": {"amount": 1}, "thread_id": "{thread}"}'),
]  # fmt: skip
KEYS = [
    Case(f"an idempotency key: {title}", DECIDE, 400, "invalid_request",
         headers={"Idempotency-Key": key})
    for title, key in {"empty": "", "10 kB": "k" * 10_000, "blanks": "a b"}.items()
]  # fmt: skip
QUERIES = [
    Case(query[:40], f"interrupts/?{query}", 400, "invalid_request", method="GET")
    for query in (
        "_connector=OR",
        "_negated=true",
        "status__regex=.*",
        "thread__owner__password__startswith=a",
        "ordering=-thread__runs__started_by__password",
        "ordering=?",
        "graph=a&graph=b",
        "page=1000000000",
        "page_size=1000000000",
        "cursor=" + "A" * 10_000,
        "search=%00",
        "search=" + "%25" * 201,
        "subject=auth.user:1%00",
        "created_after=9999-12-31T23:59:59-23:59",
    )
]
BODIES = [Case(title, DECIDE, status, code, body=raw) for title, raw, status, code, _ in BAD_BYTES]
#: Requests rejected for their form, without a query.
UNHEARD = [*SIZES, *FORMS, *KEYS]
CATALOGUE = [
    *(pytest.param(case, id=case.title, marks=pytest.mark.any_database) for case in UNHEARD),
    *(pytest.param(case, id=case.title) for case in [*BODIES, *ADDRESSES, *STATES, *QUERIES]),
]


@pytest.fixture
def things(asked: Callable[..., Interrupt], make_run: Any, make_interrupt: Any) -> dict[str, str]:
    """Create interrupts and runs in each state that rejects an action."""
    interrupt = asked()
    return {
        "question": str(interrupt.pk),
        "run": str(interrupt.run_id),
        "thread": interrupt.thread.thread_id,
        "slow": str(make_interrupt(response_schema=SLOW_PATTERN).pk),
        "decided": str(make_interrupt(status=Interrupt.Status.DECIDED).pk),
        "cancelled": str(make_interrupt(status=Interrupt.Status.CANCELLED).pk),
        "parked": str(make_interrupt(make_run(state=Run.State.PARKED)).pk),
        "through": str(make_run(state=Run.State.SUCCEEDED).pk),
    }


def everything() -> tuple[Any, ...]:
    """Return all rows that a request could have changed."""
    return (
        list(Interrupt.objects.order_by("pk").values_list("pk", "status", "version")),
        list(Run.objects.order_by("pk").values_list("pk", "state")),
        Thread.objects.count(),
        Decision.objects.count(),
        AuditEntry.objects.count(),
    )


def filled(text: str, things: dict[str, str]) -> str:
    for name, value in things.items():
        text = text.replace(f"{{{name}}}", value)
    return text


@pytest.mark.parametrize("case", CATALOGUE)
def test_every_listed_faulty_request_returns_a_short_problem_quickly_and_changes_no_row(
    case: Case, api: API, things: dict[str, str]
) -> None:
    body = case.body() if callable(case.body) else case.body
    if len(body) < 10_000:
        body = filled(body.decode("latin-1"), things).encode("latin-1")
    path = "/hitl/api/v1/" + filled(case.path, things)
    before = everything()

    tracemalloc.start()
    start = time.process_time()
    response = api.client.generic(
        case.method, path, b"" if case.method == "GET" else body, case.type, headers=case.headers
    )
    took = time.process_time() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"{case.title}: {1000 * took:.1f} ms, {peak // 1024} KiB")

    assert response.status_code == case.status, response.content[:1000]
    if case.code is not None:
        assert response["Content-Type"] == "application/problem+json"
        assert response.json()["code"] == case.code
    assert len(response.content) < 20_000
    assert took < TOO_LONG
    assert peak - len(body) < MOST  # the test client keeps a copy of the body
    assert everything() == before


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS"])
@pytest.mark.parametrize("kind", ["runs", "interrupts"])
def test_head_and_options_responses_of_hidden_object_equal_those_of_missing_object(
    as_role: Any, things: dict[str, str], kind: str, method: str
) -> None:
    hidden = things["run" if kind == "runs" else "question"]
    client = as_role("nobody").client
    given = {"X-Request-ID": "r1"}
    answers = [
        client.generic(method, f"/hitl/api/v1/{kind}/{name}/", headers=given)
        for name in (hidden, "11111111-2222-4333-8444-555555555555")
    ]
    assert answers[0].status_code == answers[1].status_code
    for answer in answers:
        answer.headers.pop("RateLimit", None)  # the second worker has one request less
    assert dict(answers[0].headers) == dict(answers[1].headers)


@pytest.mark.promise("P18")
@pytest.mark.parametrize(
    "authorization",
    [
        "Basic",
        "Basic !",
        "Basic " + "A" * 100_000,
        "Basic ZGFuYQ==",
        "Basic ZGFuYTp3cm9uZw==",
        "Basic ZGFuYTp4, Basic ZGFuYTp5",
        "Basic \u00ff",
    ],
)
def test_request_with_invalid_authorization_header_returns_401_or_403(
    things: dict[str, str], authorization: str
) -> None:
    response = API().client.post(
        f"/hitl/api/v1/interrupts/{things['question']}/decisions/",
        b'{"type": "approve"}',
        content_type=JSON,
        headers={"Authorization": authorization},
    )
    assert response.status_code in (401, 403), response.content
    assert response["Content-Type"] == "application/problem+json"
    assert not Decision.objects.exists()
