"""Chunked bodies sent over the network to real servers."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from hitl_django.models import AuditEntry, Decision, Interrupt

from .servers import HOST, PASSWORD, PATIENCE, USER, Server
from .test_event_servers import begin

pytestmark = [
    pytest.mark.promise("P21"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.process,
]

KINDS = ["gunicorn", "gunicorn sync", "uvicorn", "daphne", "hypercorn"]
#: Under ASGI, Django reads the complete body before the view sees the request.
READS_ALL = {"uvicorn", "daphne", "hypercorn"}
TOKEN = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    get_user_model().objects.create_superuser(USER, password=PASSWORD)
    started = Server(request.param, tmp_path / "log")
    yield started
    started.stop()


@pytest.fixture
def interrupt(server: Server) -> Interrupt:
    return Interrupt.objects.get(run=begin())


def chunked(body: bytes, size: int = 7) -> bytes:
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)


END = b"0\r\n\r\n"
IN_CHUNKS = ("Transfer-Encoding: chunked",)


def ask(
    server: Server,
    path: str,
    raw: bytes,
    headers: tuple[str, ...] = IN_CHUNKS,
    *,
    media: str = "application/json",
    hang_up: bool = False,
) -> tuple[int, Any]:
    """Send a POST with these bytes. Return status and body, or 0 without a response."""
    lines = [
        f"POST /hitl/api/v1/{path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Basic {TOKEN}",
        f"Content-Type: {media}",
        "Connection: close",
        *headers,
    ]
    answer = b""
    with socket.create_connection((HOST, server.port), timeout=PATIENCE) as line:
        line.sendall("\r\n".join([*lines, "", ""]).encode() + raw)
        if hang_up:
            line.shutdown(socket.SHUT_WR)
        try:
            while more := line.recv(65536):
                answer += more
        except ConnectionResetError:
            pass  # some servers reset the connection if a part of the body is unread
    if not answer:
        return 0, None
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"chunked" in head.lower():
        body = b"".join(body.split(b"\r\n")[1::2])
    status = int(head.split()[1])
    return status, json.loads(body) if b"json" in head else body


@pytest.mark.parametrize("server", KINDS, indirect=True)
def test_chunked_body_sent_to_a_real_server_is_read_completely(
    server: Server, interrupt: Interrupt
) -> None:
    rita = get_user_model().objects.create_superuser("rita")
    place = f"interrupts/{interrupt.pk}"

    def tell(name: str, body: Any) -> tuple[int, Any]:
        return ask(server, name, chunked(json.dumps(body).encode()) + END)

    status, shown = tell(f"{place}/assign/", {"to": "rita"})
    assert (status, shown["assignee"]) == (200, "rita")
    assert tell("interrupts/next/", {"graph": "another"}) == (204, b"")
    assert tell(f"{place}/claim/", {"seconds": "many"})[0] == 400
    assert ask(server, f"{place}/claim/", END)[0] == 200  # like a request without a body
    interrupt.refresh_from_db()
    assert interrupt.assignee == rita

    # Limits, strict parsing and the media type apply to the body.
    assert ask(server, f"{place}/assign/", chunked(b'{"to": ') + END)[0] == 400
    assert ask(server, f"{place}/assign/", chunked(b"{}") + END, media="text/plain")[0] == 415
    before = AuditEntry.objects.count()
    large = chunked(b" " * 1_200_000, 60_000)
    # Without reading the body, the view doesn't wait for the end of the body.
    ended = END if server.kind in READS_ALL else b""
    status, problem = ask(server, f"{place}/assign/", large + ended)
    assert (status, problem["code"]) == (413, "too_large")
    assert AuditEntry.objects.count() == before

    status, _ = tell(f"runs/{interrupt.run_id}/cancel/", {"reason": "They withdrew it."})
    assert status == 200
    last = AuditEntry.objects.order_by("-pk").values_list("verb", "detail").first()
    assert last is not None
    assert (last[0], last[1]["reason"]) == ("cancel", "They withdrew it.")


BROKEN = [
    ("it ends without its last chunk", chunked(b'{"type": "approve"}'), IN_CHUNKS),
    ("it ends within a chunk", b"ff\r\n" + b'{"type": "approve"}', IN_CHUNKS),
    ("a size is not a number", b'zz\r\n{"type": "approve"}\r\n' + END, IN_CHUNKS),
    ("a size is negative", b'-13\r\n{"type": "approve"}\r\n' + END, IN_CHUNKS),
    ("a chunk is longer than it says characters", b'2\r\n{"type": "approve"}\r\n' + END, IN_CHUNKS),
    (
        "two lengths",
        chunked(b'{"type": "approve"}') + END,
        ("Content-Length: 19", "Content-Length: 5", *IN_CHUNKS),
    ),
    (
        "a length that is none",
        b'{"type": "approve"}',
        ("Content-Length: 19a",),
    ),
    ("a negative length", b'{"type": "approve"}', ("Content-Length: -19",)),
    ("another coding", b'{"type": "approve"}', ("Transfer-Encoding: gzip",)),
    (
        "a length that breaks off",
        b'{"type": "approve"}',
        ("Content-Length: 1900",),
    ),
]


def smuggled(path: str) -> bytes:
    return (
        f"POST /hitl/api/v1/{path} HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Basic {TOKEN}\r\nContent-Type: application/json\r\n"
        'Content-Length: 19\r\n\r\n{"type": "approve"}'
    ).encode()


@pytest.mark.parametrize("server", KINDS, indirect=True)
def test_broken_or_ambiguous_body_sent_to_a_real_server_saves_no_decision(
    server: Server, interrupt: Interrupt
) -> None:
    path = f"interrupts/{interrupt.pk}/decisions/"
    for what, raw, headers in BROKEN:
        status, _ = ask(server, path, raw, headers, hang_up=True)
        assert status == 0 or 400 <= status < 502, what
        assert not Decision.objects.exists(), what

    raw, release = END + smuggled(path), f"interrupts/{interrupt.pk}/release/"
    for length in (0, 4, len(raw)):
        both = (f"Content-Length: {length}", *IN_CHUNKS)
        for headers in (both, both[::-1]):
            ask(server, release, raw, headers, hang_up=True)
            assert not Decision.objects.exists(), headers
