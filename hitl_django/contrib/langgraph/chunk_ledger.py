"""The chunks of a run of LangGraph's, kept by what they describe until that is stored.

LangGraph emits them apart from what it stores, and has some of them emitted again where a run is
taken up. None is to be an event twice: how a super-step began was told if one of its tasks has
stored something, and what a task emits is stored with what it wrote.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from langgraph._internal import _constants as keys
from langgraph.config import get_config

from hitl_django.engine.constants import INTERRUPT, NS_END, NS_SEP, RESUME
from hitl_django.engine.savers.checkpoint import CheckpointTuple, TaskWrites
from hitl_django.engine.task.task_status import TaskStatus, read_task_statuses
from hitl_django.engine.types import Chunk

from .conversions import convert_to_ours

#: The key by which LangGraph marks an update of a task that doesn't run.
_CACHED = "__metadata__"


class _Kept(NamedTuple):
    """A chunk with its place among all; ``base`` is the checkpoint of its super-step."""

    place: int
    base: str
    chunk: Chunk


@dataclass(slots=True)
class _Graph:
    """A graph that stores, at its namespace; ``owner`` is the id of the task that runs it."""

    ns: str
    owner: str | None
    #: What its tasks had stored when it was taken up.
    statuses: Mapping[str, TaskStatus]
    #: The checkpoint of its super-step; empty before the first.
    base: str = ""
    is_told: bool = False
    planned: frozenset[str] = frozenset()
    opening: list[_Kept] = field(default_factory=list)
    closing: list[_Kept] = field(default_factory=list)


@dataclass(slots=True)
class _Task:
    """A task of a graph that stores."""

    name: str
    graph: _Graph
    status: TaskStatus | None
    chunks: list[_Kept] = field(default_factory=list)
    has_ended: bool = False


class Beginning(NamedTuple):
    """How a super-step has begun that wasn't told yet, and the task because of which it is."""

    ns: str
    checkpoint_id: str
    task_id: str
    chunks: list[Chunk]


class ChunkLedger:
    """Keeps chunks until it is asked for those that go with a commit.

    LangGraph's threads add them. ``keep`` makes of a chunk's data what is kept of it.
    """

    def __init__(
        self, modes: frozenset[str], *, subgraphs: bool, keep: Callable[[Any], Any] | None
    ) -> None:
        self._modes, self._subgraphs, self._keep = modes, subgraphs, keep
        self._graphs: dict[str, _Graph] = {}
        self._tasks: dict[str, _Task] = {}
        #: What threads have emitted of a task that ended, until they say which.
        self._unnamed: dict[int, list[_Kept]] = {}
        #: The nodes of tasks by their ids, those of graphs that store nothing among them.
        self.names: dict[str, str] = {}
        self._places = count()
        self._lock = threading.Lock()

    def enter_graph(self, config: Any, found: CheckpointTuple | None) -> None:
        """Notes that a graph is about to go on from what is stored of it."""
        given = config["configurable"]
        ns, owner = given.get("checkpoint_ns", ""), given.get(keys.CONFIG_KEY_TASK_ID)
        with self._lock:
            graph = self._graphs.get(ns)
            if graph is None:
                statuses = read_task_statuses((found and found.pending_writes) or ())
                self._graphs[ns] = _Graph(ns, owner, statuses)
            elif owner is not None:
                graph.owner = owner

    def add_custom(self, data: Any) -> None:
        """Adds what a node writes to the stream, on the node's thread."""
        given = get_config()["configurable"]
        ns = tuple(given[keys.CONFIG_KEY_CHECKPOINT_NS].split(NS_SEP)[:-1])
        kept = self._select_chunk((ns, "custom", data))
        with self._lock:
            task = self._tasks.get(given[keys.CONFIG_KEY_TASK_ID]) or self._find_owner(ns)
            if task is not None:
                self._add(task.chunks, task.graph, kept)

    def add_chunk(self, chunk: Chunk) -> str | None:
        """Adds what LangGraph emits; returns the id of the task that it is the end of."""
        ns, mode, data = chunk
        kept = self._select_chunk(chunk)
        with self._lock:
            if mode == "tasks":
                self.names[data["id"]] = data["name"]
            graph = self._graphs.get(NS_SEP.join(ns))
            if graph is not None:
                return self._add_of_graph(graph, mode, data, kept)
            owner = self._find_owner(ns)
            if owner is not None:
                self._add(owner.chunks, owner.graph, kept)
        return None

    def is_event(self, ns: tuple[str, ...], mode: str) -> bool:
        """Returns whether chunks of a graph in a mode are events of the run."""
        return mode in self._modes and (self._subgraphs or not ns or mode == "custom")

    def _select_chunk(self, chunk: Chunk) -> Chunk | None:
        """Returns what is kept of a chunk; None where it is no event of the run."""
        ns, mode, data = chunk
        if not self.is_event(ns, mode):
            return None
        if isinstance(data, dict) and data.get(INTERRUPT):
            data = {**data, INTERRUPT: convert_to_ours(INTERRUPT, data[INTERRUPT])}
        return ns, mode, data if self._keep is None else self._keep(data)

    def _add(self, chunks: list[_Kept], graph: _Graph, chunk: Chunk | None) -> None:
        if chunk is not None:
            chunks.append(_Kept(next(self._places), graph.base, chunk))

    def _find_owner(self, ns: tuple[str, ...]) -> _Task | None:
        """Returns the task that stores what is done below it, where nothing is stored itself."""
        ids = (part.rpartition(NS_END)[2] for part in reversed(ns))
        return next((self._tasks[one] for one in ids if one in self._tasks), None)

    def _add_of_graph(self, graph: _Graph, mode: str, data: Any, kept: Chunk | None) -> str | None:
        if mode == "checkpoints":
            self._begin_step(graph, data, kept)
        elif mode == "tasks" and "result" in data:
            return self._end_task(graph, data, kept)
        elif mode == "tasks":
            self._begin_task(graph, data, kept)
        elif mode == "updates" and _CACHED in data:
            return self._end_cached(graph, data, kept)
        elif isinstance(data, dict) and data.get(INTERRUPT) == ():
            self._add(graph.closing, graph, kept)
        elif mode == "updates" or (isinstance(data, dict) and INTERRUPT in data):
            self._add(self._unnamed.setdefault(threading.get_ident(), []), graph, kept)
        elif graph.base:  # else it is what was stored when the graph was taken up
            self._add(graph.closing, graph, kept)
        return None

    def _begin_step(self, graph: _Graph, data: Any, kept: Chunk | None) -> None:
        graph.is_told = not graph.base and bool(graph.statuses)
        graph.base = data["config"]["configurable"]["checkpoint_id"]
        graph.planned = frozenset(task["id"] for task in data["tasks"])
        for task in data["tasks"]:
            self._find_task(graph, task)
        if not graph.is_told:
            self._add(graph.opening, graph, kept)

    def _find_task(self, graph: _Graph, data: Any) -> _Task:
        """Returns the task that a chunk is about."""
        found = self._tasks.get(data["id"])
        if found is None:
            status = graph.statuses.get(data["id"])
            found = self._tasks[data["id"]] = _Task(data["name"], graph, status)
        return found

    def _begin_task(self, graph: _Graph, data: Any, kept: Chunk | None) -> None:
        task = self._find_task(graph, data)
        if data["id"] not in graph.planned:
            # Another task has called it. Which of the two is stored, and when, is its own matter.
            if task.status is None:
                self._add(task.chunks, graph, kept)
        elif not graph.is_told:
            self._add(graph.opening, graph, kept)

    def _end_task(self, graph: _Graph, data: Any, kept: Chunk | None) -> str:
        task = self._find_task(graph, data)
        task.chunks += self._unnamed.pop(threading.get_ident(), [])
        self._add(task.chunks, graph, kept)
        task.has_ended = True
        return str(data["id"])

    def _end_cached(self, graph: _Graph, data: Any, kept: Chunk | None) -> str | None:
        """Ends a task that doesn't run: what it wrote is stored, or its node's cache has it.

        LangGraph marks both alike and names the node alone; those that are stored come first.
        """
        (name,) = data.keys() - {_CACHED}
        waiting = [
            (task_id, task)
            for task_id, task in self._tasks.items()
            if task.graph is graph and task.name == name and not task.has_ended
        ]
        stored = [one for one in waiting if one[1].status is not None and one[1].status.finished]
        for task_id, task in stored or waiting:
            task.has_ended = True
            if not stored:
                self._add(task.chunks, graph, kept)
            return task_id
        return None

    # What goes with a commit.

    def has_ended(self, task_id: str) -> bool:
        """Returns whether all chunks of a task are there."""
        with self._lock:
            return task_id in self._tasks and self._tasks[task_id].has_ended

    def take_of_task(self, ns: str, checkpoint_id: str, written: TaskWrites) -> list[Chunk]:
        """Removes and returns what goes with the writes of a task."""
        with self._lock:
            graph, task = self._graphs.get(ns), self._tasks.get(written.task_id)
            taken = [] if graph is None else _take_until(graph.opening, checkpoint_id)
            if task is not None:
                own = [*task.chunks, *self._take_below(written.task_id)]
                task.chunks = []
                if not _asks_again(task.status, written):
                    taken += own
        return _sort(taken)

    def take_of_checkpoint(self, ns: str, checkpoint_id: str) -> list[Chunk]:
        """Removes and returns what goes with a checkpoint: all of the super-step that led to it."""
        with self._lock:
            graph = self._graphs.get(ns)
            if graph is None:
                return []
            lists = [graph.opening, graph.closing]
            lists += [task.chunks for task in self._tasks.values() if task.graph is graph]
            taken = [_take_until(chunks, checkpoint_id, itself=False) for chunks in lists]
        return _sort(kept for chunks in taken for kept in chunks)

    def take_beginnings(self, ns: str) -> Iterator[Beginning]:
        """Yields how the super-steps began within which the graph at a namespace runs."""
        with self._lock:
            graph = self._graphs.get(ns)
            while graph is not None and graph.owner in self._tasks:
                owner = graph.owner
                graph = self._tasks[owner].graph
                if taken := _take_until(graph.opening, graph.base):
                    yield Beginning(graph.ns, graph.base, owner, _sort(taken))

    def take_rest(self, status: str) -> list[Chunk]:
        """Removes and returns what goes with the run's outcome.

        A super-step of which nothing is stored begins again, as a task does that makes room.
        """
        with self._lock:
            lists = [graph.closing for graph in self._graphs.values()]
            if status == "finished":
                lists += [graph.opening for graph in self._graphs.values()]
            if status != "drained":
                lists += [task.chunks for task in self._tasks.values()]
            return _sort(kept for chunks in lists for kept in chunks)

    def _take_below(self, task_id: str) -> list[_Kept]:
        """Removes and returns what is left of the graphs that a task has run."""
        taken: list[_Kept] = []
        for graph in self._graphs.values():
            if graph.owner == task_id:
                taken += graph.opening + graph.closing
                graph.opening, graph.closing = [], []
        return taken


def _take_until(chunks: list[_Kept], checkpoint_id: str, *, itself: bool = True) -> list[_Kept]:
    """Removes and returns the chunks of super-steps up to that of a checkpoint.

    Ids of checkpoints sort by time.
    """
    taken = [one for one in chunks if one.base < checkpoint_id + itself * " "]
    chunks[:] = chunks[len(taken) :]
    return taken


def _sort(kept: Iterable[_Kept]) -> list[Chunk]:
    return [one.chunk for one in sorted(kept, key=lambda one: one.place)]


def _asks_again(status: TaskStatus | None, written: TaskWrites) -> bool:
    """Returns whether a task asks what it has asked before: LangGraph has it ask that anew."""
    writes = dict(written.writes)
    if status is None or INTERRUPT not in writes:
        return False
    answers: Sequence[Any] = writes.get(RESUME, ())
    return status.interrupts == tuple(writes[INTERRUPT]) and len(status.answers) == len(answers)
