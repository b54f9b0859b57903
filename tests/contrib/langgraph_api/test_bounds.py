"""Maximum costs of requests, for all senders and contents."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from hitl_django import services, testing
from hitl_django.contrib.langgraph_api import thread_states, threads
from hitl_django.contrib.store import DjangoStore
from hitl_django.engine.errors import PayloadLimitError
from hitl_django.models import ChannelBlob, Thread

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("graphs")]

Call = Callable[..., tuple[Any, int]]


@pytest.fixture
def call_as() -> Callable[[Any], Call]:
    """Post to the LangGraph-compatible API as a user. Return the response and its queries."""

    def sign_in(user: Any) -> Call:
        client = Client()
        client.force_login(user)

        def call(path: str, **body: Any) -> tuple[Any, int]:
            with CaptureQueriesContext(
                connection,
            ) as queries:
                response = client.post(
                    f"/agent/{path}", json.dumps(body), content_type="application/json"
                )
            return response, len(queries)

        return call

    return sign_in


@pytest.fixture
def call(call_as: Callable[[Any], Call], admin: Any) -> Call:
    return call_as(admin)


def start(graph: str, count: int) -> list[str]:
    with testing.inline() as advance:
        runs = [services.start(graph, {"log": ["hello"]}) for _ in range(count)]
        advance()
    return [run.thread_id for run in runs]


MANY = {f"k{n}": n for n in range(24_000)}
DEEP: Any = {"a": {"a": {"a": {"a": {"a": {"a": 1}}}}}}


@pytest.mark.parametrize("path", ["threads/search", "threads/count", "assistants/search"])
@pytest.mark.parametrize("metadata", [MANY, DEEP, {"a": "x" * 5_000}], ids=["keys", "deep", "long"])
def test_search_with_too_large_or_deep_metadata_filter_returns_400(
    call: Call, path: str, metadata: Any
) -> None:
    response, _ = call(path, metadata=metadata)
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == "/metadata"


def test_thread_search_without_permissions_returns_no_threads_and_adds_no_queries(
    call_as: Callable[[Any], Call], make_user: Callable[..., Any]
) -> None:
    start("chat", 1)
    call = call_as(make_user("nina"))
    _, usual = call("threads/search")
    response, queries = call("threads/search", metadata={"a": 1}, status="idle", sort_by="status")
    assert (response.json(), queries) == ([], usual)
    assert call("threads/count", metadata={"a": 1}, status="idle")[0].json() == 0


def test_store_search_with_1100_filter_keys_finds_the_matching_item() -> None:
    store, value = DjangoStore(), {f"k{n}": f"v{n}" for n in range(1_100)}
    store.put(("a",), "match", value)
    store.put(("a",), "other", {**value, "k1099": "different"})
    assert [item.key for item in store.search(("a",), filter=value)] == ["match"]


def test_thread_search_query_count_is_constant_for_two_and_eight_threads(call: Call) -> None:
    start("chat", 2)
    select = {"select": ["thread_id", "status", "interrupts", "metadata", "updated_at"]}
    few, queries = call("threads/search", **select)
    start("chat", 6)
    many, same = call("threads/search", **select)
    assert (len(few.json()), len(many.json())) == (2, 8)
    assert all(len(each["interrupts"]) == 1 for each in many.json())
    assert queries == same


@pytest.mark.slow
def test_thread_search_reads_states_of_all_threads_in_constant_queries(call: Call) -> None:
    """Long lists are stored in parts, and wide states separately from their versions."""
    long = start("chat", 3)
    with testing.inline() as advance:
        for thread in long:
            for number in range(40):
                services.update_state(thread, {"log": [f"{number} " + "x" * 100]}, as_node="greet")
            services.update_state(thread, {"answer": thread}, as_node="greet")
        services.start("plain", {"log": ["y" * 5_000]})
        advance()
    _, first = call("threads/search", limit=3)
    all_, queries = call("threads/search", limit=4)
    start("outer", 1)
    shown = call("threads/search")[0].json()
    for each in shown:
        assert each["values"] == services.thread_state(each["thread_id"]).values
    assert {each["values"].get("answer") for each in all_.json()} == {None, *long}
    assert first == queries


def test_thread_search_returns_no_values_for_thread_with_damaged_data(call: Call) -> None:
    sound, damaged = start("plain", 1) + start("plain", 1)
    ChannelBlob.objects.filter(thread__thread_id=damaged).update(data=b"damaged")
    shown = {each["thread_id"]: each["values"] for each in call("threads/search")[0].json()}
    assert shown == {sound: services.thread_state(sound).values, damaged: None}


def test_thread_search_returns_values_of_at_most_the_allowed_number_of_threads(
    call: Call, monkeypatch: Any
) -> None:
    start("chat", 6)
    monkeypatch.setattr(threads, "MAX_STATES", 4)
    shown = call("threads/search")[0].json()
    assert [each["values"] is not None for each in shown] == [True] * 4 + [False] * 2
    monkeypatch.setattr(threads, "MAX_BYTES", 70)
    shown = call("threads/search")[0].json()
    asked = [[asked["value"] for (asked,) in each["interrupts"].values()] for each in shown]
    assert asked[-4:] == [[{"title": "Continue?"}]] * 4  # the oldest first
    assert asked[:2] == [[None]] * 2
    assert all(each["values"] is None for each in shown)


def test_thread_search_selecting_ids_and_metadata_reads_no_runs(call: Call) -> None:
    start("chat", 3)
    with CaptureQueriesContext(connection) as queries:
        response, _ = call("threads/search", select=["thread_id", "metadata"])
    assert len(response.json()) == 3
    assert not [each for each in queries if "hitl_django_run" in each["sql"]]


def test_thread_search_by_status_ignores_runs_hidden_from_the_user(
    call_as: Callable[[Any], Call], make_user: Callable[..., Any]
) -> None:
    asking, failed = start("chat", 1) + start("failing", 1)
    call = call_as(make_user("rita", "view_thread"))
    for status in ("busy", "interrupted", "error"):
        assert call("threads/search", status=status)[0].json() == []
        assert call("threads/count", status=status)[0].json() == 0
    found = call("threads/search", status="idle", select=["thread_id"])[0].json()
    assert {each["thread_id"] for each in found} == {asking, failed}
    seeing = call_as(make_user("ruth", "view_thread", "view_run"))
    (found,) = seeing("threads/search", status="error")[0].json()
    assert found["thread_id"] == failed
    assert Thread.objects.count() == 2


def test_thread_metadata_of_20000_characters_returns_413(call: Call) -> None:
    (thread,) = start("chat", 1)
    large = {"note": "x" * 20_000}
    assert call("threads", metadata=large)[0].status_code == 413
    with pytest.raises(PayloadLimitError, match="metadata"):
        services.change_metadata(thread, large)
    assert Thread.objects.get().metadata == {}


def test_thread_history_at_byte_limit_returns_one_state_and_can_be_continued(
    call: Call, monkeypatch: Any
) -> None:
    (thread,) = start("chat", 1)
    whole = call(f"threads/{thread}/history")[0].json()
    monkeypatch.setattr(thread_states, "MAX_BYTES", 1)
    first = call(f"threads/{thread}/history")[0].json()
    assert first == whole[:1]
    before = first[0]["checkpoint"]
    assert call(f"threads/{thread}/history", before=before)[0].json() == whole[1:2]


def test_thread_history_with_limit_of_the_react_hook_returns_states(
    call: Call, monkeypatch: Any
) -> None:
    """LangGraph's ``useStream`` requests 1,000 states unless it has another limit."""
    (thread,) = start("chat", 1)
    whole = call(f"threads/{thread}/history", limit=1000)[0].json()
    assert len(whole) > 2
    monkeypatch.setattr(thread_states, "MAX_COMPARED", 2)
    assert call(f"threads/{thread}/history", limit=1000)[0].json() == whole[:2]
    assert call(f"threads/{thread}/history", limit=1001)[0].status_code == 400


def test_thread_history_filter_compares_a_limited_number_of_checkpoints(
    call: Call, monkeypatch: Any
) -> None:
    (thread,) = start("chat", 1)
    oldest = {"metadata": {"step": -1}}
    assert len(call(f"threads/{thread}/history", **oldest)[0].json()) == 1
    monkeypatch.setattr(thread_states, "MAX_COMPARED", 2)
    assert call(f"threads/{thread}/history", **oldest)[0].json() == []
