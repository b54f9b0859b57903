"""Streamed messages of models as run events, in engine graphs and LangGraph graphs."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any
from weakref import WeakValueDictionary

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection, connections
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import StateGraph as ForeignStateGraph
from typing_extensions import TypedDict

from hitl_django import END, START, StateGraph, register, start
from hitl_django.contrib.langchain import message_buffer
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.contrib.langgraph.cross_thread_calls import CrossThreadCalls
from hitl_django.contrib.langgraph.run_saver import RunSaver
from hitl_django.contrib.langgraph.uncommitted_chunks import UncommittedChunks
from hitl_django.engine.savers.checkpoint import Commit
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.task.node_api import transact
from hitl_django.graph_registry import registry
from hitl_django.models import Run, RunEvent, Thread
from hitl_django.services import EventReader, run_events
from hitl_django.worker import runner

pytestmark = pytest.mark.django_db(transaction=True)

WORDS = [f"word {number:04}. " for number in range(300)]
EVENTS = ["messages", "updates"]


class Talk(TypedDict, total=False):
    said: Annotated[list[str], operator.add]


class Speaker(BaseChatModel):
    """Model that sends its pieces one by one, and first calls ``between`` with their number."""

    pieces: list[Any]
    between: Any = None

    @property
    def _llm_type(self) -> str:
        return "speaker"

    def _stream(self, *args: Any, run_manager: Any = None, **kwargs: Any) -> Iterator[Any]:
        for number, piece in enumerate(self.pieces):
            if self.between is not None:
                self.between(number)
            given = {"content": piece} if isinstance(piece, str) else piece
            chunk = ChatGenerationChunk(message=AIMessageChunk(id="said", **given))
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        message = AIMessage("".join(self.pieces), id="said")
        return ChatResult(generations=[ChatGeneration(message=message)])


Build = Callable[[Any], None]


@pytest.fixture(params=["ours", "theirs"])
def register_node(request: Any) -> Iterator[Build]:
    """Register a graph of one node for each of the two engines."""

    def build(node: Any, **options: Any) -> None:
        if request.param == "ours":
            graph: Any = StateGraph(Talk).add_node("speak", node)
            register("talk", **options)(
                graph.add_edge(START, "speak").add_edge("speak", END).compile
            )
        else:
            graph = ForeignStateGraph(Talk).add_node("speak", node)
            register_langgraph("talk", **options)(
                graph.add_edge("__start__", "speak").add_edge("speak", "__end__").compile
            )

    with registry.hide_graphs():
        yield build


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store each piece immediately."""
    monkeypatch.setattr(message_buffer, "SECONDS", 0)


@pytest.fixture
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store pieces only when there are many, regardless of the time."""
    monkeypatch.setattr(message_buffer, "SECONDS", 1e9)


def speak(pieces: list[Any], between: Any = None) -> Any:
    def node(state: Talk) -> Talk:
        return {"said": [Speaker(pieces=pieces, between=between).invoke("speak").text]}

    return node


def advance(run: Any) -> Run:
    runner.advance(str(run.id))
    return Run.objects.get(pk=run.id)


def stored(run: Any) -> list[Any]:
    rows = RunEvent.objects.filter(run=run.id, kind="messages").order_by("seq")
    return list(rows.values_list("data", flat=True))


def wait_for_stored(number: int) -> None:
    """Wait until this many pieces are stored. LangGraph's nodes don't wait for that."""
    deadline = time.monotonic() + 30
    while RunEvent.objects.filter(kind="messages").count() < number:
        assert time.monotonic() < deadline, f"piece {number} isn't stored while the model speaks"


def test_chat_model_messages_are_stored_before_the_node_ends(
    register_node: Build, at_once: None
) -> None:
    register_node(speak(WORDS[:4], wait_for_stored))
    run = start("talk", {}, events=EVENTS)
    assert advance(run).state == "succeeded", Run.objects.get().error
    said = stored(run)
    assert [message["content"] for message, _ in said] == WORDS[:4]
    assert {message["id"] for message, _ in said} == {"said"}
    assert {message["type"] for message, _ in said} == {"AIMessageChunk"}
    assert {metadata["langgraph_node"] for _, metadata in said} == {"speak"}
    kinds = list(RunEvent.objects.order_by("seq").values_list("kind", flat=True))
    assert kinds.index("messages") < kinds.index("updates")


def test_chat_model_messages_are_returned_by_run_events_before_the_node_ends(
    register_node: Build, at_once: None
) -> None:
    def read(number: int) -> None:
        wait_for_stored(number)
        page = run_events(Run.objects.get().pk)
        said = [event.data[0]["content"] for event in page.events if event.kind == "messages"]
        assert said == WORDS[:number]
        assert not EventReader(Run.objects.get().pk).has_news(page.last)

    register_node(speak(WORDS[:4], read))
    assert advance(start("talk", {}, events=EVENTS)).state == "succeeded", Run.objects.get().error


def test_chat_model_message_chunks_are_merged_into_few_events(
    register_node: Build, seldom: None
) -> None:
    register_node(speak(WORDS))
    run = start("talk", {}, events=EVENTS)
    advance(run)
    said = [message["content"] for message, _ in stored(run)]
    assert "".join(said) == "".join(WORDS)
    assert 2 <= len(said) <= 3
    assert len(said[-2]) >= message_buffer.CHARACTERS


def test_chat_model_message_event_above_event_max_bytes_is_truncated(
    register_node: Build, settings: Any
) -> None:
    settings.HITL = {"EVENT_MAX_BYTES": 2000}
    register_node(speak(["x" * 50_000]))
    run = start("talk", {}, events=EVENTS)
    advance(run)
    event = RunEvent.objects.filter(kind="messages").first()
    assert event is not None
    assert event.truncated
    assert len(str(event.data)) < 4000


def test_message_events_of_node_without_chat_model_add_no_database_queries(
    register_node: Build,
) -> None:
    register_node(lambda state: {"said": ["nothing"]})
    counts = []
    for events in (["updates"], EVENTS) * 2:
        run = start("talk", {}, events=events)
        with CaptureQueriesContext(connection) as queries:
            advance(run)
        counts.append(len(queries))
    assert counts[2] == counts[3]


def test_message_events_of_worker_with_lost_lease_are_replaced_by_events_of_the_next_worker(
    register_node: Build, at_once: None
) -> None:
    """Another worker repeats the node. Readers can distinguish its texts from the earlier ones."""
    said_by: list[int] = []

    def take_over(number: int) -> None:
        said_by.append(number)
        if number <= 2 and said_by.count(0) == 1:
            wait_for_stored(number)
        if number == 2 and said_by.count(2) == 1:
            Thread.objects.update(
                epoch=F("epoch") + 1, lease_until=timezone.now() - timezone.timedelta(hours=1)
            )

    register_node(speak(WORDS[:4], take_over))
    run = start("talk", {}, events=EVENTS)
    assert advance(run).state == "running"
    assert [message["content"] for message, _ in stored(run)] == WORDS[:2]
    assert advance(run).state == "succeeded"
    attempts: dict[int, str] = {}
    for message, metadata in stored(run):
        attempt = metadata["run_attempt"]
        attempts[attempt] = attempts.get(attempt, "") + message["content"]
    first, last = sorted(attempts)
    assert attempts == {first: "".join(WORDS[:2]), last: "".join(WORDS[:4])}
    tasks = {metadata["langgraph_checkpoint_ns"] for _, metadata in stored(run)}
    assert len(tasks) == 1
    numbers = list(RunEvent.objects.order_by("seq").values_list("seq", flat=True))
    assert numbers == list(range(1, len(numbers) + 1))


def test_message_events_without_state_permission_are_withheld(register_node: Build) -> None:
    register_node(speak(WORDS[:3]))
    run = start("talk", {}, events=EVENTS)
    advance(run)
    user = User.objects.create_user("sam")
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_run", "view_thread"]))
    told = [event for event in run_events(run.id, by=user).events if event.kind == "messages"]
    assert told
    assert all(event.withheld and event.data is None for event in told)


def test_message_events_with_tool_call_chunks_contain_no_secret_arguments(
    register_node: Build, at_once: None
) -> None:
    def call(args: str) -> Any:
        chunk = {"name": "pay", "args": args, "id": "1", "index": 0, "type": "tool_call_chunk"}
        return {
            "content": [{"type": "input_json_delta", "partial_json": args, "index": 0}],
            "tool_call_chunks": [chunk],
            "additional_kwargs": {"function_call": {"arguments": args}},
        }

    pieces = [call('{"iban": "DE'), call('12345", "pass'), call('word": "sesame"}')]
    register_node(
        lambda state: {"said": [str(len(Speaker(pieces=pieces).invoke("speak").tool_calls))]},
        redact=["iban"],
    )
    run = start("talk", {}, events=EVENTS)
    assert advance(run).state == "succeeded"
    assert stored(run)[0][0]["tool_call_chunks"][0]["name"] == "pay"
    text = str(stored(run))
    for secret in ("DE", "12345", "sesame"):
        assert secret not in text


def test_chat_model_message_inside_transact_is_stored_once_after_commit(at_once: None) -> None:
    with registry.hide_graphs():

        def node(state: Talk) -> Talk:
            def act() -> str:
                text: str = Speaker(pieces=WORDS[:3]).invoke("speak").text
                return text

            return {"said": [transact("speak", act)]}

        graph = StateGraph(Talk).add_node("speak", node)
        register("talk")(graph.add_edge(START, "speak").add_edge("speak", END).compile)
        run = start("talk", {}, events=EVENTS)
        assert advance(run).state == "succeeded"
    assert [message["content"] for message, _ in stored(run)] == ["".join(WORDS[:3])]


def test_message_events_without_langchain_are_not_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from hitl_django.engine.graph import run_options

    monkeypatch.setattr(run_options, "find_langchain", lambda: None)
    with registry.hide_graphs():
        graph = StateGraph(Talk).add_node("speak", lambda state: {"said": ["it"]})
        register("talk")(graph.add_edge(START, "speak").add_edge("speak", END).compile)
        run = start("talk", {}, events=EVENTS)
        assert advance(run).state == "succeeded"
    assert stored(run) == []
    connections.close_all()


def test_message_buffer_keeps_fewer_than_ten_of_100000_chat_model_chunks_in_memory() -> None:
    """A step may send a hundred thousand pieces, of which a worker buffers only a few."""
    stored: list[str] = []

    class Saver(InMemorySaver[int]):
        def commit(self, commit: Commit) -> None:
            stored.extend(chunk[2][0].content for chunk in commit.chunks)

    calls = CrossThreadCalls(lambda function, *args: function(*args))
    ledger = UncommittedChunks(frozenset({"messages"}), subgraphs=True, keep=None)
    saver = RunSaver(Saver(), calls, "thread", ledger, at_exit=False)
    kept: WeakValueDictionary[int, AIMessageChunk] = WeakValueDictionary()

    def speak() -> int:
        most = 0
        for number in range(100_000):
            message = AIMessageChunk(id="said", content=f"{number} ")
            kept[number] = message
            saver.add_message(((), "messages", (message, {"langgraph_checkpoint_ns": "speak:1"})))
            most = max(most, len(kept))
        return most

    assert calls.serve(speak) < 10
    stored += [chunk[2][0].content for chunk in saver.take_rest("finished")]
    assert "".join(stored) == "".join(f"{number} " for number in range(100_000))
    assert len(stored) > 100
