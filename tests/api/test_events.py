"""Run events over the API: pages, streams and permissions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import islice
from typing import Any

import pytest
from django.db.models import F

from hitl_django import END, START, StateGraph, services
from hitl_django.api import event_stream, waiting_response
from hitl_django.engine.task.node_api import get_stream_writer
from hitl_django.graph_registry import registry
from hitl_django.models import Run, RunEvent, Thread
from hitl_django.worker import retention, runner
from hitl_django.worker.sweeper import sweep

from .conftest import Invoice, ask

STREAM = {"HTTP_ACCEPT": "text/event-stream"}
#: A server whose processes have several threads.
THREADS = {"wsgi.multithread": True}


@pytest.fixture(autouse=True)
def brief(settings: Any) -> None:
    settings.HITL = {**settings.HITL, "EVENT_WAIT_SECONDS": 0.05, "EVENT_POLL_SECONDS": 0.01}


@pytest.fixture
def chatty(db: None) -> Iterator[str]:
    """Register a graph that emits all kinds of events and interrupts once."""

    def say(state: Invoice) -> Invoice:
        get_stream_writer()({"checked": state["amount"]})
        return {"amount": state["amount"] + 1}

    @registry.register("chatty", events=["values", "updates", "custom", "tasks", "checkpoints"])
    def build() -> Any:
        graph = StateGraph(Invoice)
        graph.add_node("say", say).add_node("ask", ask)
        return graph.add_edge(START, "say").add_edge("say", "ask").add_edge("ask", END)

    yield "chatty"
    registry.unregister("chatty")


@pytest.fixture
def told(chatty: str) -> Callable[..., Run]:
    """Execute a run to its interrupt, or with ``silent`` to its end."""

    def run_it(**state: Any) -> Run:
        info = services.start(chatty, {"amount": 12, **state})
        runner.advance(str(info.id))
        return Run.objects.get(pk=info.id)

    return run_it


def frames(response: Any) -> list[dict[str, str]]:
    """Parse server-sent events like a browser, without comments."""
    body = b"".join(response).decode() if response.streaming else response.content.decode()
    found = []
    for block in body.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if fields:
            found.append(fields)
    return found


def test_run_event_pages_are_contiguous_from_queued_to_succeeded(
    api: Any, told: Callable[..., Run]
) -> None:
    run = told(silent=True)
    after, seen = 0, []
    while True:
        page = api.get("run-events", run.pk, query=f"after={after}&limit=4").json()
        seen += page["results"]
        after = page["last"]
        if page["ended"]:
            break
        assert len(page["results"]) == 4
    assert [event["seq"] for event in seen] == list(range(1, run.last_event + 1))
    assert (seen[0]["kind"], seen[-1]["kind"]) == ("queued", "succeeded")
    assert {event["kind"] for event in seen} > {"values", "updates", "custom", "tasks"}
    assert api.get("run-events", run.pk, query=f"after={after}").json() == {
        "results": [], "last": after, "state": "succeeded", "ended": True,
    }  # fmt: skip


def test_run_events_of_interrupted_run_end_with_interrupt_id_and_ended_false(
    api: Any, told: Callable[..., Run]
) -> None:
    run = told()
    page = api.get("run-events", run.pk).json()
    assert (page["state"], page["ended"]) == ("interrupted", False)
    (interrupt,) = page["results"][-1]["data"]["interrupts"]
    assert api.get("interrupt", interrupt).status_code == 200


@pytest.mark.promise("P18")
def test_run_event_values_without_state_permission_are_withheld(
    as_role: Any, told: Callable[..., Run]
) -> None:
    run = told(silent=True)
    for role, sees in (("viewer", False), ("operator", False), ("auditor", True)):
        events = as_role(role).get("run-events", run.pk).json()["results"]
        assert len(events) == run.last_event
        for event in events:
            of_state = event["kind"] in ("values", "updates", "tasks", "checkpoints")
            assert event["withheld"] is (of_state and not sees)
            assert (event["data"] is None) is event["withheld"]
        streamed = frames(as_role(role).get("run-events", run.pk, **STREAM))
        assert [json.loads(frame["data"]) for frame in streamed if "data" in frame] == events


@pytest.mark.parametrize(
    "query",
    [
        "after=-1", "after=x", "after=1.0", "after=1000000000", "after=", "limit=0", "limit=1001",
        "wait=-1", "wait=3601", "wait=1e3", "kind=updates", "after=1&after=2", "format=json",
    ],
)  # fmt: skip
def test_run_events_with_invalid_parameter_return_400_naming_the_parameter(
    query: str, api: Any, told: Callable[..., Run]
) -> None:
    response = api.get("run-events", told().pk, query=query)
    assert response.status_code == 400
    assert response.json()["errors"][0]["parameter"] == query.partition("=")[0]


@pytest.mark.parametrize("header", ["x", "-1", "1.0", "1" * 10, "\u0661"])
def test_run_events_with_invalid_last_event_id_return_400_naming_the_header(
    header: str, api: Any, told: Callable[..., Run]
) -> None:
    response = api.get("run-events", told().pk, **STREAM, HTTP_LAST_EVENT_ID=header)
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["errors"][0]["header"] == "Last-Event-ID"


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("application/json", "application/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("text/event-stream", "text/event-stream"),
        ("text/event-stream, application/json", "application/json"),
        ("text/html, */*;q=0.1", "application/json"),
    ],
)
def test_run_events_content_type_is_json_or_event_stream_by_accept_header(
    accept: str, media: str, api: Any, told: Callable[..., Run]
) -> None:
    response = api.get("run-events", told().pk, HTTP_ACCEPT=accept)
    assert response.status_code == 200
    assert response["Content-Type"].partition(";")[0] == media


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "image/*", "nonsense"])
def test_run_events_with_unsupported_accept_header_return_406(
    accept: str, api: Any, told: Callable[..., Run]
) -> None:
    response = api.get("run-events", told().pk, HTTP_ACCEPT=accept)
    assert (response.status_code, response.json()["code"]) == (406, "not_acceptable")


def test_run_event_stream_continues_after_last_event_id_and_returns_204_at_the_end(
    api: Any, told: Callable[..., Run]
) -> None:
    run = told(silent=True)
    first, *rest = frames(api.get("run-events", run.pk, **STREAM))
    assert first == {"retry": "1000"}
    assert [frame["id"] for frame in rest] == [str(n + 1) for n in range(run.last_event)]
    assert [frame["event"] for frame in rest] == [
        json.loads(frame["data"])["kind"] for frame in rest
    ]
    again = api.get("run-events", run.pk, query="after=1", **STREAM, HTTP_LAST_EVENT_ID="5")
    assert frames(again) == [first, *rest[5:]]
    over = api.get("run-events", run.pk, **STREAM, HTTP_LAST_EVENT_ID=str(run.last_event))
    assert (over.status_code, over.content) == (204, b"")


# Waiting.


def test_run_events_with_wait_and_no_new_event_return_an_empty_page_at_the_timeout(
    api: Any, told: Callable[..., Run]
) -> None:
    run = told()
    response = api.get("run-events", run.pk, query=f"after={run.last_event}&wait=3600", **THREADS)
    assert response.streaming
    assert waiting_response._threads.count == 1
    page = json.loads(b"".join(response))
    assert page == {
        "results": [], "last": run.last_event, "state": "interrupted", "ended": False,
    }  # fmt: skip
    assert waiting_response._threads.count == 0


def test_run_events_with_wait_and_existing_or_final_events_return_immediately(
    api: Any, told: Callable[..., Run]
) -> None:
    run = told(silent=True)
    for after in (0, run.last_event - 1, run.last_event):
        query = f"after={after}&wait=20"
        assert not api.get("run-events", run.pk, query=query, **THREADS).streaming


def test_run_events_in_single_threaded_process_return_immediately_with_retry_after(
    api: Any, told: Callable[..., Run]
) -> None:
    run = told()
    response = api.get("run-events", run.pk, query=f"after={run.last_event}&wait=20")
    assert (response.streaming, response["Retry-After"]) == (False, "1")
    stream = api.get("run-events", run.pk, **STREAM)
    assert not stream.streaming
    assert len(frames(stream)) == run.last_event + 1


@pytest.mark.django_db(transaction=True)
def test_run_event_requests_above_event_max_waiting_threads_do_not_wait(
    api: Any, told: Callable[..., Run], settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "EVENT_MAX_WAITING_THREADS": 2, "EVENT_MAX_USER_SHARE": 1}
    run = told()
    query = f"after={run.last_event}&wait=20"
    waiters = [api.get("run-events", run.pk, query=query, **THREADS) for _ in range(3)]
    assert [response.streaming for response in waiters] == [True, True, False]
    assert not api.get("run-events", run.pk, **STREAM, **THREADS).streaming
    waiters[0].close()  # without reading them
    stream = api.get("run-events", run.pk, **STREAM, **THREADS)
    assert stream.streaming
    for response in (*waiters, stream):
        response.close()
    assert waiting_response._threads.count == 0


@pytest.mark.django_db(transaction=True)
def test_run_event_requests_of_one_user_above_event_max_user_share_do_not_wait(
    api: Any, as_role: Any, told: Callable[..., Run], settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "EVENT_MAX_WAITING_THREADS": 8, "EVENT_MAX_USER_SHARE": 0.25}
    run = told()
    path, other = {"query": f"after={run.last_event}&wait=20", **THREADS}, as_role("viewer")
    mine = [api.get("run-events", run.pk, **path) for _ in range(4)]
    assert [response.streaming for response in mine] == [True, True, False, False]
    assert mine[2]["Retry-After"] == "1"
    assert not api.get("run-events", run.pk, **STREAM, **THREADS).streaming
    theirs = [other.get("run-events", run.pk, **path) for _ in range(3)]
    assert [response.streaming for response in theirs] == [True, True, False]
    mine[0].close()
    again = [other.get("run-events", run.pk, **path), api.get("run-events", run.pk, **path)]
    assert [response.streaming for response in again] == [False, True]
    for response in (*mine, *theirs, *again):
        response.close()
    assert waiting_response._threads.count == 0


def test_second_run_event_request_with_default_settings_does_not_wait(
    api: Any, told: Callable[..., Run]
) -> None:
    # A process with two threads then has one thread left.
    run = told()
    path = {"query": f"after={run.last_event}&wait=20", **THREADS}
    first, second = api.get("run-events", run.pk, **path), api.get("run-events", run.pk, **path)
    assert (first.streaming, second.streaming) == (True, False)
    first.close()


def test_run_event_stream_without_new_events_sends_heartbeat_comments(
    api: Any, told: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "EVENT_WAIT_SECONDS": 600}
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.01)
    run = told()
    stream = api.get("run-events", run.pk, query=f"after={run.last_event}", **STREAM, **THREADS)
    parts = list(islice(stream, 3))
    stream.close()
    assert parts == [b"retry: 1000\n\n", *[b": nothing new\n\n"] * 2]


def test_run_event_stream_ends_with_a_comment_if_too_many_responses_are_waiting(
    api: Any, told: Callable[..., Run], settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "EVENT_MAX_WAITING_THREADS": 0}
    run = told()
    stream = api.get("run-events", run.pk, query=f"after={run.last_event}", **STREAM, **THREADS)
    assert stream.content == b"retry: 1000\n\n" + event_stream.NO_SLOT
    assert b"EVENT_MAX_WAITING_THREADS" in event_stream.NO_SLOT


def test_run_event_stream_is_not_compressed_by_gzip_middleware(
    api: Any, told: Callable[..., Run], settings: Any
) -> None:
    settings.MIDDLEWARE = ["django.middleware.gzip.GZipMiddleware", *settings.MIDDLEWARE]
    run = told()
    packed = {"HTTP_ACCEPT_ENCODING": "gzip"}
    stream = api.get("run-events", run.pk, **STREAM, **THREADS, **packed)
    assert next(iter(stream)) == b"retry: 1000\n\n"
    assert len(frames(stream)) == run.last_event


# Requests for event kinds that aren't stored.


def test_run_events_of_ended_run_return_410_after_event_retention(
    api: Any, told: Callable[..., Run], settings: Any
) -> None:
    old, new, open_ = told(silent=True), told(silent=True), told()
    Run.objects.filter(pk=old.pk).update(finished_at=F("finished_at") - timedelta(days=8))
    settings.HITL = {**settings.HITL, "EVENT_RETENTION_DAYS": 7}
    sweep()
    kept = set(RunEvent.objects.values_list("run", flat=True))
    assert kept == {new.pk, open_.pk}
    response = api.get("run-events", old.pk)
    assert response.status_code == 410
    assert (response.json()["code"], response.json()["last"]) == ("events_pruned", old.last_event)
    assert api.get("run-events", old.pk, **STREAM).status_code == 410
    assert api.get("run-events", old.pk, query=f"after={old.last_event}").json()["ended"] is True
    assert retention.delete_events(7, 100) == 0


def test_run_retried_after_event_retention_continues_event_numbers(
    api: Any, make_run: Any, invoice: str
) -> None:
    run = make_run(state="failed", events="states", last_event=7, finished_at="2020-01-01T00:00Z")
    assert retention.delete_events(7, 100) == 1
    services.retry(run.pk)
    assert api.get("run-events", run.pk, query="after=6").status_code == 410
    (event,) = api.get("run-events", run.pk, query="after=7").json()["results"]
    assert (event["seq"], event["data"]) == (8, {"reason": "retried"})


def test_run_events_of_erased_thread_return_410(api: Any, told: Callable[..., Run]) -> None:
    run = told(silent=True)
    services.erase_thread(run.thread.thread_id)
    assert not RunEvent.objects.exists()
    assert api.get("run-events", run.pk).status_code == 410


def test_run_events_are_deleted_with_their_thread(told: Callable[..., Run]) -> None:
    Thread.objects.filter(pk=told().thread_id).delete()
    assert not RunEvent.objects.exists()


# Starting.


def test_run_created_with_events_list_records_only_chosen_stream_modes(
    api: Any, invoice: str
) -> None:
    body = {"graph": invoice, "input": {"amount": 1, "silent": True}, "events": ["updates"]}
    run = api.post("runs", body=body).json()["id"]
    runner.advance(run)
    kinds = [event["kind"] for event in api.get("run-events", run).json()["results"]]
    assert kinds == ["queued", "updates", "succeeded"]


@pytest.mark.parametrize("events", [["all"], "updates", ["updates"] * 9, [1], None, {}])
def test_run_creation_with_unknown_stream_mode_returns_400(
    events: Any, api: Any, invoice: str
) -> None:
    body = {"graph": invoice, "input": {"amount": 1}, "events": events}
    assert api.post("runs", body=body).status_code == 400
    assert not Run.objects.exists()


def test_run_created_with_empty_events_list_reports_only_its_end(api: Any, invoice: str) -> None:
    body = {"graph": invoice, "input": {"amount": 1, "silent": True}, "events": []}
    run = api.post("runs", body=body).json()["id"]
    runner.advance(run)
    assert api.get("run-events", run).json() == {
        "results": [], "last": 0, "state": "succeeded", "ended": True,
    }  # fmt: skip
