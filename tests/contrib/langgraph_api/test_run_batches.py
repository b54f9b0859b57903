"""Several runs in one request of LangGraph's client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langgraph_sdk.errors import APIStatusError, PermissionDeniedError, RateLimitError

from hitl_django.models import Run

pytestmark = pytest.mark.django_db(transaction=True)

RUN = {"assistant_id": "plain", "input": {"log": ["hello"]}}


def refuse(client: Any, items: Any) -> tuple[int, dict[str, Any]]:
    """Return the status and the problem of a batch that starts no run."""
    with pytest.raises(APIStatusError) as refused:
        client.http.post("/runs/batch", json=items)
    assert not Run.objects.exists()
    problem: Any = refused.value.body
    return refused.value.response.status_code, problem


def test_langgraph_batch_starts_all_runs_on_new_threads_in_order(client: Any) -> None:
    first, second = client.runs.create_batch(
        [RUN, {**RUN, "assistant_id": "chat", "metadata": {"a": 1}, "thread_id": None}]
    )
    assert first["thread_id"] != second["thread_id"]
    assert (first["status"], second["status"]) == ("success", "interrupted")
    assert second["metadata"] == {"a": 1, "graph_id": "chat"}
    assert client.runs.join(first["thread_id"], first["run_id"])["log"][0] == "hello"


@pytest.mark.parametrize(
    ("change", "status", "pointer", "words"),
    [
        ({"assistant_id": "unknown"}, 404, None, "No graph"),
        ({"assistant_id": ""}, 400, "/1/assistant_id", ""),
        ({"input": {"log": 7}}, 422, "/1/input/log", ""),
        ({"input": None}, 422, None, "input"),
        ({"thread_id": "a"}, 400, "/1/thread_id", ""),
        ({"command": {"resume": 1}}, 400, "/1/command", ""),
        ({"webhook": "https://shop.example"}, 501, None, "`webhook`"),
    ],
)
def test_langgraph_batch_with_invalid_run_names_its_index_and_starts_no_run(
    client: Any, change: dict[str, Any], status: int, pointer: str | None, words: str
) -> None:
    code, problem = refuse(client, [RUN, {**RUN, **change}, {**RUN, "assistant_id": "x"}])
    assert (code, [each["pointer"] for each in problem.get("errors", [])]) == (
        status,
        [] if pointer is None else [pointer],
    )
    assert problem["detail"].startswith("Run at index 1: ")
    assert words in problem["detail"]


@pytest.mark.parametrize(
    ("items", "pointer"),
    [({}, ""), ([], ""), ([RUN] * 101, ""), ([RUN, 7], "/1")],
    ids=["object", "empty", "many", "number"],
)
def test_langgraph_batch_that_is_not_a_list_of_runs_returns_400(
    client: Any, items: Any, pointer: str
) -> None:
    status, problem = refuse(client, items)
    assert (status, problem["errors"][0]["pointer"]) == (400, pointer)


def test_langgraph_batch_by_user_without_start_permission_starts_no_run(
    client_of: Callable[[Any], Any], make_user: Callable[..., Any]
) -> None:
    with pytest.raises(PermissionDeniedError):
        client_of(make_user("nina", "view_run")).runs.create_batch([RUN])
    assert not Run.objects.exists()


def test_langgraph_batch_counts_each_run_for_the_throttle(client: Any, settings: Any) -> None:
    settings.HITL = {**settings.HITL, "THROTTLE_START": "3/hour"}
    assert len(client.runs.create_batch([RUN, RUN])) == 2
    with pytest.raises(RateLimitError):
        client.runs.create_batch([RUN, RUN])
    assert Run.objects.count() == 2
