"""Streams with LangGraph's client: contents and reconnection."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.core.signals import request_started
from django.db import connection
from django.test import Client
from django.utils import timezone
from langgraph_sdk.errors import BadRequestError

from hitl_django import END, START, StateGraph, services
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run
from hitl_django.task_queue.dispatcher import Dispatcher
from hitl_django.worker import runner
from hitl_django.worker.sweeper import sweep
from tests.contrib.test_message_events import Speaker

from .conftest import INLINE, Chat

pytestmark = pytest.mark.django_db(transaction=True)


class Nobody(Dispatcher):
    """Dispatcher that sends no messages."""

    def enqueue(self, function: str, argument: str) -> None:
        pass


GO_ON = {"resume": {"approved": True}}
HELLO = {"log": ["hello"]}


def stream(client: Any, thread: str | None, graph: str, **options: Any) -> list[Any]:
    return list(client.runs.stream(thread, graph, **options))


def told(parts: list[Any]) -> list[Any]:
    return [(part.event, part.data) for part in parts]


def events(parts: list[Any]) -> list[str]:
    return [part.event for part in parts]


def test_langgraph_stream_contains_metadata_chosen_modes_and_end_events(client: Any) -> None:
    thread = client.threads.create()["thread_id"]
    parts = stream(client, thread, "chat", input=HELLO, stream_mode=["values", "updates"])
    assert events(parts) == [
        "metadata", "values", "updates", "values", "updates", "values", "end",
    ]  # fmt: skip
    assert parts[0].data["run_id"] == str(Run.objects.get().pk)
    assert parts[-2].data["__interrupt__"][0]["value"] == {"title": "Continue?"}

    more = stream(client, thread, "chat", command=GO_ON, stream_mode="updates")
    assert [part.data for part in more if part.event == "updates"] == [
        {"ask": {"answer": {"approved": True}}},
        {"close": {"log": ["closed"]}},
    ]
    assert events(more)[0] == "metadata"


def test_langgraph_stream_of_tasks_and_checkpoints_has_fields_of_langgraph(client: Any) -> None:
    parts = stream(client, None, "plain", input=HELLO, stream_mode=["tasks", "checkpoints"])
    assert set(events(parts)) == {"metadata", "tasks", "checkpoints", "end"}
    last = [part.data for part in parts if part.event == "checkpoints"][-1]
    assert last["checkpoint"]["checkpoint_id"]
    assert last["parent_checkpoint"]["checkpoint_ns"] == ""
    assert last["config"] == {"configurable": last["checkpoint"]}


def test_langgraph_stream_contains_subgraph_events_only_with_stream_subgraphs(client: Any) -> None:
    above = stream(client, None, "outer", input=HELLO, stream_mode="updates")
    deep = stream(client, None, "outer", input=HELLO, stream_mode="updates", stream_subgraphs=True)
    assert not any("|" in name for name in events(above))
    assert any(name.startswith("updates|inner:") for name in events(deep))


def test_langgraph_version_2_stream_ends_with_interrupts(client: Any) -> None:
    parts = stream(client, None, "chat", input=HELLO, stream_mode="values", version="v2")
    assert parts[-1]["interrupts"][0]["value"] == {"title": "Continue?"}


def test_langgraph_stream_of_failed_run_ends_with_error_and_end_events(client: Any) -> None:
    parts = stream(client, None, "failing", input=HELLO)
    assert events(parts)[-2:] == ["error", "end"]
    assert parts[-2].data["error"] == "RunFailed"


def test_langgraph_stream_joined_after_an_event_id_contains_only_later_events(client: Any) -> None:
    thread = client.threads.create()["thread_id"]
    parts = stream(client, thread, "chat", input=HELLO, stream_mode=["values", "updates"])
    run = parts[0].data["run_id"]

    def join(last: str | None) -> list[Any]:
        return list(
            client.runs.join_stream(
                thread, run, stream_mode=["values", "updates"], last_event_id=last
            )
        )

    numbered = [part for part in parts if part.event != "end"]
    assert join("-1") == join(None) == parts
    for number, part in enumerate(numbered):
        assert told(join(part.id)) == told(parts[number + 1 :])
    with pytest.raises(BadRequestError):
        join("nonsense")
    stream(client, thread, "chat", command=GO_ON)
    assert events(join(None)) == [
        "metadata", "values", "updates", "values", "updates", "values", "end",
    ]  # fmt: skip
    assert len(join("-1")) > len(parts)


def test_langgraph_stream_after_resume_starts_with_values_without_interrupts(client: Any) -> None:
    thread = client.threads.create()["thread_id"]
    asked = stream(client, thread, "chat", input=HELLO, stream_mode="values")[-2].data
    more = stream(client, thread, "chat", command=GO_ON, stream_mode="values")
    assert events(more) == ["metadata", "values", "values", "values", "end"]
    interrupt = asked.pop("__interrupt__")
    assert [each["value"] for each in interrupt] == [{"title": "Continue?"}]
    assert more[1].data == asked
    run = more[0].data["run_id"]
    for number, part in enumerate(more[1:-1], 2):
        join = client.runs.join_stream(thread, run, stream_mode="values", last_event_id=part.id)
        assert told(list(join)) == told(more[number:])
    # A client that is disconnected between the two events gets both.
    join = client.runs.join_stream(thread, run, stream_mode="values", last_event_id=more[0].id)
    assert told(list(join)) == told(more)


def test_langgraph_joined_stream_accepts_modes_as_json_list_and_rejects_invalid_modes(
    client: Any,
) -> None:
    """LangGraph's JavaScript client sends the modes as a JSON list."""
    run = client.runs.create(None, "plain", input=HELLO, stream_mode=["values", "updates"])
    place, http = f"runs/{run['run_id']}/stream", client.http.client
    one_by_one = http.get(place, params={"stream_mode": ["updates", "values"]})
    together = http.get(place, params={"stream_mode": '["updates","values"]'})
    assert "event: updates" in together.text
    assert together.text == one_by_one.text
    for nonsense in ('["updates"', '[["updates"]]', "[1]", "[" * 180):
        refused = http.get(place, params={"stream_mode": nonsense})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")


def test_langgraph_resume_of_run_without_stored_events_streams_requested_modes(
    client: Any,
) -> None:
    """Code or a schedule may have started the run."""
    services.start("chat", HELLO, thread_id="mine")
    parts = stream(client, "mine", "chat", command=GO_ON, stream_mode="values")
    assert events(parts) == ["metadata", "values", "values", "end"]
    assert [part.data["log"][-1] for part in parts[1:-1]] == ["greeted", "closed"]


def test_langgraph_stream_contains_complete_values_above_event_size_limit(client: Any) -> None:
    long = "x" * 40_000
    parts = stream(client, None, "plain", input={"log": [long]}, stream_mode="values")
    values = [part.data["log"] for part in parts if part.event == "values"]
    assert values[-1] == [long, "greeted", "closed"]
    assert all(each[0] == long for each in values)


def test_langgraph_stream_after_resume_with_large_values_contains_no_interrupts(
    client: Any,
) -> None:
    thread = client.threads.create()["thread_id"]
    stream(client, thread, "chat", input={"log": ["x" * 40_000]})
    more = stream(client, thread, "chat", command=GO_ON, stream_mode="values")
    assert events(more) == ["metadata", "values", "values", "values", "end"]
    assert not any("__interrupt__" in part.data for part in more[1:-1])


def test_langgraph_stream_without_state_permission_contains_no_values(
    client_of: Callable[[Any], Any], make_user: Callable[..., Any]
) -> None:
    starter = client_of(make_user("sam", "start_run", "view_run"))
    assert events(stream(starter, None, "plain", input=HELLO)) == ["metadata", "end"]


def test_langgraph_run_url_without_thread_id_joins_and_streams_the_run(client: Any) -> None:
    run = client.runs.create(None, "plain", input=HELLO)["run_id"]
    http = client.http.client
    assert http.get(f"runs/{run}/join").json()["log"][-1] == "closed"
    told = http.get(f"runs/{run}/stream", params={"stream_mode": "values"})
    assert told.text.rstrip().endswith("event: end\ndata: null")
    for rest in ("join", "stream"):
        assert http.get(f"runs/{uuid4()}/{rest}").status_code == 404


def test_langgraph_stream_contains_message_chunks_of_chat_models(client: Any) -> None:
    register_speaking()
    parts = stream(client, None, "speaking", input=HELLO, stream_mode="messages-tuple")
    said = [part.data for part in parts if part.event == "messages"]
    assert "".join(message["content"] for message, _ in said) == "one two"
    assert {metadata["langgraph_node"] for _, metadata in said} == {"speak"}
    assert {message["type"] for message, _ in said} == {"AIMessageChunk"}


def register_speaking() -> None:
    def speak(state: Any) -> Any:
        return {"log": [Speaker(pieces=["one ", "two"]).invoke("speak").text]}

    graph = StateGraph(Chat).add_node("speak", speak).add_edge(START, "speak")
    registry.register("speaking")(graph.add_edge("speak", END).compile)


def test_langgraph_stream_of_messages_mode_contains_whole_messages(client: Any) -> None:
    register_speaking()
    parts = stream(client, None, "speaking", input=HELLO, stream_mode="messages")
    assert events(parts) == [
        "metadata", "messages/metadata", "messages/partial", "messages/partial", "end",
    ]  # fmt: skip
    assert parts[1].data["said"]["metadata"]["langgraph_node"] == "speak"
    said = [part.data[0] for part in parts[2:-1]]
    assert [message["content"] for message in said] == ["one ", "one two"]
    assert {message["type"] for message in said} == {"ai"}
    run = parts[0].data["run_id"]
    http = client.http.client
    joined = http.get(
        f"runs/{run}/stream", params={"stream_mode": "messages"},
        headers={"Last-Event-ID": parts[2].id},
    )  # fmt: skip
    assert "one two" in joined.text
    assert "messages/metadata" not in joined.text
    both = stream(client, None, "speaking", input=HELLO, stream_mode=["messages", "messages-tuple"])
    assert events(both) == ["metadata", "messages", "messages", "end"]


def test_langgraph_stream_of_debug_mode_wraps_tasks_and_checkpoints(client: Any) -> None:
    parts = stream(client, None, "plain", input=HELLO, stream_mode="debug")
    assert {*events(parts[1:-1])} == {"debug"}
    shown = [(part.data["type"], part.data["step"]) for part in parts[1:-1]]
    assert shown == [
        ("checkpoint", -1), ("checkpoint", 0), ("task", 1), ("task_result", 1), ("checkpoint", 1),
        ("task", 2), ("task_result", 2), ("checkpoint", 2),
    ]  # fmt: skip
    assert parts[3].data["payload"]["input"] == HELLO
    assert parts[-2].data["payload"]["checkpoint"]["checkpoint_id"]
    run, last = parts[0].data["run_id"], parts[3].id
    joined = client.runs.join_stream(
        parts[0].data["thread_id"], run, stream_mode="debug", last_event_id=last
    )
    assert told(list(joined)) == told(parts[4:])


def list_events(parts: list[Any]) -> list[tuple[str, str | None]]:
    found = [part.data for part in parts if part.event == "events"]
    return [(each["event"], each["metadata"].get("langgraph_node")) for each in found]


def test_langgraph_stream_of_events_mode_contains_runs_tasks_and_models(client: Any) -> None:
    """Agent Inbox and AG-UI read these events."""
    register_speaking()
    parts = stream(client, None, "speaking", input=HELLO, stream_mode="events")
    assert {*events(parts)} == {"metadata", "events", "end"}
    assert list_events(parts) == [
        ("on_chain_start", None), ("on_chain_start", "speak"), ("on_chat_model_start", "speak"),
        ("on_chat_model_stream", "speak"), ("on_chat_model_stream", "speak"),
        ("on_chat_model_end", "speak"), ("on_chain_stream", "speak"), ("on_chain_end", "speak"),
        ("on_chain_end", None),
    ]  # fmt: skip
    run, task, model = (parts[at].data for at in (1, 2, 3))
    assert run["run_id"] == parts[0].data["run_id"]
    assert task["parent_ids"] == [run["run_id"]]
    assert model["parent_ids"] == [run["run_id"], task["run_id"]]
    assert parts[6].data["data"]["output"]["content"] == "one two"
    assert parts[-2].data["data"]["output"]["log"] == ["hello", "one two"]


def test_langgraph_resume_of_run_started_by_code_streams_events_of_subgraphs(client: Any) -> None:
    services.start("outer", HELLO, thread_id="mine")
    parts = stream(client, "mine", "outer", command=GO_ON, stream_mode="events")
    assert list_events(parts) == [
        ("on_chain_start", None), ("on_chain_start", "inner"), ("on_chain_start", "ask"),
        ("on_chain_stream", "ask"), ("on_chain_end", "ask"), ("on_chain_stream", "inner"),
        ("on_chain_end", "inner"), ("on_chain_end", None),
    ]  # fmt: skip
    task, below = parts[2].data, parts[3].data
    assert below["parent_ids"][1:] == [task["run_id"]]
    assert "__interrupt__" not in parts[-2].data["data"]["output"]


@pytest.mark.parametrize("follow", ["stream", "wait"])
@pytest.mark.parametrize("is_undone", [False, True])
def test_langgraph_stream_and_wait_requests_last_until_the_undo_period_ends(
    follow: str, is_undone: bool, client: Any, settings: Any, admin: Any
) -> None:
    """During the undo period the run is unchanged. The response has the resume time."""
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "chat", input=HELLO)
    settings.HITL = {**settings.HITL, "UNDO_SECONDS": 600, "EVENT_POLL_SECONDS": 0.02}
    run = Run.objects.get()

    def go_on() -> None:
        deadline = time.monotonic() + 30
        while not Run.objects.filter(pk=run.pk, resumes_at__isnull=False).exists():
            assert time.monotonic() < deadline
        if is_undone:
            services.undo(Interrupt.objects.get().pk, by=admin)
        else:
            Run.objects.update(resumes_at=timezone.now() - timezone.timedelta(seconds=1))
            sweep()
        connection.close()

    worker = threading.Thread(target=go_on)
    worker.start()
    if follow == "wait":
        values = client.runs.wait(thread, "chat", command=GO_ON)
        found, asks = values["log"], "__interrupt__" in values
    else:
        parts = stream(client, thread, "chat", command=GO_ON, stream_mode="values")
        assert events(parts)[-1] == "end"
        last = [part.data for part in parts if part.event == "values"]
        found = last[-1]["log"] if last else ["hello", "greeted"]
        asks = Run.objects.get().state == Run.State.INTERRUPTED
    worker.join(60)
    assert asks == is_undone
    assert found == (["hello", "greeted"] if is_undone else ["hello", "greeted", "closed"])


def test_langgraph_stream_cut_off_by_the_server_continues_without_repeated_events(
    client: Any, settings: Any, admin: Any
) -> None:
    """The run starts when the client reconnects after its first response has ended."""
    settings.HITL = {
        "DISPATCH": f"{__name__}.Nobody",
        # The client reconnects only a few times.
        "EVENT_WAIT_SECONDS": 1,
        "EVENT_POLL_SECONDS": 0.05,
        "EVENT_MAX_WAITING_THREADS": 4,
    }
    thread = client.threads.create()["thread_id"]
    seen: list[Any] = []
    has_reconnected = threading.Event()

    def note_request(environ: Any, **_: Any) -> None:
        if environ["REQUEST_METHOD"] == "GET" and environ["PATH_INFO"].endswith("/stream"):
            has_reconnected.set()

    def work() -> None:
        from django.db import connection

        assert has_reconnected.wait(60)
        runner.advance(str(Run.objects.get().pk))
        connection.close()

    worker = threading.Thread(target=work)
    worker.start()
    request_started.connect(note_request)
    for part in client.runs.stream(thread, "chat", input=HELLO, stream_mode=["updates"]):
        seen.append(part)
    request_started.disconnect(note_request)
    worker.join(60)
    assert events(seen) == ["metadata", "updates", "updates", "end"]


@pytest.mark.parametrize(
    ("on_disconnect", "rights", "state"),
    [
        ("cancel", ["operate_run"], Run.State.CANCELLED),
        ("cancel", [], Run.State.QUEUED),
        ("continue", ["operate_run"], Run.State.QUEUED),
    ],
)
@pytest.mark.parametrize("path", ["stream", "wait"])
def test_langgraph_run_is_cancelled_on_disconnect_if_requested_and_allowed(
    path: str,
    on_disconnect: str,
    rights: list[str],
    state: str,
    graphs: None,
    settings: Any,
    make_user: Callable[..., Any],
) -> None:
    settings.HITL = {"DISPATCH": f"{__name__}.Nobody"}
    browser = Client(**{"wsgi.multithread": True})
    browser.force_login(make_user("sam", "start_run", "view_run", *rights))
    body = {"assistant_id": "chat", "input": HELLO, "on_disconnect": on_disconnect}
    response: Any = browser.post(f"/agent/runs/{path}", body, "application/json")
    if path == "stream":
        assert b"metadata" in next(response.streaming_content)
    response.close()
    assert Run.objects.get().state == state


def test_langgraph_interrupted_run_is_not_cancelled_on_disconnect(
    admin: Any, graphs: None, settings: Any
) -> None:
    settings.HITL = INLINE
    browser = Client(**{"wsgi.multithread": True})
    browser.force_login(admin)
    body = {"assistant_id": "chat", "input": HELLO, "on_disconnect": "cancel"}
    response: Any = browser.post("/agent/runs/stream", body, "application/json")
    assert b"metadata" in next(response.streaming_content)
    response.close()
    assert Run.objects.get().state == Run.State.INTERRUPTED
