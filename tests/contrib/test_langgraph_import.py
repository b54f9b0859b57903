"""Threads imported from LangGraph's databases: reading, reviewing and resuming."""

from __future__ import annotations

import io
import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, timedelta
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlsplit, urlunsplit

import ormsgpack
import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import MessagesState as TheirMessages
from langgraph.graph import StateGraph as TheirGraph
from langgraph.types import Command as TheirCommand
from langgraph.types import Overwrite as TheirOverwrite
from langgraph.types import Send as TheirSend
from langgraph.types import interrupt as their_interrupt
from typing_extensions import TypedDict

from hitl_django import StateGraph, audit, decide, interrupt, register, services, start, testing
from hitl_django.checkpoints import DjangoSaver
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.engine.channels import DeltaChannel as OurDeltaChannel
from hitl_django.engine.serde import graph_classes
from hitl_django.engine.state.messages import MessagesState
from hitl_django.engine.types import Overwrite, Send
from hitl_django.graph_registry import registry
from hitl_django.models import AuditEntry, Checkpoint, Interrupt, Run, Thread
from hitl_django.services.runs.archives import is_archived
from hitl_django.worker.runner import advance
from tests import databases
from tests.__main__ import new_server
from tests.reading import values_of

from . import scripted_agents as agents
from .langgraph_threads import write

pytestmark = pytest.mark.django_db

FILES = Path(write.__file__).parent
KINDS = ["ended", "asks", "asks-again", "below", "sent", "alone", "failed"]


def build_ours(**compiled: Any) -> Any:
    return write.build_graph(StateGraph, Send, interrupt, **compiled)


def build_theirs(**compiled: Any) -> Any:
    return write.build_graph(TheirGraph, TheirSend, their_interrupt, **compiled)


@pytest.fixture(autouse=True)
def graphs() -> Iterator[None]:
    """Register the graph for both engines, and another graph."""
    other = StateGraph(write.State).add_node("n", dict).add_edge("__start__", "n")
    write.ran.clear()
    with registry.hide_graphs():
        register("ported", version="3")(build_ours)
        register_langgraph("kept")(build_theirs)
        register("other")(lambda: other)
        yield


class Import:
    """The output of the command, and whether the command failed."""

    def __init__(self, path: Any, *arguments: str, graph: str | None = "ported") -> None:
        out, err = io.StringIO(), io.StringIO()
        self.failure = ""
        source = ["--postgres" if "://" in str(path) else "--sqlite", str(path)]
        named = [] if graph is None else ["--graph", graph]
        try:
            call_command(
                "hitl", "import-langgraph", *source, *arguments, *named, stdout=out, stderr=err
            )
        except CommandError as error:
            self.failure = str(error)
        self.out, self.err = out.getvalue().strip(), err.getvalue().strip()


@contextmanager
def their_graph(path: Any, **compiled: Any) -> Iterator[Any]:
    """Yield the graph in LangGraph, with a file of LangGraph's saver."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        yield build_theirs(checkpointer=saver, **compiled)


def at(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Return a file written by the installed release of LangGraph."""
    path = tmp_path / "today.sqlite"
    with their_graph(path) as graph:
        write.write_threads(graph, lambda value: TheirCommand(resume=value))
    write.ran.clear()
    return path


@pytest.fixture
def paused(tmp_path: Path) -> Path:
    """Return a file with one thread, which waits for the first of two responses."""
    path = tmp_path / "paused.sqlite"
    with their_graph(path) as graph:
        graph.invoke({"x": 1, "log": []}, at("t"))
    write.ran.clear()
    return path


@pytest.fixture(scope="module")
def own_server() -> Iterator[str | None]:
    """Return the URL of a PostgreSQL server if the test's own database isn't PostgreSQL."""
    if connection.vendor == "postgresql":
        yield None
        return
    with new_server() as server:
        yield server.get_uri()


@pytest.fixture
def foreign_database(own_server: str | None) -> Iterator[str]:
    """Return the URL of an empty PostgreSQL database for LangGraph."""
    url = own_server or databases.to_url(connection)
    name = f"langgraph_{Path(str(connection.settings_dict['NAME'])).name}"[:60]
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        server.execute(f'CREATE DATABASE "{name}"')
    yield urlunsplit(urlsplit(url)._replace(path=f"/{quote(name)}"))
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def restore(release: str, url: str) -> str:
    """Load the rows of a release into a database, and return its URL."""
    with psycopg.connect(url) as server:
        server.execute((FILES / f"{release}.sql").read_text())
    return url


def advance_all() -> None:
    for run in Run.objects.filter(state=Run.State.QUEUED):
        advance(str(run.pk))


def run_of(thread_id: str) -> Run:
    return Run.objects.filter(thread__thread_id=thread_id).latest("created_at")


def find_waiting(thread_id: str) -> list[Interrupt]:
    waiting = Interrupt.objects.filter(thread__thread_id=thread_id, status="pending")
    return sorted(waiting, key=lambda interrupt: str(interrupt.payload))


def answer_all(thread_id: str) -> None:
    with testing.inline() as go_on:
        while found := find_waiting(thread_id):
            decide(found[0].pk, "respond", f"to {found[0].payload['text']}")
            go_on()


def log_of(thread_id: str) -> Any:
    return values_of(Thread.objects.get(thread_id=thread_id))["log"]


@pytest.mark.parametrize("graph", ["ported", "kept"])
@pytest.mark.parametrize("release", ["today", "langgraph-0.4.10", "langgraph-1.0.2"])
def test_threads_stored_by_a_langgraph_release_in_sqlite_can_be_imported_and_continued(
    release: str, graph: str, written: Path
) -> None:
    check_import(written if release == "today" else FILES / f"{release}.sqlite", graph)


@pytest.mark.parametrize("graph", ["ported", "kept"])
@pytest.mark.parametrize("release", ["langgraph-0.4.10", "langgraph-1.0.2"])
def test_threads_stored_by_a_langgraph_release_in_postgresql_can_be_imported_and_continued(
    release: str, graph: str, foreign_database: str
) -> None:
    check_import(restore(release, foreign_database), graph)


def check_import(source: Any, graph: str) -> None:
    """Import threads of all kinds, and execute them to their ends."""
    said = Import(source, graph=graph)
    assert (said.failure, said.err) == ("", "")
    assert said.out == "1 ended, 5 waiting, 1 stopped, 0 already imported, 0 not imported."
    advance_all()
    # The import knows the interrupt. LangGraph raises it once more.
    assert set(write.ran) == (set() if graph == "ported" else {"ask", "ask_below", "sent"})
    assert {kind: run_of(kind).state for kind in KINDS} == {
        **dict.fromkeys(["asks", "asks-again", "below", "sent", "alone"], "interrupted"),
        "ended": "succeeded",
        "failed": "failed",
    }
    asked = {kind: [each.payload["text"] for each in find_waiting(kind)] for kind in KINDS}
    assert asked == {
        "ended": [],
        "asks": ["one?"],
        "asks-again": ["two?"],
        "below": ["below?"],
        "sent": ["sent?", "sent?"],
        "alone": ["one?"],
        "failed": [],
    }
    for kind in KINDS:
        answer_all(kind)
    assert {kind: log_of(kind) for kind in KINDS} == {
        "ended": ["first", "end"],
        "asks": ["first", "to one? to two?", "beside"],
        "asks-again": ["first", "yes to two?", "beside"],
        "below": ["first", "first", "below to below?", "beside"],
        "sent": ["first", "beside", "31 to sent?", "32 to sent?"],
        "alone": ["first", "to one? to two?"],
        "failed": ["first", "beside"],
    }
    assert "no luck" in run_of("failed").error
    assert {"first", "beside", "end"}.isdisjoint(write.ran)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_import_of_old_langgraph_release_skips_unfinished_threads_with_reason(
    kind: str, request: pytest.FixtureRequest
) -> None:
    source: Path | str = FILES / "langgraph-0.2.60.sqlite"
    if kind == "postgresql":
        source = restore("langgraph-0.2.60", request.getfixturevalue("foreign_database"))
    said = Import(source)
    assert said.out == "1 ended, 1 waiting, 0 stopped, 0 already imported, 5 not imported."
    assert said.failure == "5 of 7 threads could not be imported."
    assert said.err.count("they were stored by an old LangGraph release") == 5
    assert {each.thread_id for each in Thread.objects.all()} == {"ended", "alone"}
    advance_all()
    answer_all("alone")
    assert log_of("alone") == ["first", "to one? to two?"]


def test_imported_thread_history_equals_history_in_langgraph(written: Path) -> None:
    Import(written)
    ours = registry.get_graph("ported").graph.with_saver(DjangoSaver())
    with their_graph(written) as theirs:
        for kind in KINDS:
            expected = [*theirs.get_state_history(at(kind))]
            found = [*ours.get_state_history(at(kind))]
            assert len(found) == len(expected) > 1
            for mine, other in zip(found, expected, strict=True):
                assert mine.values == other.values
                assert mine.next == other.next
                assert mine.metadata == other.metadata
                assert mine.created_at == other.created_at
                assert mine.config["configurable"] == other.config["configurable"]
                assert [task.result for task in mine.tasks] == [task.result for task in other.tasks]
                assert [each.id for each in mine.interrupts] == [
                    each.id for each in other.interrupts
                ]


def test_imported_checkpoints_have_the_creation_times_of_the_source(paused: Path) -> None:
    Import(paused)
    with their_graph(paused) as theirs:
        expected = {
            each.config["configurable"]["checkpoint_id"]: each.created_at
            for each in theirs.get_state_history(at("t"))
        }
    rows = Checkpoint.objects.all()
    found = {row.checkpoint_id: row.created_at.astimezone(UTC).isoformat() for row in rows}
    assert found == expected


def test_import_leaves_the_sqlite_source_file_unchanged(written: Path) -> None:
    for path in (FILES / "langgraph-0.2.60.sqlite", written):
        before = path.read_bytes()
        Import(path)
        assert path.read_bytes() == before


def test_second_import_of_unchanged_threads_adds_no_rows(written: Path) -> None:
    Import(written)
    advance_all()
    before = Checkpoint.objects.count(), Run.objects.count(), AuditEntry.objects.count()
    said = Import(written)
    assert said.out == "0 ended, 0 waiting, 0 stopped, 7 already imported, 0 not imported."
    assert (Checkpoint.objects.count(), Run.objects.count(), AuditEntry.objects.count()) == before
    for kind in KINDS:
        for pending in find_waiting(kind)[:1]:
            with testing.inline() as go_on:
                decide(pending.pk, "respond", "one")
                go_on()
            said = Import(written)
            assert (said.err, said.failure) == ("", "")
        answer_all(kind)
    said = Import(written)
    assert said.out == "0 ended, 0 waiting, 0 stopped, 7 already imported, 0 not imported."
    assert log_of("asks") == ["first", "one to two?", "beside"]


def test_second_import_adds_new_steps_and_replaces_pending_interrupts(paused: Path) -> None:
    Import(paused)
    advance_all()
    with their_graph(paused) as graph:
        graph.invoke(TheirCommand(resume="yes"), at("t"))
    assert Import(paused).out.startswith("0 ended, 1 waiting")
    assert find_waiting("t") == []
    advance_all()
    assert [each.payload["text"] for each in find_waiting("t")] == ["two?"]
    with their_graph(paused) as graph:
        graph.invoke(TheirCommand(resume="no"), at("t"))
    assert Import(paused).out.startswith("1 ended, 0 waiting")
    assert find_waiting("t") == []
    states = Run.objects.order_by("created_at").values_list("state", flat=True)
    assert [*states] == ["cancelled", "cancelled", "succeeded"]
    assert log_of("t") == ["first", "yes no", "beside"]
    assert Thread.objects.get().ended_at is not None
    entries = AuditEntry.objects.filter(verb="import").order_by("seq")
    assert [entry.detail["state"] for entry in entries] == ["queued", "queued", "succeeded"]
    assert audit.find_first_fault(Thread.objects.get()) is None


def test_second_import_of_thread_that_was_running_before_creates_its_interrupts(
    tmp_path: Path,
) -> None:
    path = tmp_path / "running.sqlite"
    with their_graph(path) as graph:
        graph.invoke({"x": 1, "log": []}, at("t"), interrupt_before=["ask", "beside"])
        assert Import(path).out.startswith("0 ended, 0 waiting, 1 stopped")
        assert (run_of("t").state, run_of("t").error) == (
            "parked",
            "LangGraph had not yet run ask, beside.",
        )
        graph.invoke(None, at("t"))
    assert Import(path).out.startswith("0 ended, 1 waiting")
    write.ran.clear()
    advance_all()
    assert [each.payload["text"] for each in find_waiting("t")] == ["one?"]
    assert write.ran == []


def test_import_of_thread_continued_in_both_systems_fails_with_reason(paused: Path) -> None:
    Import(paused)
    advance_all()
    answer_all("t")
    with their_graph(paused) as graph:
        graph.invoke(TheirCommand(resume="yes"), at("t"))
    said = Import(paused)
    assert "thread t: Thread 't' has continued in both systems" in said.err
    assert said.failure == "1 of 1 thread could not be imported."
    assert log_of("t") == ["first", "to one? to two?", "beside"]


def test_import_skips_thread_whose_id_already_exists(paused: Path) -> None:
    Thread.objects.create(thread_id="t", graph="ported")
    assert "Thread 't' already exists and was not imported" in Import(paused).err
    assert not Checkpoint.objects.exists()


def test_import_skips_thread_leased_by_a_worker(paused: Path) -> None:
    Import(paused)
    with their_graph(paused) as graph:
        graph.invoke(TheirCommand(resume="yes"), at("t"))
    Thread.objects.update(lease_until=Now() + timedelta(minutes=1))
    before = Checkpoint.objects.count()
    assert "Thread 't' is being run by a worker." in Import(paused).err
    assert Checkpoint.objects.count() == before


def test_import_dry_run_prints_counts_and_stores_no_thread(written: Path) -> None:
    said = Import(written, "--dry-run")
    assert said.out == (
        "1 ended, 5 waiting, 1 stopped, 0 already imported, 0 not imported. Nothing was stored."
    )
    assert not Thread.objects.exists()
    assert not Checkpoint.objects.exists()


def test_import_skips_invalid_threads_with_reason_and_imports_valid_threads(tmp_path: Path) -> None:
    path = tmp_path / "values.sqlite"
    with their_graph(path) as graph:
        graph.invoke({"x": 0, "log": []}, at("fine"))
        graph.invoke({"x": 0, "log": [Unknown()]}, at("strange"))
        graph.invoke({"x": 0, "log": []}, at("l" * 300))
        graph.invoke({"x": 0, "log": []}, at("broken"))
        graph.invoke({"x": 0, "log": []}, at("subgraphs only"))
    with sqlite3.connect(path) as file:
        file.execute("UPDATE checkpoints SET checkpoint = x'c1' WHERE thread_id = 'broken'")
        file.execute("UPDATE checkpoints SET checkpoint_ns = 'n:1' WHERE thread_id LIKE 'subgr%'")
    file.close()
    said = Import(path)
    assert said.out.startswith("1 ended, 0 waiting, 0 stopped, 0 already imported, 4 not imported.")
    reasons = dict(line.removeprefix("thread ").split(": ", 1) for line in said.err.splitlines())
    assert "Unknown" in reasons["strange"]
    assert "must be 1 to 255 characters" in reasons["l" * 300]
    assert "Can't read checkpoint" in reasons["broken"]
    assert reasons["subgraphs only"] == "The thread has only subgraph checkpoints."
    assert [each.thread_id for each in Thread.objects.all()] == ["fine"]


@pytest.mark.promise("P14")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_import_skips_thread_with_unregistered_object_without_calling_the_object(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path, called = tmp_path / "hostile.sqlite", tmp_path / "called"
    url = "" if kind == "sqlite" else request.getfixturevalue("foreign_database")
    opened = PostgresSaver.from_conn_string(url) if url else SqliteSaver.from_conn_string(str(path))
    with opened as saver:
        saver.setup()
        graph = build_theirs(checkpointer=saver)
        graph.invoke({"x": 0, "log": []}, at("fine"))
        for thread_id, channel in {"value": "log", "answer": "__resume__"}.items():
            stored = graph.invoke({"x": 1, "log": []}, at(thread_id))
            assert stored["__interrupt__"]
            saver.serde = HostileSerializer(called)
            if channel == "log":
                graph.update_state(at(thread_id), {"log": ["HOSTILE"]}, as_node="first")
            else:
                newest: Any = stored_at(saver, thread_id)
                saver.put_writes(
                    newest, [(channel, ["HOSTILE"])], "00000000-0000-0000-0000-0000000000ab"
                )
            saver.serde = JsonPlusSerializer()
    for options in (["--dry-run"], []):
        said = Import(url or path, *options)
        assert said.out.startswith(
            "1 ended, 0 waiting, 0 stopped, 0 already imported, 2 not imported."
        )
        assert said.failure == "2 of 3 threads could not be imported."
        assert re.findall("^thread ([a-z]+): .* holds posix.system", said.err, re.M) == [
            "answer",
            "value",
        ]
    assert not called.exists()
    assert [each.thread_id for each in Thread.objects.all()] == ["fine"]


def stored_at(saver: Any, thread_id: str) -> Any:
    return saver.get_tuple(at(thread_id)).config


class HostileSerializer(JsonPlusSerializer):
    """Serializer that, like an attacker, stores a call of os.system instead of a text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        kind, data = super().dumps_typed(obj)
        if b"HOSTILE" not in data:
            return kind, data
        call = ormsgpack.packb(("posix", "system", f"touch {self.path}"))

        def replace(found: Any) -> Any:
            if isinstance(found, dict):
                return {name: replace(each) for name, each in found.items()}
            if isinstance(found, list):
                return [replace(each) for each in found]
            return ormsgpack.Ext(0, call) if found == "HOSTILE" else found

        return kind, ormsgpack.packb(replace(ormsgpack.unpackb(data)))


def test_import_builds_the_graph_before_reading_values_of_its_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_classes, "PACKAGES", set())
    monkeypatch.setattr(graph_classes, "MODULES", set())
    path = tmp_path / "classes.sqlite"
    with their_graph(path) as graph:
        graph.invoke({"x": 0, "log": [Price(7)]}, {**at("t"), "metadata": {"graph_id": "ported"}})
    said = Import(path, graph=None)
    assert said.err == ""
    assert log_of("t") == [Price(7), "first", "end"]


@dataclass
class Price:
    """A class of the package that the graph is of."""

    amount: int


class Unknown:
    """A class that LangGraph pickles where it is told to, and that nothing here knows."""

    def model_dump(self) -> dict[str, Any]:
        return {}


def test_import_failing_during_a_thread_stores_no_part_of_the_thread(
    paused: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hitl_django.contrib.langgraph.thread_import.audit.append", fail)
    with pytest.raises(KeyboardInterrupt):
        Import(paused)
    assert not Thread.objects.exists()
    assert not Checkpoint.objects.exists()


def test_import_selects_the_graph_by_thread_metadata(tmp_path: Path) -> None:
    path = tmp_path / "graphs.sqlite"
    with their_graph(path) as graph:
        for thread_id, metadata in {
            "named": {"graph_id": "ported"},
            "unknown": {"graph_id": "gone"},
            "nameless": {},
            "another": {"graph_id": "other"},
        }.items():
            graph.invoke({"x": 1, "log": []}, {**at(thread_id), "metadata": metadata})
    said = Import(path, graph=None)
    assert "thread nameless: The thread's metadata doesn't name a graph" in said.err
    assert (
        "thread another: The thread doesn't belong to graph 'other': the graph has no node 'first'"
        in said.err
    )
    assert "thread unknown: Graph 'gone' is not registered" in said.err
    assert [(each.graph, each.graph_version) for each in Run.objects.all()] == [("ported", "3")]
    said = Import(path)
    assert said.out.startswith("0 ended, 2 waiting, 0 stopped, 1 already imported, 1 not imported.")
    assert said.err == "thread another: The thread's metadata names another graph, 'other'."
    assert "Graph 'nobody' is not registered" in Import(path, graph="nobody").failure


@pytest.mark.parametrize("engine", ["ours", "theirs"])
def test_imported_thread_at_breakpoint_has_a_pending_breakpoint_interrupt(
    engine: str, tmp_path: Path
) -> None:
    if engine == "ours":
        register("stops")(lambda: build_ours(interrupt_before=["beside"]))
    else:
        register_langgraph("stops")(lambda: build_theirs(interrupt_before=["beside"]))
    path = tmp_path / "stops.sqlite"
    with their_graph(path, interrupt_before=["beside"]) as graph:
        graph.invoke({"x": 2, "log": []}, at("t"))
    write.ran.clear()
    Import(path, graph="stops")
    advance_all()
    assert write.ran == []
    [waiting] = find_waiting("t")
    assert waiting.kind == "breakpoint"


def test_imported_langchain_messages_equal_the_original_messages(tmp_path: Path) -> None:
    def build(graph: Any, state: Any, ask: Any, **compiled: Any) -> Any:
        def answer(state: Any) -> Any:
            ask({"text": "send?"})
            return {"messages": [AIMessage("hello", id="2")]}

        made = graph(state).add_node("answer", answer).add_edge("__start__", "answer")
        return made.compile(**compiled)

    register("chat")(lambda: build(StateGraph, MessagesState, interrupt))
    path = tmp_path / "chat.sqlite"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = build(TheirGraph, TheirMessages, their_interrupt, checkpointer=saver)
        graph.invoke({"messages": [HumanMessage("hi", id="1")]}, at("t"))
    Import(path, graph="chat")
    advance_all()
    answer_all("t")
    thread = Thread.objects.get()
    assert values_of(thread)["messages"] == [HumanMessage("hi", id="1"), AIMessage("hello", id="2")]


@pytest.mark.parametrize(
    ("build", "given", "before", "after"),
    [
        (
            lambda: agents.build_agent([("look_up", {"order": "1"}), ("refund", {"order": "7"})]),
            {"messages": [("user", "help")]},
            [],
            ["look_up 1", "refund 7"],
        ),
        (
            lambda: agents.build_react_agent(
                [("look_up", {"order": "1"}), ("ask_and_refund", {"order": "7"})]
            ),
            {"messages": [("user", "help")]},
            ["look_up 1"],
            ["ask_and_refund 7", "look_up 1"],
        ),
        (
            agents.build_supervisor,
            {"messages": [("user", "help")]},
            ["supervise"],
            ["ask_and_refund 2", "look_up 1", "refund 1", "supervise"],
        ),
        (agents.build_functional, "book", ["price book"], ["price book"]),
    ],
    ids=["agent", "react", "supervisor", "functional"],
)
def test_imported_agent_interrupts_are_approved_and_each_tool_runs_once(
    build: Any, given: Any, before: list[str], after: list[str], tmp_path: Path
) -> None:
    register_langgraph("agent")(build)
    agents.done.clear()
    path = tmp_path / "agent.sqlite"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = build()
        graph.checkpointer = saver
        graph.invoke(given, at("t"))
    assert sorted(agents.done) == before
    said = Import(path, graph="agent")
    assert (said.err, said.out) == (
        "",
        "0 ended, 1 waiting, 0 stopped, 0 already imported, 0 not imported.",
    )
    advance_all()
    with testing.inline() as go_on:
        while found := find_waiting("t"):
            decide(found[0].pk, "approve")
            go_on()
    assert (run_of("t").state, run_of("t").error) == ("succeeded", "")
    assert sorted(agents.done) == after  # no task ran twice


def test_import_counts_archived_threads_as_already_imported(paused: Path) -> None:
    with their_graph(paused) as graph:
        graph.invoke(TheirCommand(resume={"yes": "yes"}), at("t"), interrupt_after="*")
        graph.invoke({"x": 0, "log": []}, at("ended"))
    Import(paused)
    Thread.objects.filter(thread_id="ended").update(ended_at=Now() - timedelta(days=9))
    archive_ended(3, 10, None)
    assert is_archived("ended")
    assert Import(paused).out.startswith("0 ended, 0 waiting, 0 stopped, 2 already imported")


def test_imported_error_with_nul_character_is_stored_without_nul(tmp_path: Path) -> None:
    def fail(state: Any) -> Any:
        raise ValueError("no luck")

    path = tmp_path / "errors.sqlite"
    register("fails")(lambda: StateGraph(write.State).add_node(fail).add_edge("__start__", "fail"))
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = TheirGraph(write.State).add_node(fail).add_edge("__start__", "fail").compile(saver)
        with pytest.raises(ValueError, match="luck"):
            graph.invoke({"x": 0}, at("t"))
        with sqlite3.connect(path) as file:
            nul = saver.serde.dumps_typed("ValueError(a\0b)")
            file.execute("UPDATE writes SET type = ?, value = ? WHERE channel = '__error__'", nul)
        file.close()
    assert Import(path, graph="fails").err == ""
    assert run_of("t").state == "failed"
    assert "\0" not in run_of("t").error


def test_pruned_langgraph_thread_is_imported_and_resumes(paused: Path) -> None:
    with sqlite3.connect(paused) as file:
        file.execute(
            "DELETE FROM checkpoints WHERE checkpoint_id < "
            "(SELECT MAX(checkpoint_id) FROM checkpoints)"
        )
    file.close()
    assert Import(paused).err == ""
    assert Checkpoint.objects.count() == 1
    advance_all()
    answer_all("t")
    assert log_of("t") == ["first", "to one? to two?", "beside"]


def build_pieces(graph: Any, channel: Any, overwrite: Any) -> Any:
    """Return a graph with a DeltaChannel, which is replaced where the last item is "new"."""

    def join(held: list[str], writes: list[list[str]]) -> list[str]:
        return [*held, *(item for write in writes for item in write)]

    def first(state: Any) -> Any:
        return {"log": overwrite(["anew"]) if state["log"][-1] == "new" else ["first"]}

    state: Any = TypedDict("Pieces", {"log": Annotated[list[str], channel(join)]})
    return graph(state).add_node("first", first).add_edge("__start__", "first")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_imported_delta_channels_have_complete_values_in_state_and_history(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    register("ours")(lambda: build_pieces(StateGraph, OurDeltaChannel, Overwrite))
    theirs = build_pieces(TheirGraph, DeltaChannel, TheirOverwrite)
    register_langgraph("theirs")(lambda: theirs)
    path = tmp_path / "pieces.sqlite"
    url = "" if kind == "sqlite" else request.getfixturevalue("foreign_database")
    opened = PostgresSaver.from_conn_string(url) if url else SqliteSaver.from_conn_string(str(path))
    with opened as saver:
        saver.setup()
        graph = theirs.compile(saver)
        for thread_id in ("ours", "theirs"):
            config = {**at(thread_id), "metadata": {"graph_id": thread_id}}
            for word in ("one", "new", "two"):
                graph.invoke({"log": [word]}, config)
        said = Import(url or path, graph=None)
        assert (said.err, said.out[:8]) == ("", "2 ended,")
        expected = [each.values for each in graph.get_state_history(at("theirs"))]
    assert expected[0] == {"log": ["anew", "two", "first"]}
    for thread_id in ("ours", "theirs"):
        assert [each.values for each in services.state_history(thread_id)] == expected
        with testing.inline() as go_on:
            start(thread_id, {"log": ["three"]}, thread_id=thread_id)
            go_on()
        assert log_of(thread_id) == ["anew", "two", "first", "three", "first"]


def test_import_skips_thread_whose_delta_channel_is_missing_from_the_graph(tmp_path: Path) -> None:
    path = tmp_path / "pieces.sqlite"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        made = build_pieces(TheirGraph, DeltaChannel, TheirOverwrite)
        made.compile(saver).invoke({"log": ["x"]}, at("t"))
    assert "its DeltaChannel log is stored in pieces" in Import(path).err
    assert not Thread.objects.exists()


def test_imported_thread_accepts_new_input(written: Path) -> None:
    Import(written)
    with testing.inline() as go_on:
        start("ported", {"x": 0, "log": ["more"]}, thread_id="ended")
        go_on()
    assert log_of("ended") == ["first", "end", "more", "first", "end"]


def test_import_command_without_langgraph_packages_names_the_missing_package(
    paused: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "langgraph.checkpoint.sqlite", None)
    assert "Install langgraph-checkpoint-sqlite" in Import(paused).failure


def test_import_from_missing_or_invalid_database_fails_naming_the_source(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database, but text" * 99)
    sqlite3.connect(tmp_path / "empty").close()
    for name in ("missing", "text", "empty"):
        assert f"{name} as a LangGraph checkpoint database" in Import(tmp_path / name).failure
    url = "postgresql://nobody@127.0.0.1:1/none"
    assert "as a LangGraph checkpoint database" in Import(url).failure


def test_threads_imported_from_postgresql_can_be_continued_to_the_end(
    foreign_database: str,
) -> None:
    assert "as a LangGraph checkpoint database" in Import(foreign_database).failure
    with PostgresSaver.from_conn_string(foreign_database) as saver:
        saver.setup()
        graph = build_theirs(checkpointer=saver)
        write.write_threads(graph, lambda value: TheirCommand(resume=value))
        write.ran.clear()
        said = Import(foreign_database)
        assert said.out == "1 ended, 5 waiting, 1 stopped, 0 already imported, 0 not imported."
        advance_all()
        assert write.ran == []
        for kind in KINDS:
            answer_all(kind)
        assert log_of("asks-again") == ["first", "yes to two?", "beside"]
        said = Import(foreign_database)
        assert (said.err, said.failure) == ("", "")
        assert said.out == "0 ended, 0 waiting, 0 stopped, 7 already imported, 0 not imported."


def test_run_page_of_imported_thread_shows_steps_and_waiting_node(
    written: Path, admin_client: Client
) -> None:
    Import(written)
    advance_all()
    url = reverse("admin:hitl_django_run_change", args=[run_of("below").pk])
    page = admin_client.get(url).content.decode()
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "Visited: first, beside and below. Waiting for review at: below and ask_below." in text
    assert "Imported the thread from LangGraph" in text
    assert "first Step 1" in text
