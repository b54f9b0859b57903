"""Server information, authentication and unsupported endpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from django.contrib.auth import get_user_model
from django.test import override_settings
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import AuthenticationError, PermissionDeniedError, RateLimitError

from hitl_django import END, START, StateGraph
from hitl_django.engine.types import RunnableConfig
from hitl_django.graph_registry import registry
from hitl_django.models import Run

from .conftest import Chat

pytestmark = pytest.mark.django_db(transaction=True)


def find_user(key: str) -> Any:
    """Return the user of a key, like a project's own function."""
    return get_user_model().objects.filter(username=key.removeprefix("key of ")).first()


@pytest.fixture
def http(client: Any) -> httpx.Client:
    found: httpx.Client = client.http.client
    return found


def test_langgraph_ok_endpoint_is_public_and_info_endpoint_requires_authentication(
    address: str,
) -> None:
    assert httpx.get(f"{address}/ok").json() == {"ok": True}
    assert httpx.get(f"{address}/info").status_code in (401, 403)


def test_langgraph_info_endpoint_reports_assistants_flag(http: httpx.Client) -> None:
    assert http.get("info").json()["flags"]["assistants"] is True


def test_langgraph_api_key_authenticates_its_user_only_while_the_user_is_active(
    address: str, admin: Any, settings: Any
) -> None:
    with (
        get_sync_client(url=address, api_key="key of dana") as client,
        get_sync_client(url=address, api_key="key of nobody") as stranger,
    ):
        with pytest.raises((AuthenticationError, PermissionDeniedError)):
            client.threads.create()
        settings.HITL = {**settings.HITL, "API_KEY_USER_RESOLVER": f"{__name__}.find_user"}
        assert client.threads.create()["status"] == "idle"
        with pytest.raises((AuthenticationError, PermissionDeniedError)):
            stranger.threads.create()
        get_user_model().objects.update(is_active=False)
        with pytest.raises((AuthenticationError, PermissionDeniedError)):
            client.threads.create()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "runs/cancel"),
        ("POST", "threads/prune"),
        ("GET", "threads/a/stream"),
        ("DELETE", "threads/a/runs/1f1e7b85-c9de-68c2-974c-7429a8843ceb"),
    ],
)
def test_langgraph_unsupported_endpoint_returns_501_problem(
    http: httpx.Client, method: str, path: str
) -> None:
    answer = http.request(method, path, json=[] if path.endswith("batch") else {})
    assert answer.status_code == 501
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "not_supported"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("runs", {"assistant_id": "plain", "input": {}, "webhook": "https://example.org"}),
        ("runs", {"assistant_id": "plain", "input": {}, "after_seconds": 5}),
        ("threads", {"ttl": {"ttl": 5}}),
        ("threads/search", {"values": {"a": 1}}),
    ],
)
def test_langgraph_unsupported_body_field_returns_501_naming_the_field(
    http: httpx.Client, path: str, body: Any
) -> None:
    answer = http.post(path, json=body)
    assert answer.status_code == 501
    assert list(body)[-1] in answer.json()["detail"]


def test_langgraph_unsupported_body_field_with_empty_value_is_accepted(http: httpx.Client) -> None:
    body = {"assistant_id": "plain", "input": {"log": []}, "config": {"configurable": {}}}
    assert http.post("runs", json={**body, "context": {}, "webhook": None}).status_code == 200


def test_langgraph_unknown_url_returns_404_problem(http: httpx.Client) -> None:
    for path in ("nonsense", "threads/", "threads/a/nonsense", ""):
        answer = http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_langgraph_run_creation_above_the_rate_limit_for_starts_returns_429(
    client: Any, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "THROTTLE_START": "1/hour"}
    client.runs.create(None, "plain", input={"log": []})
    with pytest.raises(RateLimitError):
        client.runs.create(None, "plain", input={"log": []})


def test_langgraph_too_large_body_returns_413_and_malformed_body_returns_code_malformed_json(
    http: httpx.Client,
) -> None:
    with override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=1000):
        body = {"assistant_id": "plain", "input": {"log": ["x" * 2000]}}
        assert http.post("runs", json=body).status_code == 413
    kind = {"Content-Type": "application/json"}
    assert http.post("runs", content=b"{", headers=kind).json()["code"] == "malformed_json"


def test_langgraph_anonymous_request_to_any_url_returns_401_or_403(
    address: str, make_user: Callable[..., Any]
) -> None:
    for path in ("assistants/plain", "threads/a", "threads/a/state", "store/items", "nonsense"):
        assert httpx.get(f"{address}/{path}").status_code in (401, 403)


def test_langgraph_run_stores_context_config_and_authenticated_user(
    http: httpx.Client, admin: Any
) -> None:
    body = {
        "assistant_id": "plain",
        "input": {"log": []},
        "metadata": {"a": 1},
        "config": {
            "configurable": {
                "tenant": "t1", "thread_id": "x", "__private": 1,
                "user_id": "someone else", "langgraph_auth_user": {"identity": "root"},
            },
            "tags": ["a"],
            "metadata": {"a": 2, "b": 3},
            "recursion_limit": 25,
        },
        "context": {"user_id": "ann"},
    }  # fmt: skip
    run = Run.objects.get(pk=http.post("runs", json=body).json()["run_id"])
    assert run.options["context"] == {"user_id": "ann"}
    assert run.options["metadata"] == {"a": 1, "b": 3}
    assert (run.options["tags"], run.options["recursion_limit"]) == (["a"], 25)
    configurable = run.options["configurable"]
    assert "thread_id" not in configurable
    assert "__private" not in configurable
    assert (configurable["tenant"], configurable["user_id"]) == ("t1", str(admin.pk))
    assert configurable["langgraph_auth_user"]["identity"] == str(admin.pk)
    assert configurable["assistant_id"]


def test_langgraph_run_config_reaches_nodes_and_limits_super_steps(http: httpx.Client) -> None:
    def show(state: Any, config: RunnableConfig) -> Any:
        return {"log": [*config["tags"], config["configurable"]["tenant"]]}

    graph = StateGraph(Chat).add_node("a", show).add_node("b", show).add_node("c", show)
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c").add_edge("c", END)
    registry.register("shown")(graph.compile)
    config = {"tags": ["a"], "configurable": {"tenant": "t1"}, "recursion_limit": 5}
    body = {"assistant_id": "shown", "input": {"log": []}, "config": config}
    assert http.post("runs/wait", json=body).json()["log"] == ["a", "t1"] * 3
    low = {**body, "config": {**config, "recursion_limit": 1}}
    assert "Recursion limit" in str(http.post("runs/wait", json=low).json()["__error__"])
    for limit, status in ((0, 400), (10**6, 422)):
        refused = http.post("runs", json={**body, "config": {"recursion_limit": limit}})
        assert (refused.status_code, "recursion_limit" in refused.text) == (status, True)


def test_langgraph_resume_accepts_unchanged_config_and_refuses_changed_config(
    http: httpx.Client,
) -> None:
    """Clients such as AG-UI send their config with every request."""
    config = {"configurable": {"tenant": "t1"}, "tags": ["a"], "recursion_limit": 25}
    body = {"assistant_id": "chat", "config": config, "context": {"a": 1}}
    begun = http.post("runs", json={**body, "input": {"log": []}}).json()
    path = f"threads/{begun['thread_id']}/runs/wait"
    resume = {**body, "command": {"resume": {"approved": True}}}
    for change in ({"context": {"a": 2}}, {"config": {"configurable": {"tenant": "t2"}}}):
        assert http.post(path, json={**resume, **change}).status_code == 501
    assert http.post(path, json=resume).json()["answer"] == {"approved": True}
