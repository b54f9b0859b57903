"""Workers killed with SIGKILL at each commit of a LangGraph graph: unchanged events.

Each kill has its own process and run, so a case takes some seconds.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from hitl_django.checkpoints import DjangoSaver
from hitl_django.contrib.langchain import message_buffer
from hitl_django.contrib.langgraph.saver import BridgedSaver
from hitl_django.contrib.langgraph.uncommitted_chunks import UncommittedChunks
from hitl_django.graph_registry import registry
from hitl_django.models import Run, RunEvent
from tests import processes
from tests.chaos import recovery

from . import event_victim

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]

#: Values that differ in each run.
_OWN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|[0-9a-f]{32}|\d{4}-\d\d-\d\dT[\d:.+]+")


@pytest.fixture(autouse=True)
def impatient(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.HITL = recovery.IMPATIENT
    monkeypatch.setattr(message_buffer, "SECONDS", 0)
    with registry.hide_graphs():
        yield


def answer_paused() -> int:
    """Answer one interrupt of each waiting run, and return the number of answers."""
    return sum(event_victim.answer(run.pk) for run in Run.objects.filter(state="interrupted"))


ON_EACH_DATABASE = (
    "telling_asking",
    "telling_async_nested",
    "telling_async_awaited",
    "telling_exit_nested",
    "telling_cached_call",
    "telling_persistent",
)


class Told(NamedTuple):
    """The events of a run in their order, and the texts of models by task."""

    events: list[str]
    said: list[str]


def read_events(run: Any) -> Told:
    """Return the events of a run without its ids."""
    events = RunEvent.objects.filter(run=run).order_by("seq")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    told = [(event.ns, event.kind, event.data) for event in events]
    return Told(list_lines(told), sorted(_read_words(events)))


def list_lines(chunks: Iterable[tuple[str, str, Any]]) -> list[str]:
    """Return chunks as lines, in their order.

    LangGraph leaves one thing open: tasks of one super-step run on threads, whose chunks come in
    any order. So between two chunks of the step itself those of its tasks are sorted by the task;
    each task's own stay in their order.
    """
    lines: list[str] = []
    of_tasks: list[tuple[str, str]] = []
    for ns, kind, data in chunks:
        if kind not in event_victim.MODES or kind == "messages":
            continue
        task = _find_task(kind, data)
        if not task:
            lines += [line for _, line in sorted(of_tasks, key=itemgetter(0))]
            of_tasks = []
        if kind == "checkpoints":
            data = [data["metadata"]["step"], data["next"], data["values"]]
        elif kind == "tasks":
            data = {key: value for key, value in data.items() if key != "metadata"}
        line = f"{ns} {kind} {json.dumps(data, sort_keys=True)}"
        of_tasks.append((task, _OWN.sub("", line)))
    return [*lines, *(line for _, line in sorted(of_tasks, key=itemgetter(0)))]


def _find_task(kind: str, data: Any) -> str:
    """Return the task id of a chunk, or "" for a chunk of the super-step itself."""
    if kind == "tasks" and ("result" in data or list(data["triggers"]) == ["__pregel_push"]):
        given = None if "result" in data else data["input"]
        # Two calls of one task have numbers, and may start in any order.
        number = re.search(r'"number": (\d+)', json.dumps(given))
        named = f"@{data['name']}{number[1] if number else ''}"
        return _find_name([data.get("result"), data.get("interrupts"), given]) or named
    if isinstance(data, dict) and data.get("__interrupt__"):
        return _find_name(data["__interrupt__"])
    return _find_name(data) if kind in ("updates", "custom") else ""


def _find_name(data: Any) -> str:
    found = re.search(r"@\w+", json.dumps(data))
    return found[0] if found else ""


def _read_words(events: Iterable[RunEvent]) -> Iterator[str]:
    """Yield the models' text, one line for each task, combined over its workers.

    A killed worker sent the beginning, the last worker sends all of it before the task ends. A
    task that leaves its graph has no line.
    """
    said: dict[str, dict[int, str]] = {}
    for event in events:
        data: Any = event.data
        if event.kind == "messages":
            message, metadata = data
            parts = said.setdefault(metadata["langgraph_checkpoint_ns"], {})
            attempt = metadata["run_attempt"]
            assert attempt >= max(parts, default=0)
            parts[attempt] = parts.get(attempt, "") + message["content"]
        elif event.kind == "tasks" and "result" in data and not data["interrupts"]:
            for ns in [ns for ns in said if ns.endswith(data["id"])]:
                yield _read_last(ns, said.pop(ns))
    for ns, parts in said.items():
        yield f"{_read_last(ns, parts)} and leaves"


def _read_last(ns: str, parts: dict[int, str]) -> str:
    *broken, whole = parts.values()
    assert all(whole.startswith(part) for part in broken), parts
    return f"{_OWN.sub('', ns)} {whole}"


def count_kinds(told: Told) -> Counter[str]:
    return Counter(line.split()[0] for line in told.events if line.startswith(" "))


def test_langgraph_run_resumed_after_interrupts_stores_each_event_once() -> None:
    """The other tests compare with such a run."""
    event_victim.register_graphs()
    event_victim.live("telling_asking", "0")
    told = read_events(Run.objects.get().pk)
    kinds = {"values": 9, "checkpoints": 7, "tasks": 16, "updates": 9, "custom": 14}
    assert count_kinds(told) == kinds
    assert sum("__interrupt__" in line for line in told.events) == 4
    assert not [line for line in told.events if "__metadata__" in line]
    assert len(told.said) == 6


@pytest.mark.parametrize(
    "graph", ["telling_plain", "telling_nested", "telling_cached", "telling_leaving"]
)
def test_langgraph_run_events_match_the_stream_of_langgraph(graph: str) -> None:
    event_victim.register_graphs()
    event_victim.live(graph, "0")
    theirs: Any = event_victim.GRAPHS[graph]()
    theirs.checkpointer = InMemorySaver()
    modes = [mode for mode in event_victim.MODES if mode != "messages"]
    chunks = theirs.stream(
        {"said": []}, {"configurable": {"thread_id": "1"}}, stream_mode=modes, subgraphs=True
    )
    streamed = [("|".join(ns), kind, data) for ns, kind, data in chunks]
    assert read_events(Run.objects.get().pk).events == list_lines(streamed)


def test_langgraph_graph_called_without_saver_emits_events_in_caller_namespace() -> None:
    event_victim.register_graphs()
    event_victim.live("telling_async_unsaved", "0")
    events = list(RunEvent.objects.filter(ns__startswith="call:").values_list("kind", flat=True))
    assert events == ["values", "tasks", "custom", "updates", "tasks", "values"]
    kinds = count_kinds(read_events(Run.objects.get().pk))
    assert kinds["custom"] == kinds["updates"] == 2


@pytest.mark.parametrize(
    "graphs",
    [
        ("telling_asking", "telling_async", "telling_exit"),
        ("telling_nested_asking", "telling_async_nested", "telling_exit_nested"),
        ("telling_persistent_calls", "telling_async_persistent"),
        ("telling_broken", "telling_async_broken", "telling_exit_broken"),
    ],
    ids=itemgetter(0),
)
def test_langgraph_run_events_do_not_depend_on_durability(
    graphs: Sequence[str],
) -> None:
    event_victim.register_graphs()
    for graph in graphs:
        event_victim.live(graph, graph)
    sync, *others = [read_events(run.pk) for run in Run.objects.order_by("created_at")]
    assert len(sync.events) > 15
    for told in others:
        assert told == sync


def test_langgraph_run_with_exit_durability_commits_events_together_at_each_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[int] = []
    commit_all: Callable[..., None] = DjangoSaver.commit_all

    def counted(self: Any, commits: Any) -> None:
        told.append(sum(len(commit.chunks) for commit in commits))
        commit_all(self, commits)

    monkeypatch.setattr(DjangoSaver, "commit_all", counted)
    event_victim.register_graphs()
    event_victim.live("telling_exit_nested", "0")
    pauses = list(RunEvent.objects.filter(kind__in=["interrupted", "succeeded"]))
    assert len(pauses) == 2
    # The input, the writes before the pause, the pause, the writes before the end, and the end.
    assert [number > 1 for number in told] == [False, True, False, True, False]


def test_langgraph_run_with_exit_durability_stores_events_of_repeated_subgraph_calls() -> None:
    """The second call resumes from the stored results of the first."""
    event_victim.register_graphs()
    for graph in ("telling_persistent_calls", "telling_exit_persistent"):
        event_victim.live(graph, graph)
    sync, late = [read_events(run.pk) for run in Run.objects.order_by("created_at")]
    assert late.events[0].startswith("call ")
    assert sorted(late.events) == sorted(sync.events)


@pytest.mark.parametrize(
    ("graph", "node"),
    [
        ("telling_async", "left"),
        ("telling_async_nested", "inner"),
        ("telling_async_awaited", "left"),
    ],
)
def test_langgraph_writes_of_a_task_are_stored_after_their_checkpoint(
    graph: str, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LangGraph starts a super-step while its checkpoint is stored, here until a task has ended."""
    stored: set[str] = set()
    has_ended = threading.Event()
    commit_all: Callable[..., None] = DjangoSaver.commit_all
    add_chunk: Callable[..., Any] = UncommittedChunks.add_chunk
    put: Callable[..., Any] = BridgedSaver.put
    aput: Callable[..., Any] = BridgedSaver.aput

    def check(self: Any, commits: Any) -> None:
        for commit in commits:
            if commit.writes:
                assert commit.config["configurable"]["checkpoint_id"] in stored
            if commit.checkpoint is not None:
                stored.add(commit.checkpoint["id"])
        commit_all(self, commits)

    def note(self: Any, chunk: Any) -> Any:
        if chunk[1] == "tasks" and "result" in chunk[2] and chunk[2]["name"] == node:
            has_ended.set()
        return add_chunk(self, chunk)

    def is_late(config: Any, metadata: Any) -> bool:
        return not config["configurable"].get("checkpoint_ns") and metadata["step"] == 1

    def store_late(self: Any, config: Any, checkpoint: Any, metadata: Any, *args: Any) -> Any:
        assert not is_late(config, metadata) or has_ended.wait(60)
        return put(self, config, checkpoint, metadata, *args)

    async def astore_late(
        self: Any, config: Any, checkpoint: Any, metadata: Any, *args: Any
    ) -> Any:
        assert not is_late(config, metadata) or await asyncio.to_thread(has_ended.wait, 60)
        return await aput(self, config, checkpoint, metadata, *args)

    event_victim.register_graphs()
    monkeypatch.setattr(DjangoSaver, "commit_all", check)
    monkeypatch.setattr(UncommittedChunks, "add_chunk", note)
    monkeypatch.setattr(BridgedSaver, "put", store_late)
    monkeypatch.setattr(BridgedSaver, "aput", astore_late)
    event_victim.live(graph, "0")
    assert Run.objects.get().state == "succeeded"
    assert has_ended.is_set()


def list_graphs() -> Iterator[Any]:
    """Yield the graphs. For a second database, yield only those that store in most ways."""
    for graph in event_victim.GRAPHS:
        marks = () if graph in ON_EACH_DATABASE else pytest.mark.any_database
        yield pytest.param(graph, marks=marks)


@pytest.mark.promise("P6")
@pytest.mark.parametrize("graph", list(list_graphs()))
def test_langgraph_run_events_after_worker_kill_at_any_commit_match_an_undisturbed_run(
    graph: str,
) -> None:
    """A kill before a commit leaves the same rows as a kill after the previous commit."""
    ours, theirs = processes.SERVER.Pipe(duplex=False)
    process = processes.start(event_victim.die_everywhere, graph, theirs)
    assert ours.poll(processes.PATIENCE)
    runs = ours.recv()
    process.join(processes.PATIENCE)
    assert runs > 5

    event_victim.register_graphs()
    for key in map(str, range(1, runs + 1)):
        event_victim.start(graph, key)
    recovery.finish(answer_paused)
    event_victim.live(graph, "undisturbed")
    assert set(Run.objects.values_list("state", "error")) == {("succeeded", "")}
    wanted = read_events(Run.objects.get(key="undisturbed").pk)
    for run in Run.objects.order_by("created_at"):
        assert read_events(run.pk) == wanted, run.key


@pytest.mark.promise("P6")
@pytest.mark.parametrize("graph", ["telling_persistent", "telling_async_nested"])
def test_langgraph_run_events_after_repeated_worker_kills_match_an_undisturbed_run(
    graph: str,
) -> None:
    ours, theirs = processes.SERVER.Pipe(duplex=False)
    process = processes.start(event_victim.die_again_and_again, graph, theirs)
    assert ours.poll(processes.PATIENCE)
    assert ours.recv() > 3
    process.join(processes.PATIENCE)

    event_victim.register_graphs()
    event_victim.live(graph, "undisturbed")
    assert set(Run.objects.values_list("state", "error")) == {("succeeded", "")}
    killed, undisturbed = [read_events(run.pk) for run in Run.objects.order_by("created_at")]
    assert killed == undisturbed
