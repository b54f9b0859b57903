"""Table of attacks with expected responses and maximum costs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from hitl_django import services, testing
from hitl_django.models import AuditEntry, Interrupt, Thread
from tests.api.servers import HOST, USER

from .target import Answer, Target, user

KB, MB = 1024, 1024 * 1024
#: A user who can only view runs, and a user who can only start runs.
EVE, STARTER = "eve", "sam"
#: A user who can only view threads, and a user who can view all unrestricted objects.
LISTER, READER = "lara", "rhea"


@dataclass(frozen=True)
class Attack:
    """One row of the table.

    An attack fails if the response differs from the expected ones or costs more. ``seconds`` is the
    server's processor time. An attack with several requests returns the response to check, and
    asserts all other conditions itself.
    """

    name: str
    send: Callable[[Target], Answer]
    answers: frozenset[int]
    seconds: float
    #: Maximum number of body bytes that a server may read if it reads the body in parts. None means
    #: no limit.
    taken: int | None = None
    #: Maximum size of the response.
    most_bytes: int = 64 * KB


TABLE: list[Attack] = []
#: Maximum size that a server may read of a refused body, including bytes in buffers.
MOST_TAKEN = 24 * MB
#: A connection that is closed without a response also counts as a refusal.
CLOSED = 0


def attack(
    name: str, *answers: int, seconds: float = 1.0, **bounds: Any
) -> Callable[[Callable[[Target], Answer]], Callable[[Target], Answer]]:
    """Return a decorator that adds a row to the table."""

    def add(send: Callable[[Target], Answer]) -> Callable[[Target], Answer]:
        TABLE.append(Attack(name, send, frozenset(answers), seconds, **bounds))
        return send

    return add


def decide(target: Target, item: Interrupt, answer: Any) -> Answer:
    return target.ask("POST", f"interrupts/{item.pk}/decisions/", {"resume": answer})


# Unlimited work.


@attack("10,000 unique values", 202, 413, 422)
def _unique(target: Target) -> Answer:
    each = {"type": ["integer", "string"]}
    item = target.asking_for({"type": "array", "items": each, "uniqueItems": True})
    return decide(target, item, [n if n % 2 else str(n) for n in range(9_990)])


@attack("10,000 unique objects", 202, 413, 422)
def _unique_objects(target: Target) -> Answer:
    item = target.asking_for({"type": "array", "uniqueItems": True})
    return decide(target, item, [{"n": n} for n in range(4_990)])


@attack("a recursive union of the maximum depth", 202, 413, 422)
def _union(target: Target) -> Answer:
    part = {"$ref": "#/$defs/expr"}
    kinds = [
        {
            "type": "object",
            "properties": {"kind": {"type": "string"}, "of": part},
            "required": ["kind", "of"],
            "additionalProperties": False,
        }
        for _ in range(3)
    ]
    item = target.asking_for({"$defs": {"expr": {"anyOf": kinds}}, **part})
    value: Any = 1
    for _ in range(30):
        value = {"kind": "not", "of": value}
    return decide(target, item, value)


@attack("a pattern with catastrophic backtracking", 202, 413, 422)
def _pattern(target: Target) -> Answer:
    item = target.asking_for({"type": "string", "pattern": "^(a+)+$"})
    return decide(target, item, "a" * 40 + "!")


@attack("a request during four long polls of another user", 200)
def _polls(target: Target) -> Answer:
    run = target.interrupt().run
    path = f"runs/{run.pk}/events/?after={run.last_event + 5}&wait=25"
    held = [target.connection() for _ in range(4)]
    lines = [line.__enter__() for line in held]
    try:
        # gunicorn waits for a while until a client that requested "close" has closed the
        # connection.
        head = target.head("GET", f"/hitl/api/v1/{path}", target.basic(EVE), "keep-alive")
        for line in lines:
            line.sendall(head)
        # Wait until all requests have reached the server. Requests that it has not accepted block
        # nobody.
        threading.Event().wait(0.5)
        return timed(target, 3.0)
    finally:
        for one in held:
            one.__exit__(None, None, None)


def timed(target: Target, most: float) -> Answer:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(target.ask, "GET", "interrupts/").result(timeout=most)


@attack("a request during two slow uploads", 200)
def _slow(target: Target) -> Answer:
    told = {**target.basic(), "Content-Type": "application/json", "Content-Length": "1000"}
    head = target.head("POST", "/hitl/api/v1/runs/", told)
    with target.connection() as first, target.connection() as second:
        for line in (first, second):
            line.sendall(head + b"{")
        return timed(target, 3.0)


def upload(size: int) -> Iterator[bytes]:
    yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    for _ in range(size // (64 * KB)):
        yield b"a" * 64 * KB
    yield b"\r\n--x--\r\n"


def send_upload(target: Target, path: str, headers: dict[str, str]) -> Answer:
    size = sum(map(len, upload(60 * MB)))
    told = {"Content-Type": "multipart/form-data; boundary=x", "Content-Length": str(size)}
    return target.raw(target.head("POST", path, {**told, **headers}), upload(60 * MB))


@attack(
    "60 MB to a review link's page, anonymous", CLOSED, 403, 404, 413, seconds=6.0, taken=MOST_TAKEN
)
def _upload_to_link(target: Target) -> Answer:
    return send_upload(target, "/hitl/links/nonsense/", {})


@attack("60 MB to an admin page, anonymous", CLOSED, 302, 403, 413,
        seconds=6.0, taken=MOST_TAKEN)  # fmt: skip
def _upload_to_admin(target: Target) -> Answer:
    pk = target.interrupt().pk
    return send_upload(target, f"/admin/hitl_django/reviewitem/{pk}/change/", {})


@attack("60 MB to an admin page, without CSRF token", CLOSED, 403, 413,
        seconds=6.0, taken=MOST_TAKEN)  # fmt: skip
def _upload_without_token(target: Target) -> Answer:
    pk = target.interrupt().pk
    cookie = target.session()["Cookie"].partition(";")[0]
    path = f"/admin/hitl_django/reviewitem/{pk}/change/"
    return send_upload(target, path, {"Cookie": cookie})


@attack("an integer of 4,000 digits in a form", 200)
def _digits_in_form(target: Target) -> Answer:
    item = target.interrupt("attacked seats", title="How many?")
    answer = target.form(
        f"/admin/hitl_django/reviewitem/{item.pk}/change/",
        digest=item.payload_digest, version=item.version, decision="respond",
        **{"answer/seats": "9" * 4_000},
    )  # fmt: skip
    item.refresh_from_db()
    assert item.status == "pending", "the interrupt was decided"
    return answer


@attack("a details path of 4,400 digits", CLOSED, 200, 400, 404, 414)
def _digits_in_path(target: Target) -> Answer:
    pk = target.interrupt().pk
    return target.page(f"/admin/hitl_django/reviewitem/{pk}/change/?at=/rows/{'9' * 4_400}", USER)


@attack("a details path of 3,000 digits", 200, 404)
def _short_digits_in_path(target: Target) -> Answer:
    item = target.interrupt(payload={"title": "Pay?", "rows": [1, 2]})
    path = f"/admin/hitl_django/reviewitem/{item.pk}/change/?at=/rows/{'9' * 3_000}"
    return target.page(path, USER)


@attack("a store item with a TTL of 1e308 minutes", 400, 403, 422)
def _endless_item(target: Target) -> Answer:
    item = {"namespace": ["attacked"], "key": "k", "value": {"n": 1}, "ttl": 1e308}
    return target.ask("PUT", "/agent/store/items", item)


# Bodies without a length.


@attack("an assignment in chunks", 200, 411)
def _assign_in_chunks(target: Target) -> Answer:
    item = target.interrupt()
    Interrupt.objects.filter(pk=item.pk).update(assignee_label="nobody yet")
    answer = target.chunked(f"interrupts/{item.pk}/assign/", [b'{"to": ', b'"dana"}'])
    item.refresh_from_db()
    label = "dana" if answer.status == 200 else "nobody yet"
    assert item.assignee_label == label, f"assigned to {item.assignee_label!r}"
    return answer


@attack("a claim in chunks", 200, 411)
def _claim_in_chunks(target: Target) -> Answer:
    item = target.interrupt()
    answer = target.chunked(f"interrupts/{item.pk}/claim/", [b'{"seconds":', b" 60000}"])
    item.refresh_from_db()
    if answer.status == 200:
        held = item.claimed_until - AuditEntry.objects.latest("at").at
        assert held.total_seconds() > 50_000, "the claim has another length than requested"
    return answer


@attack("a claim of the next interrupt in chunks", 204, 411)
def _next_in_chunks(target: Target) -> Answer:
    target.interrupt()
    return target.chunked("interrupts/next/", [b'{"graph": "no', b' such"}'])


@attack("a cancel reason in chunks", 200, 411)
def _cancel_in_chunks(target: Target) -> Answer:
    item = target.interrupt()
    answer = target.chunked(f"runs/{item.run_id}/cancel/", [b'{"reason": "be', b'cause"}'])
    entry = AuditEntry.objects.filter(thread=item.thread_id, verb="cancel").first()
    assert answer.status != 200 or (entry and entry.detail.get("reason") == "because"), (
        "the reason is missing"
    )
    return answer


@attack("invalid JSON in chunks", 400, 411)
def _nonsense_in_chunks(target: Target) -> Answer:
    return target.chunked(f"interrupts/{target.interrupt().pk}/claim/", [b"{", b"nonsense"])


@attack("30 MB in chunks", CLOSED, 400, 411, 413, seconds=6.0, taken=MOST_TAKEN)
def _much_in_chunks(target: Target) -> Answer:
    parts = [b'{"reason": "', *[b"a" * 64 * KB] * 480, b'"}']
    return target.chunked(f"runs/{target.interrupt().run_id}/cancel/", parts)


# Leaks in responses.


@attack("erasure of a hidden thread", 404)
def _erase(target: Target) -> Answer:
    item = target.interrupt()
    Thread.objects.filter(pk=item.thread_id).update(ended_at=item.created_at)
    assert target.ask("GET", f"threads/{item.thread.thread_id}/", by=EVE).status == 404
    hidden = f"threads/{item.thread.thread_id}/"
    answer = target.ask("DELETE", hidden, by=EVE, X_Request_ID="one")
    nothing = target.ask("DELETE", "threads/nothing/", by=EVE, X_Request_ID="one")
    assert answer.text == nothing.text, "the response differs for a hidden thread"
    return answer


@attack("a used idempotency key with a guessed body", 422)
def _guess(target: Target) -> Answer:
    right: dict[str, Any] = {"graph": "plain", "key": "attacked", "input": {"payload": "secret"}}
    services.start("plain", right["input"], key="attacked")
    wrong, answer = (
        target.ask("POST", "runs/", {**right, "input": payload}, by=STARTER, X_Request_ID="one")
        for payload in ({"payload": "other"}, right["input"])
    )
    assert (wrong.status, wrong.text) == (answer.status, answer.text), (
        "the response confirms the guess"
    )
    return answer


@attack("TRACE with a parameter", 405, 501)
def _trace(target: Target) -> Answer:
    return target.ask("TRACE", "runs/?nonsense=1")


@attack("webhooks to internal addresses", 400, 422)
def _addresses(target: Target) -> Answer:
    hosts = ("[fec0::1]", "[3fff::1]", "192.88.99.1", "1.1.1.1:0", "127.0.0.1", "169.254.169.254",
             "[::ffff:10.0.0.1]", "[64:ff9b::a00:1]", "0.0.0.0")  # fmt: skip
    answers = [target.ask("POST", "webhooks/", {"url": f"https://{host}/"}) for host in hosts]
    passed = [
        host for host, one in zip(hosts, answers, strict=True) if one.status not in (400, 422)
    ]
    assert not passed, f"accepted: {passed}"
    return answers[0]


@attack("searches for hidden error texts of runs", 200)
def _errors(target: Target) -> Answer:
    run = target.failed("ValueError: zqsecreterrorqz")
    lists = [
        target.page(f"/admin/hitl_django/run/{what}", EVE) for what in ("", f"{run.pk}/change/")
    ]
    api = [target.ask("GET", f"runs/{what}", by=EVE) for what in ("", f"{run.pk}/")]
    assert all("zqsecreterrorqz" not in one.text for one in (*lists, *api)), (
        "the response contains the error"
    )
    return lists[1]


@attack("searches for the reviewer of a restricted request", 200)
def _decider(target: Target) -> Answer:
    item = target.interrupt("attacked reserved", title="zqreservedqz")
    services.decide(item.pk, "approve", by=user("zqkeeperqz", is_superuser=True))
    pages = [
        target.page(f"/admin/hitl_django/run/{item.run_id}/change/", EVE),
        target.page(f"/admin/hitl_django/thread/{item.thread_id}/change/", "theo"),
    ]
    for page in pages:
        assert page.status == 200
        assert "zqkeeperqz" not in page.text, "the response names the reviewer"
    return pages[0]


# The LangGraph-compatible API.


def post(target: Target, path: str, body: dict[str, Any], by: str) -> Answer:
    return target.ask("POST", f"/agent/{path}", body, by=by)


@attack("a thread search with 24,000 metadata keys, no visible thread", 400, seconds=0.5)
def _many_keys(target: Target) -> Answer:
    metadata = {f"k{n}": n for n in range(24_000)}
    return post(target, "threads/search", {"metadata": metadata}, STARTER)


@attack("a thread count with 1,100 metadata keys", 400, seconds=0.5)
def _keys_to_count(target: Target) -> Answer:
    metadata = {f"k{n}": n for n in range(1_100)}
    return post(target, "threads/count", {"metadata": metadata}, LISTER)


@attack("a thread search with a filter of the maximum size", 200, seconds=0.5)
def _large_filter(target: Target) -> Answer:
    target.interrupt()
    tags: Any = [{"tag": [n]} for n in range(15)]
    Thread.objects.update(metadata={"tags": tags})
    answer = post(target, "threads/search", {"metadata": {"tags": tags}, "limit": 1}, LISTER)
    assert len(json.loads(answer.text)) == 1, "the thread was not found"
    return answer


@attack("1,000 threads in one response", 400, seconds=0.5)
def _many_threads(target: Target) -> Answer:
    return post(target, "threads/search", {"limit": 1_000}, LISTER)


@attack("30 large states in one response", 200, seconds=1.0, most_bytes=4 * MB)
def _large_states(target: Target) -> Answer:
    with testing.inline() as advance:
        for _ in range(30):
            services.start("plain", {"payload": {"title": "Pay?", "text": "x" * 150 * KB}})
        advance()
    return post(target, "threads/search", {"limit": 200}, USER)


@attack("interrupts of a restricted graph in state and events", 200)
def _reserved_interrupt(target: Target) -> Answer:
    item = target.interrupt("attacked reserved", title="zqreservedqz")
    thread, run = item.thread.thread_id, item.run_id
    shown = []
    for path in (f"threads/{thread}/state", f"threads/{thread}/history?limit=1"):
        answer = target.ask("GET", f"/agent/{path}", by=READER)
        assert answer.status == 200
        state = json.loads(answer.text)
        shown += [state[0] if isinstance(state, list) else state]
    assert not any(state["interrupts"] or state["tasks"][0]["interrupts"] for state in shown)
    stream = f"/agent/threads/{thread}/runs/{run}/stream?stream_mode=updates"
    events = target.ask("GET", stream, by=READER, Last_Event_ID="-1")
    assert events.status == 200
    answer = target.ask("GET", f"runs/{run}/events/", by=READER)
    for text in (events.text, answer.text):
        assert "__interrupt__" in text, "no event for interrupts"
        assert "zqreservedqz" not in text, "the response contains the interrupt"
    return answer


@attack("filters by the status of hidden runs", 200)
def _hidden_status(target: Target) -> Answer:
    target.failed("ValueError")
    for path in ("threads/search", "threads/count"):
        answer = post(target, path, {"status": "error"}, LISTER)
        assert answer.text in ("[]", "0"), f"{path} leaks hidden runs"
    return answer


# Secrets.


def quietly(answer: Answer) -> Answer:
    assert "no-store" in answer.headers.get("cache-control", ""), "the response may be cached"
    assert "default-src 'none'" in answer.headers.get("content-security-policy", ""), (
        "no Content Security Policy"
    )
    return answer


@attack("a review link's form without its cookie", 200, 302, 400, 403)
def _no_cookie(target: Target) -> Answer:
    return quietly(target.form(target.link(), by=None, decision="nonsense"))


@attack("an unsupported method for a review link", 405)
def _other_method(target: Target) -> Answer:
    return quietly(target.send("PUT", target.link(), {}, b"x"))


@attack("a malformed form of a review link", 400, 403)
def _broken_form(target: Target) -> Answer:
    told = {"Content-Type": "multipart/form-data"}
    answer = target.send("POST", target.link(), told, b"--x")
    # daphne itself refuses the request, with an empty response.
    return answer if answer.status == 400 and not answer.text else quietly(answer)


@attack("a review link's form with too many fields", 403, 413)
def _many_fields(target: Target) -> Answer:
    told = {"Content-Type": "application/x-www-form-urlencoded"}
    return quietly(target.send("POST", target.link(), told, b"&".join([b"a=1"] * 5_000)))


@attack("a review link's URL with a suffix", 404)
def _longer_link(target: Target) -> Answer:
    return quietly(target.send("GET", target.link()[:-1] + "x/", {}))


# Bodies.


BODIES: dict[str, tuple[bytes, tuple[int, ...]]] = {
    "100,000 nested lists": (b"[" * 100_000 + b"]" * 100_000, (400, 413, 422)),
    "100,000 nested objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, (400, 413, 422)),
    "a duplicate key": (b'{"type": "reject", "type": "approve"}', (400,)),
    "NUL": (b'{"resume": "\\u0000"}', (400, 422)),
    "a lone surrogate": (b'{"resume": "\\ud800"}', (400, 422)),
    "1e400": (b'{"resume": 1e400}', (400, 422)),
    "NaN": (b'{"resume": NaN}', (400,)),
    "5,000 digits": (b'{"resume": ' + b"9" * 5_000 + b"}", (400, 422)),
    "3 MB": (b'{"resume": "' + b"a" * 3 * MB + b'"}', (CLOSED, 413)),
    "200,000 values": (b'{"resume": [' + b"1," * 200_000 + b"1]}", (413, 422)),
    "invalid UTF-8": (b'{"resume": "\xff\xfe"}', (400,)),
    "UTF-16": ('{"resume": 1}'.encode("utf-16"), (400,)),
    "an empty body": (b"", (400,)),
    "unknown members": (b'{"type": "approve", "user": 1, "state": "x"}', (400,)),
}  # fmt: skip


def _body_row(name: str, data: bytes, answers: tuple[int, ...]) -> None:
    @attack(f"a decision of {name}", *answers)
    def _send(target: Target) -> Answer:
        item = target.interrupt()
        answer = target.ask("POST", f"interrupts/{item.pk}/decisions/", data)
        item.refresh_from_db()
        assert item.status == "pending", "the interrupt was decided"
        return answer


for _name, (_data, _answers) in BODIES.items():
    _body_row(_name, _data, _answers)


@attack("a form instead of JSON", 415)
def _form_to_api(target: Target) -> Answer:
    told = {**target.basic(), "Content-Type": "application/x-www-form-urlencoded"}
    path = f"/hitl/api/v1/interrupts/{target.interrupt().pk}/decisions/"
    return target.send("POST", path, told, b"type=approve")


@attack("a session without CSRF token", 403)
def _forged(target: Target) -> Answer:
    item = target.interrupt()
    told = {**target.session(), "Content-Type": "application/json"}
    body = json.dumps({"type": "approve"}).encode()
    answer = target.send("POST", f"/hitl/api/v1/interrupts/{item.pk}/decisions/", told, body)
    item.refresh_from_db()
    assert item.status == "pending", "the interrupt was decided"
    return answer


# URLs and headers.


def _address_row(name: str, path: str, *answers: int, page: bool = False) -> None:
    @attack(name, *answers, most_bytes=256 * KB)
    def _send(target: Target) -> Answer:
        return target.page(path, "dana") if page else target.ask("GET", path)


ADMIN = "/admin/hitl_django/"
_address_row("an id of 10 kB", f"threads/{'a' * 10_000}/", CLOSED, 400, 404, 414)
_address_row("an id that climbs", "threads/..%2f..%2fadmin%2f/", 404)
_address_row("an id with NUL", "threads/%00/", 400, 404)
_address_row("a page far away", "interrupts/?page=1000000000", 400)
_address_row("a page of many", "interrupts/?page_size=1000000000", 400)
_address_row("a cursor of nonsense", "interrupts/?cursor=W3t9XQ", 400)
_address_row("a filter by somebody's making", "runs/?started_by__password__startswith=a", 400)
_address_row("an order by somebody's making", "runs/?ordering=-started_by__password", 400)
_address_row("a query of 100 kB", "interrupts/?search=" + "a" * 100_000, CLOSED, 400, 414, 431)
_address_row("a search with NUL", "interrupts/?search=%00", 200, 400, 422)
_address_row("a page of the admin far away", f"{ADMIN}run/?p=1000000000", 200, 302, page=True)
_address_row("a search of the admin with NUL", f"{ADMIN}run/?q=%00", 200, 302, 400, page=True)
_address_row("a filter of the admin with NUL", f"{ADMIN}run/?graph=a%00b", 400, page=True)
_address_row("a kept filter with NUL", f"{ADMIN}run/?_changelist_filters=a%2500", 400, page=True)
_address_row("a lookup of the admin", f"{ADMIN}run/?traceback__contains=a", 302, 400, page=True)
_address_row("a search of the admin of 3 kB", f"{ADMIN}run/?q={'a%20' * 1_000}", 200, 302, 400,
             page=True)  # fmt: skip


# Some servers accept any number of headers. The request must then be cheap.
@attack("a header of 100 kB", CLOSED, 200, 400, 431, seconds=0.5)
def _long_header(target: Target) -> Answer:
    return target.ask("GET", "interrupts/", X_Long="a" * 100_000)


@attack("5,000 headers", CLOSED, 200, 400, 431, seconds=0.5)
def _many_headers(target: Target) -> Answer:
    return target.ask("GET", "interrupts/", **{f"X_{n}": "a" for n in range(5_000)})


@attack("an idempotency key of 10 kB", CLOSED, 400, 422, 431)
def _long_key(target: Target) -> Answer:
    path = f"interrupts/{target.interrupt().pk}/decisions/"
    return target.ask("POST", path, {"type": "approve"}, Idempotency_Key="k" * 10_000)


def smuggled(target: Target, headers: str, body: bytes) -> Answer:
    """Send a request that contains another request in its body.

    The inner request must never be answered.
    """
    token = target.basic()["Authorization"]
    head = (
        f"POST /hitl/api/v1/decisions/bulk/ HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: {token}\r\n"
        f"Content-Type: application/json\r\n{headers}\r\n\r\n"
    )
    inner = (
        f"GET /hitl/api/v1/workers/health/ HTTP/1.1\r\nHost: {HOST}\r\n"
        f"Authorization: {token}\r\nConnection: close\r\n\r\n"
    )
    answer = target.raw(head.encode() + body + inner.encode())
    assert b"queued" not in answer.raw, "the smuggled request got a response"
    return answer


@attack("a smuggled request, two Content-Length headers", CLOSED, 400)
def _two_lengths(target: Target) -> Answer:
    return smuggled(target, "Content-Length: 2\r\nContent-Length: 300", b"{}")


@attack("a smuggled request, Content-Length and chunks", CLOSED, 400)
def _length_and_chunks(target: Target) -> Answer:
    return smuggled(target, "Content-Length: 300\r\nTransfer-Encoding: chunked", b"0\r\n\r\n")


@attack("chunks with an invalid length", CLOSED, 400, 411, 413)
def _no_number(target: Target) -> Answer:
    path = f"/hitl/api/v1/interrupts/{target.interrupt().pk}/claim/"
    told = {**target.basic(), "Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    return target.raw(target.head("POST", path, told), [b"zz\r\n{}\r\n0\r\n\r\n"])


@attack("malformed credentials", 401, 403)
def _wrong_name(target: Target) -> Answer:
    return target.ask("GET", "interrupts/", by=None, Authorization="Basic " + "=" * 1_000)
