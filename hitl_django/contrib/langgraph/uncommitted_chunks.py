"""Stream chunks of a LangGraph run that are buffered until the state they describe is stored.

LangGraph emits chunks before or after it stores the state, and emits some chunks again when a run
resumes. Each chunk must become exactly one event. The start of a super-step is therefore stored
with the first writes of its tasks, and the chunks of a task are stored with the task's writes.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter
from typing import Any, NamedTuple

from langgraph._internal import _constants as keys
from langgraph.config import get_config

from hitl_django.engine.constants import INTERRUPT, NS_END, NS_SEP, RESUME
from hitl_django.engine.savers.checkpoint import CheckpointTuple, TaskWrites
from hitl_django.engine.task.task_status import TaskStatus, read_task_statuses
from hitl_django.engine.types import Chunk

from .conversions import convert_to_ours

#: Key with which LangGraph marks updates of tasks that don't run, because their writes have been
#: stored or cached.
_CACHED = "__metadata__"
#: Prefixes of the names of error handler nodes.
_HANDLERS = ("__error_handler__", "__default_error_handler__")


class BufferedChunk(NamedTuple):
    """A chunk with its position in the stream.

    ``base`` is the id of the checkpoint from which the chunk's super-step started.
    """

    place: int
    base: str
    chunk: Chunk


@dataclass(slots=True)
class _Graph:
    """The root graph of the run, or a subgraph that has a checkpointer.

    ``owner`` is the id of the task that runs the graph.
    """

    ns: str
    owner: str | None = None
    #: The checkpoint from which the graph resumes, or None.
    found: str | None = None
    statuses: dict[str, TaskStatus] = field(default_factory=dict)
    #: The checkpoint of the current super-step. Empty before the first super-step.
    base: str = ""
    is_told: bool = False
    #: Tasks of the current super-step, and those not called by another task.
    tasks: dict[str, _Task] = field(default_factory=dict)
    planned: frozenset[str] = frozenset()
    opening: list[BufferedChunk] = field(default_factory=list)
    closing: list[BufferedChunk] = field(default_factory=list)
    #: The newest chunks of ``closing``, by the OS thread that emitted them.
    newest: defaultdict[int, list[BufferedChunk]] = field(default_factory=lambda: defaultdict(list))
    #: The number of finished tasks by node. LangGraph emits updates of these tasks again.
    finished: Counter[str] = field(default_factory=Counter)
    #: Cached updates that may belong to several tasks of a node.
    cached: defaultdict[str, list[BufferedChunk]] = field(default_factory=lambda: defaultdict(list))


@dataclass(slots=True)
class _Task:
    """A task of a _Graph.

    ``base`` is the id of the checkpoint from which the task started.
    """

    id: str
    name: str
    graph: _Graph
    base: str
    chunks: list[BufferedChunk] = field(default_factory=list)
    has_ended: bool = False

    def was_finished(self) -> bool:
        """Return whether the task had already finished when its graph resumed."""
        status = self.graph.statuses.get(self.id)
        return status is not None and status.finished


class Beginning(NamedTuple):
    """The chunks at the start of a super-step in which a task has called a subgraph.

    The chunks are not stored yet. They are stored before the writes of the subgraph. ``ns`` is the
    namespace of the calling graph. ``checkpoint_id`` is the id of the checkpoint from which the
    super-step started. ``task_id`` is the id of the calling task.
    """

    ns: str
    checkpoint_id: str
    task_id: str
    chunks: list[BufferedChunk]


class UncommittedChunks:
    """A buffer of chunks that are not committed yet.

    LangGraph's OS threads add chunks. ``keep`` converts the data of a chunk for storage.
    """

    def __init__(
        self, modes: frozenset[str], *, subgraphs: bool, keep: Callable[[Any], Any] | None
    ) -> None:
        self._modes, self._subgraphs, self._keep = modes, subgraphs, keep
        self._graphs: dict[str, _Graph] = {}
        #: The tasks of all graphs.
        self._tasks: dict[str, _Task] = {}
        self._places = count()
        self._lock = threading.Lock()

    def enter_graph(self, config: Any, found: CheckpointTuple | None) -> None:
        """Record that a graph is about to resume from its stored state.

        ``found`` is the checkpoint, or None without stored state.
        """
        given = config["configurable"]
        ns, owner = given.get("checkpoint_ns", ""), given.get(keys.CONFIG_KEY_TASK_ID)
        with self._lock:
            graph = self._graphs.setdefault(ns, _Graph(ns))
            graph.owner = owner or graph.owner
            graph.found = found.checkpoint["id"] if found else ""
            graph.statuses = read_task_statuses((found and found.pending_writes) or ())

    def add_custom(self, data: Any) -> None:
        """Add data that a node writes to the stream, on the node's OS thread."""
        *around, own = get_config()["configurable"][keys.CONFIG_KEY_CHECKPOINT_NS].split(NS_SEP)
        kept = self._select_chunk((tuple(around), "custom", data))
        with self._lock:
            task = self._find_owner([*around, own])
            if task is not None:
                self._add_of_task(task, kept)

    def add_chunk(self, chunk: Chunk) -> str | None:
        """Add a chunk from LangGraph.

        Return the id of the task that ends with this chunk, or None.
        """
        ns, mode, data = chunk
        kept = self._select_chunk(chunk)
        with self._lock:
            graph = self._graphs.get(NS_SEP.join(ns))
            if graph is not None:
                return self._add_of_graph(graph, mode, data, kept)
            owner = self._find_owner(ns)
            if owner is not None:
                self._add_of_task(owner, kept)
        return None

    def is_event(self, ns: tuple[str, ...], mode: str) -> bool:
        """Return whether chunks of this stream mode become events of the run.

        ``ns`` is the namespace of the graph that emits the chunks.
        """
        return mode in self._modes and (self._subgraphs or not ns or mode == "custom")

    def _select_chunk(self, chunk: Chunk) -> Chunk | None:
        """Return the part of a chunk that the run stores as an event, or None."""
        ns, mode, data = chunk
        if not self.is_event(ns, mode):
            return None
        if isinstance(data, dict) and data.get(INTERRUPT):
            data = {**data, INTERRUPT: convert_to_ours(INTERRUPT, data[INTERRUPT])}
        return ns, mode, data if self._keep is None else self._keep(data)

    def _add(self, chunks: list[BufferedChunk], graph: _Graph, chunk: Chunk | None) -> None:
        if chunk is not None:
            chunks.append(BufferedChunk(next(self._places), graph.base, chunk))

    def _add_of_task(self, task: _Task, chunk: Chunk | None) -> None:
        # LangGraph runs a finished error handler again, but its chunks have already been stored.
        if not task.was_finished():
            self._add(task.chunks, task.graph, chunk)

    def _find_owner(self, ns: Sequence[str]) -> _Task | None:
        """Return the task that stores the chunks of a namespace together with its writes, or None.

        The result is the task of the namespace, or the nearest known task above it.
        """
        for at in reversed(range(len(ns))):
            name, _, task_id = ns[at].rpartition(NS_END)
            if task_id in self._tasks:
                return self._tasks[task_id]
            if name.startswith(_HANDLERS):
                # LangGraph doesn't emit the start of an error handler. The failed task is the owner
                # of its chunks.
                failed = self._find_owner(ns[:at])
                return None if failed is None else self._find_task(failed.graph, task_id, name)
        return None

    def _add_of_graph(self, graph: _Graph, mode: str, data: Any, kept: Chunk | None) -> str | None:
        newest = graph.newest[threading.get_ident()]
        if mode == "tasks" and "result" in data:
            # LangGraph emits a task's end directly after the task's writes.
            task = self._find_task(graph, data["id"], data["name"])
            if not task.was_finished():
                task.chunks += [chunk for chunk in newest if chunk in graph.closing]
            graph.closing = [chunk for chunk in graph.closing if chunk not in newest]
            newest.clear()
            return self._end_task(task, kept)
        if mode == "updates" and _CACHED in data:
            return self._add_cached(graph, data, kept)
        if mode in ("checkpoints", "tasks"):
            newest.clear()
            (self._begin_step if mode == "checkpoints" else self._begin_task)(graph, data, kept)
        # Otherwise the chunk contains the state that was loaded.
        elif graph.found is None or mode == "updates":
            self._add(graph.closing, graph, kept)
            if kept is not None:
                newest.append(graph.closing[-1])
        return None

    def _add_cached(self, graph: _Graph, data: Any, kept: Chunk | None) -> str | None:
        """Add the chunk of a task that doesn't run because its result was stored or cached.

        Return the id of the task. The chunk contains only the name of the node. Return None if
        several tasks of the node are unfinished, or if the task had already finished when the graph
        resumed.
        """
        (name,) = data.keys() - {_CACHED}
        if graph.finished[name]:
            graph.finished[name] -= 1
            return None
        tasks = [each for each in graph.tasks.values() if each.name == name and not each.has_ended]
        if len(tasks) == 1:
            return self._end_task(tasks[0], kept)
        self._add(graph.cached[name], graph, kept)
        return None

    def _begin_step(self, graph: _Graph, data: Any, kept: Chunk | None) -> None:
        checkpoint_id = data["config"]["configurable"]["checkpoint_id"]
        graph.is_told = checkpoint_id == graph.found and bool(graph.statuses)
        graph.base, graph.found = checkpoint_id, None
        graph.planned = frozenset(task["id"] for task in data["tasks"])
        tasks = [self._find_task(graph, task["id"], task["name"]) for task in data["tasks"]]
        graph.finished = Counter(task.name for task in tasks if task.was_finished())
        if not graph.is_told:
            self._add(graph.opening, graph, kept)

    def _find_task(self, graph: _Graph, task_id: str, name: str) -> _Task:
        """Return a task of a graph. The task is added if it isn't known yet."""
        task = self._tasks.get(task_id)
        if task is None:
            task = _Task(task_id, name, graph, graph.base)
            task.has_ended = task.was_finished()
            self._tasks[task_id] = graph.tasks[task_id] = task
        return task

    def _begin_task(self, graph: _Graph, data: Any, kept: Chunk | None) -> None:
        task_id, name = data["id"], data["name"]
        is_new = task_id not in self._tasks and task_id not in graph.statuses
        task = self._find_task(graph, task_id, name)
        if task_id in graph.planned:
            if not graph.is_told:
                self._add(graph.opening, graph, kept)
        # The task was called by another task and is stored independently. LangGraph emits the start
        # of an error handler only when it resumes the handler.
        elif is_new and not name.startswith(_HANDLERS):
            self._add(task.chunks, graph, kept)

    def _end_task(self, task: _Task, kept: Chunk | None) -> str:
        self._add_of_task(task, kept)
        task.has_ended = True
        return task.id

    def find_graph_ns(self, task_ns: str, checkpoint_ids: Mapping[str, str]) -> str | None:
        """Return the namespace of a task's graph, or None if the graph stores no state.

        ``checkpoint_ids`` are the current checkpoint ids of the task's graph and of the graphs that
        call it, by namespace. The namespace of a @task function is below the namespace of the
        calling task, but both tasks belong to the same graph.
        """
        ns = task_ns.rpartition(NS_SEP)[0]
        while ns not in self._graphs:
            above = ns.rpartition(NS_SEP)[0]
            if not ns or checkpoint_ids.get(above) != checkpoint_ids[ns]:
                return None
            ns = above
        return ns

    def find_status(self, ns: str, task_id: str) -> TaskStatus | None:
        """Return the status that a task had when its graph resumed, or None for a new task."""
        return self._graphs[ns].statuses.get(task_id)

    def list_bases_above(self, ns: str) -> list[tuple[str, str]]:
        """Return the namespaces and current checkpoint ids of the graphs above a subgraph.

        ``ns`` is the namespace of the subgraph. The graphs above are the graph that calls the
        subgraph, the caller of this graph, and so on up to the root graph.
        """
        with self._lock:
            return [(graph.ns, graph.base) for graph, _ in self._list_above(ns)]

    def is_base_stored(self, ns: str, stored: Mapping[str, str]) -> bool:
        """Return whether the checkpoint from which a task started is stored.

        ``ns`` is the namespace of the task. ``stored`` are the newest checkpoint ids by namespace.
        """
        with self._lock:
            task = self._find_owner(ns.split(NS_SEP))
            return task is None or task.base <= stored.get(task.graph.ns, "")

    def is_over(self, ns: str) -> bool:
        """Return whether the task in a namespace had already finished when its graph resumed."""
        with self._lock:
            task = self._find_owner(ns.split(NS_SEP))
            return task is not None and task.was_finished()

    def _list_above(self, ns: str) -> Iterator[tuple[_Graph, str]]:
        """Yield the graphs above the subgraph in ``ns``, from its caller up to the root graph.

        Each graph is yielded with the id of the task in which it calls the next inner graph.
        """
        graph = self._graphs.get(ns)
        while graph is not None and graph.owner in self._tasks:
            owner = graph.owner
            graph = self._tasks[owner].graph
            yield graph, owner

    def list_names(self) -> dict[str, str]:
        """Return the names of nodes by task id, for the tasks of unfinished super-steps."""
        with self._lock:
            return {task_id: task.name for task_id, task in self._tasks.items()}

    def list_running(self) -> list[str]:
        """Return the names of nodes whose tasks have started but not ended."""
        with self._lock:
            return [task.name for task in self._tasks.values() if not task.has_ended]

    def has_ended(self, task_id: str) -> bool:
        """Return whether the last chunk of a task has been received."""
        with self._lock:
            return task_id in self._tasks and self._tasks[task_id].has_ended

    def is_ambiguous(self, task_id: str) -> bool:
        """Return whether a cached result may belong to this task or to another task of the node.

        If so, the writes of these tasks must be stored in one commit.
        """
        with self._lock:
            task = self._tasks.get(task_id)
            return task is not None and not task.has_ended and bool(task.graph.cached[task.name])

    def take_of_task(self, ns: str, checkpoint_id: str, written: TaskWrites) -> list[BufferedChunk]:
        """Remove and return the chunks that are stored with the writes of a task.

        ``ns`` is the namespace of the task's graph. ``checkpoint_id`` is the id of the checkpoint
        from which the task started.
        """
        with self._lock:
            graph, task = self._graphs.get(ns), self._tasks.get(written.task_id)
            taken = [] if graph is None else _take_until(graph.opening, checkpoint_id)
            if task is not None:
                own = [*task.chunks, *self._take_below(written.task_id)]
                task.chunks = []
                if not task.was_finished() and not _interrupts_again(task, written):
                    taken += own
                if not task.has_ended:
                    taken += _take_until(task.graph.cached[task.name], checkpoint_id)
        return taken

    def take_of_checkpoint(self, ns: str, checkpoint_id: str) -> list[BufferedChunk]:
        """Remove and return the remaining chunks of the super-steps before a checkpoint.

        These super-steps started from an older checkpoint of the same graph. Their remaining chunks
        are stored together with the checkpoint.
        """
        with self._lock:
            graph = self._graphs.get(ns)
            if graph is None:
                return []
            taken = _take_until(graph.opening, checkpoint_id, itself=False)
            for chunks in (graph.closing, *graph.cached.values()):
                taken += _take_until(chunks, checkpoint_id, itself=False)
            for task_id, task in list(graph.tasks.items()):
                if task.base < checkpoint_id:
                    taken += [*task.chunks, *self._take_below(task_id)]
                    self._forget(task_id)
        return taken

    def take_beginnings(self, ns: str, stored: Mapping[str, str]) -> list[Beginning]:
        """Remove and return the first chunks of super-steps whose tasks call the graph in ``ns``.

        The super-step of the outermost graph comes first. ``stored`` are the newest stored
        checkpoint ids by namespace. A super-step is left out if the checkpoint from which it
        started isn't stored.
        """
        with self._lock:
            begun = [
                Beginning(graph.ns, graph.base, owner, _take_until(graph.opening, graph.base))
                for graph, owner in self._list_above(ns)
                if graph.base <= stored.get(graph.ns, "")
            ]
        return [one for one in reversed(begun) if one.chunks]

    def take_rest(self, status: str) -> list[Chunk]:
        """Return the chunks to store at the end of the run.

        ``status`` is the run's outcome. If the run failed or was requeued, chunks of tasks and
        super-steps without stored results are left out, because these tasks run again when the run
        resumes.
        """
        with self._lock:
            lists = [graph.closing for graph in self._graphs.values()]
            if status == "finished":
                lists += [graph.opening for graph in self._graphs.values()]
            if status not in ("drained", "failed"):
                lists += [task.chunks for task in self._tasks.values()]
                lists += [each for graph in self._graphs.values() for each in graph.cached.values()]
            return sort_chunks(kept for chunks in lists for kept in chunks)

    def _take_below(self, task_id: str) -> list[BufferedChunk]:
        """Remove and return the remaining chunks of the subgraphs that a task has called."""
        taken: list[BufferedChunk] = []
        for graph in self._list_below(task_id):
            for chunks in (graph.opening, graph.closing, *graph.cached.values()):
                taken += chunks
                chunks.clear()
            for inner, task in graph.tasks.items():
                taken += task.chunks + self._take_below(inner)
                task.chunks = []
        return taken

    def _forget(self, task_id: str) -> None:
        """Discard the chunks of a task and of the subgraphs that it has called."""
        del self._tasks[task_id].graph.tasks[task_id], self._tasks[task_id]
        for graph in self._list_below(task_id):
            del self._graphs[graph.ns]
            for inner in list(graph.tasks):
                self._forget(inner)

    def _list_below(self, task_id: str) -> list[_Graph]:
        return [graph for graph in self._graphs.values() if graph.owner == task_id]


def sort_chunks(kept: Iterable[BufferedChunk]) -> list[Chunk]:
    """Return chunks in the order in which they were emitted."""
    return [one.chunk for one in sorted(kept, key=attrgetter("place"))]


def _take_until(
    chunks: list[BufferedChunk], checkpoint_id: str, *, itself: bool = True
) -> list[BufferedChunk]:
    """Remove and return the chunks of super-steps that started from this or an older checkpoint.

    With ``itself=False``, the chunks of the super-step that started from this checkpoint remain.
    Checkpoint ids sort by time.
    """
    taken = [one for one in chunks if one.base < checkpoint_id + itself * " "]
    chunks[:] = chunks[len(taken) :]
    return taken


def _interrupts_again(task: _Task, written: TaskWrites) -> bool:
    """Return whether a task creates the same interrupt again. This happens when a run resumes."""
    status, writes = task.graph.statuses.get(task.id), dict(written.writes)
    if status is None or INTERRUPT not in writes:
        return False
    answers: Sequence[Any] = writes.get(RESUME, ())
    return status.interrupts == tuple(writes[INTERRUPT]) and len(status.answers) == len(answers)
