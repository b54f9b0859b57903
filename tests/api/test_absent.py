"""Objects hidden from the user: equal responses as for missing objects, for all methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from hitl_django import services
from hitl_django.api.urls import urlpatterns
from hitl_django.errors import IdempotencyKeyReusedError
from hitl_django.models import Run, Thread

from .addresses import NOBODYS, arguments, bodies

__all__ = ["arguments", "bodies"]  # fixtures

METHODS = ["GET", "HEAD", "OPTIONS", "PUT", "PATCH", "TRACE", "BREW", "POST", "DELETE"]
#: The permission that makes objects visible, by the first part of the URL.
HIDDEN_BY = {
    "threads": "view_thread",
    "runs": "view_run",
    "interrupts": "view_interrupt",
    "schedules": "view_schedule",
    "webhooks": "view_webhookendpoint",
    "deliveries": "view_webhookendpoint",
}
EVERYTHING = [
    "add_comment", "assign_interrupt", "decide_interrupt", "link_interrupt", "manage_schedules",
    "manage_webhooks", "operate_run", "start_run", "take_over_interrupt", "view_interrupt",
    "view_run", "view_schedule", "view_thread", "view_thread_state", "view_webhookendpoint",
]  # fmt: skip


def addresses_of_things() -> Iterator[Any]:
    for pattern in urlpatterns:
        root = str(pattern.pattern).partition("/")[0]
        if pattern.pattern.converters and root != "graphs":
            yield pytest.param(pattern.name, HIDDEN_BY[root], id=pattern.name)


@pytest.fixture
def absent(arguments: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    return {
        name: tuple(NOBODYS if len(str(place)) == len(NOBODYS) else "no-such" for place in places)
        for name, places in arguments.items()
    }


def answered(client: Any, method: str, name: str, places: tuple[Any, ...], body: Any) -> Any:
    # All requests have the same id, because problems contain the id.
    response = client.call(method, name, *places, body=body, HTTP_X_REQUEST_ID="one")
    return response.status_code, response.content


@pytest.mark.promise("P18")
@pytest.mark.parametrize(("name", "permission"), list(addresses_of_things()))
def test_api_request_with_any_method_for_hidden_object_returns_the_response_for_a_missing_object(
    name: str,
    permission: str,
    arguments: dict[str, tuple[Any, ...]],
    absent: dict[str, tuple[Any, ...]],
    bodies: dict[str, dict[str, Any]],
    make_user: Any,
    as_role: Any,
) -> None:
    # A user with all permissions except viewing. A permission to act doesn't include viewing.
    client = as_role("anonymous")
    client.client.force_login(make_user(*(each for each in EVERYTHING if each != permission)))
    for method in METHODS:
        for body in (None, bodies.get(name, {}), {"unheard-of": 1}):
            here = answered(client, method, name, arguments[name], body)
            nowhere = answered(client, method, name, absent[name], body)
            assert here == nowhere, method
            assert here[0] in (204, 400, 404, 405), method
    assert Thread.objects.exists()
    assert not Run.objects.filter(state=Run.State.CANCELLED).exists()


@pytest.mark.parametrize("pattern", urlpatterns, ids=lambda pattern: pattern.name)
def test_api_unsupported_method_returns_405_with_any_body(
    pattern: Any, api: Any, arguments: dict[str, tuple[Any, ...]]
) -> None:
    handled = set(pattern.callback.cls().allowed_methods)
    if "GET" in handled:
        handled.add("HEAD")
    for method in METHODS:
        if method in handled:
            continue
        for query, body in (("", None), ("a=1&a=2", None), ("", {}), ("page_size=x", b"{")):
            places = arguments[pattern.name]
            response = api.call(method, pattern.name, *places, query=query, body=body)
            assert response.status_code == 405, (method, query, body)
            assert set(response["Allow"].split(", ")) == handled
            if method != "HEAD":
                assert response.json()["code"] == "method_not_allowed"


def test_run_creation_with_key_of_run_of_another_user_returns_422_regardless_of_the_input(
    as_role: Any, make_user: Any, invoice: str
) -> None:
    secret = {"graph": invoice, "input": {"amount": 4711}, "key": "order-7"}
    assert as_role("starter").post("runs", body=secret).status_code == 202
    clients = [as_role("starter"), as_role("anonymous")]
    clients[1].client.force_login(make_user("start_run", "view_run"))  # regardless of the contents
    for stranger in clients:
        stranger.get("runs")  # later requests don't query the user's permissions and session
        answers, counts = [], []
        for amount in (4711, 12, 4711):
            with CaptureQueriesContext(connection) as seen:
                body = {**secret, "input": {"amount": amount}}
                response = stranger.post("runs", body=body, HTTP_X_REQUEST_ID="one")
            answers.append((response.status_code, response.content))
            counts.append(len(seen))
        assert answers[0][0] == 422
        assert len(set(answers)) == 1
        assert len(set(counts)) == 1  # the response time doesn't differ either


def test_start_with_key_of_run_of_another_user_raises_same_error_regardless_of_the_input(
    make_user: Any, invoice: str, db: None
) -> None:
    owner, other = make_user("start_run"), make_user("start_run")
    run = services.start(invoice, {"amount": 4711}, by=owner, key="order-7")
    assert services.start(invoice, {"amount": 4711}, by=owner, key="order-7").id == run.id
    assert services.start(invoice, {"amount": 4711}, key="order-7").id == run.id
    told = []
    for amount in (4711, 12):
        with pytest.raises(IdempotencyKeyReusedError) as caught:
            services.start(invoice, {"amount": amount}, by=other, key="order-7")
        told.append(str(caught.value))
    assert told[0] == told[1]
