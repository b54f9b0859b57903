"""A complete review with an HTTP client and a live server."""

from __future__ import annotations

import base64
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from django.contrib.auth import get_user_model

from hitl_django.models import Decision

INLINE = {"DISPATCH": "hitl_django.task_queue.dispatcher.InlineDispatcher"}


class Client:
    """Client with basic authentication and JSON, like curl in the API guide."""

    def __init__(self, server: str, user: str, password: str) -> None:
        self.root = f"{server}/hitl/api/v1/"
        credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
        self.headers = {"Authorization": f"Basic {credentials}"}

    def send(self, path: str, body: Any = None, **headers: str) -> tuple[int, Any, Any]:
        """Return status, headers and parsed body. ``path`` may be a link from a response."""
        address = path if path.startswith("http") else self.root + path
        request = Request(address, headers={**self.headers, **headers})
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urlopen(request, timeout=120) as response:
                return response.status, response.headers, json.load(response)
        except HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.headers, json.load(refusal)


@pytest.fixture
def client(live_server: Any, invoice: str, settings: Any) -> Client:
    settings.HITL = INLINE
    get_user_model().objects.create_superuser("dana", password="open sesame")
    return Client(live_server.url, "dana", "open sesame")


def test_http_client_starts_a_run_decides_its_interrupt_and_reads_the_result_on_a_live_server(
    client: Client,
) -> None:
    status, headers, run = client.send("runs/", {"graph": "invoice", "input": {"amount": 12}})
    assert status == 202
    assert headers["Location"] == run["url"]

    status, _, page = client.send(f"interrupts/?graph=invoice&run={run['id']}")
    assert status == 200
    (row,) = page["results"]
    assert row["title"] == "Pay 12 EUR?"

    status, headers, interrupt = client.send(row["url"])
    assert status == 200
    assert interrupt["payload"]["amount"] == 12

    decision = {"type": "edit", "value": {"amount": 10}, "reason": "As agreed."}
    conditions = {"If-Match": headers["ETag"], "Idempotency-Key": "1"}
    status, headers, answered = client.send(row["url"] + "decisions/", decision, **conditions)
    assert status == 202
    assert answered["by"] == "dana"

    status, _, run = client.send(headers["Location"])
    assert status == 200
    assert run["state"] == "succeeded"
    assert run["result"]["answer"] == {"amount": 10, "approved": True}
    assert client.send("interrupts/")[2]["results"] == []


def test_live_server_response_to_wrong_password_is_problem_json(
    client: Client, live_server: Any
) -> None:
    status, headers, problem = Client(live_server.url, "dana", "wrong").send("runs/")
    assert status in (401, 403)
    assert headers["Content-Type"] == "application/problem+json"
    assert problem["code"] == "authentication_failed"


@pytest.mark.promise("P1")
@pytest.mark.promise("P2")
def test_concurrent_decisions_on_a_live_server_store_only_the_first(client: Client) -> None:
    client.send("runs/", {"graph": "invoice", "input": {"amount": 12}})
    (row,) = client.send("interrupts/")[2]["results"]

    def decide(number: int) -> tuple[int, Any, Any]:
        body = {"type": "edit", "value": {"amount": number + 1}}
        return client.send(row["url"] + "decisions/", body, **{"Idempotency-Key": str(number % 5)})

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(decide, range(10)))
    winner = Decision.objects.get()
    accepted = [body for status, _, body in answers if status == 202]
    assert [body["id"] for body in accepted] == [str(winner.pk)]
    for status, _, body in answers:
        assert (status, body.get("code")) in {
            (202, None),
            (409, "already_decided"),
            (422, "idempotency_key_reused"),
        }
        if status == 409:
            assert body["decision"]["id"] == str(winner.pk)


def test_decision_with_truncated_body_on_live_server_returns_400_and_leaves_interrupt_pending(
    client: Client, live_server: Any
) -> None:
    client.send("runs/", {"graph": "invoice", "input": {"amount": 12}})
    (row,) = client.send("interrupts/")[2]["results"]
    path = row["url"].removeprefix(live_server.url) + "decisions/"
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: {client.headers['Authorization']}",
        "Content-Type: application/json",
        "Content-Length: 1000",
        "Connection: close",
        "",
        '{"type": "approve"',
    ]
    address = (live_server.thread.host, live_server.thread.port)
    with socket.create_connection(address, timeout=120) as connection:
        connection.sendall("\r\n".join(lines).encode())
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 400")
    assert client.send(row["url"])[2]["status"] == "pending"
