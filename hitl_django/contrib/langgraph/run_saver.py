"""The saver with which a worker runs a LangGraph graph.

The saver's calls are made in order on one OS thread. If the worker has lost its lease, a call
fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from threading import Lock
from typing import Any, NamedTuple

from langgraph._internal import _constants as keys

from hitl_django.contrib.langchain.message_buffer import MessageBuffer
from hitl_django.engine.constants import (
    ASKED,
    NS_END,
    NS_SEP,
)
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver as OurSaver
from hitl_django.engine.savers.checkpoint import (
    CheckpointTuple,
    Commit,
    PendingWrite,
    TaskWrites,
)
from hitl_django.engine.types import Chunk

from .cross_thread_calls import CrossThreadCalls
from .saver import BridgedSaver
from .task_contexts import TaskContexts
from .task_interrupts import TaskInterrupts
from .uncommitted_chunks import Beginning, BufferedChunk, UncommittedChunks, sort_chunks

#: Metadata keys that identify the task to which a message belongs.
_NS = "langgraph_checkpoint_ns"


class _PendingWrites(NamedTuple):
    """The writes of a task, as passed by LangGraph.

    ``config`` selects the checkpoint from which the task started.
    """

    config: Any
    writes: Sequence[Any]
    task_id: str
    task_path: str

    def precede(self, ns: str, checkpoint_id: str) -> bool:
        """Return whether these writes precede the checkpoint ``checkpoint_id`` in ``ns``.

        The result is true if the task belongs to the graph in the namespace ``ns``, and started
        from a checkpoint that is older than ``checkpoint_id``.
        """
        ref = self.config["configurable"]
        return ref.get("checkpoint_ns", "") == ns and ref["checkpoint_id"] < checkpoint_id


class RunSaver(BridgedSaver):
    """Saver for a worker's run of a LangGraph graph. It stores all data with the worker's saver.

    The methods of the worker's saver are called on the worker's OS thread. A stream chunk is stored
    in the same commit as the state that the chunk describes. Message chunks are also stored
    earlier, while the model streams. The writes and chunks of a super-step are stored only after
    the checkpoint from which the super-step started, because another worker finds them by this
    checkpoint. With ``at_exit``, everything is stored at the end. ``failure`` is the exception that
    the worker's saver raised.
    """

    def __init__(
        self,
        saver: OurSaver,
        calls: CrossThreadCalls,
        thread_id: str,
        ledger: UncommittedChunks,
        *,
        at_exit: bool,
    ) -> None:
        super().__init__(saver)
        self._calls, self._thread_id, self._ledger = calls, thread_id, ledger
        self._at_exit = at_exit
        self.failure: BaseException | None = None
        self.task_interrupts = TaskInterrupts()
        #: Writes of tasks whose end has not been emitted yet.
        self._held: dict[str, _PendingWrites] = {}
        #: Commits that are stored at the end of the run.
        self._collected: list[Commit] = []
        #: The newest stored checkpoint by namespace, and futures of checkpoints that are being
        #: stored.
        self._stored: dict[str, str] = {}
        self._awaited: dict[str, Future[None]] = {}
        self.task_contexts = TaskContexts(
            saver, thread_id, self.task_interrupts, self._perform, self._list_awaited,
            ledger.find_status,
        )  # fmt: skip
        self._messages = MessageBuffer()
        #: Message chunks that are not stored yet, and the future of the current store.
        self._spoken: list[Chunk] = []
        self._said: Future[None] | None = None
        self._lock = Lock()

    def put_writes(
        self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task, but only after the chunk for the end of the task was emitted.

        LangGraph writes and emits concurrently on two OS threads. On an event loop, LangGraph emits
        first.
        """
        held = _PendingWrites(config, writes, task_id, task_path)
        with self._lock:
            if not self._ledger.has_ended(task_id):
                self._held[task_id] = held
                return
        self._store_pending([held])

    async def aput_writes(
        self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task.

        If a cached result may belong to this task or to another task (see ``is_ambiguous``), the
        writes are kept. They are stored later, in one commit with the writes of the other task.
        """
        if self._ledger.is_ambiguous(task_id):
            with self._lock:
                self._held[task_id] = _PendingWrites(config, writes, task_id, task_path)
            return
        for stored in self._list_awaited(config):
            await asyncio.shield(asyncio.wrap_future(stored))
        await super().aput_writes(config, writes, task_id, task_path)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Store a checkpoint. Writes of tasks whose end was not emitted yet are stored first."""
        for stored in self._list_awaited(config):
            stored.result()
        ns = config["configurable"].get("checkpoint_ns", "")
        self._store_pending(self._take_pending(lambda held: held.precede(ns, checkpoint["id"])))
        return super().put(config, checkpoint, metadata, new_versions)

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Store a checkpoint, together with the writes of tasks that belong in the same commit."""
        for stored in self._list_awaited(config):
            await asyncio.shield(asyncio.wrap_future(stored))
        ns = config["configurable"].get("checkpoint_ns", "")
        if held := self._take_pending(lambda held: held.precede(ns, checkpoint["id"])):
            await self._aperform(self._put_pending, held)
        return await super().aput(config, checkpoint, metadata, new_versions)

    def _list_awaited(self, config: Any) -> list[Future[None]]:
        """Return the futures to wait for before writes or the next checkpoint are stored.

        The futures complete when the checkpoint in ``config``, and the checkpoints of the calling
        graphs, are stored. With the durability ``async``, LangGraph starts a super-step before its
        checkpoint is stored.
        """
        if self._at_exit:
            return []
        given = config["configurable"]
        ns = given.get("checkpoint_ns", "")
        bases = [(ns, given.get("checkpoint_id") or ""), *self._ledger.list_bases_above(ns)]
        with self._lock:
            self._raise_failure()
            return [
                self._awaited.setdefault(base, Future())
                for ns, base in bases
                if base > self._stored.get(ns, "")
            ]

    def find_task_context(self, name: str, configurable: Mapping[str, Any]) -> Any:
        """Return the context of the running task.

        ``name`` is the called function, such as ``once``.

        Raises:
            RuntimeError: the task can't store results of this function.
        """
        if self._at_exit:
            raise RuntimeError(
                f'{name}() can\'t be called with durability="exit", because LangGraph then stores '
                "nothing before the run stops."
            )
        task_ns = configurable[keys.CONFIG_KEY_CHECKPOINT_NS]
        checkpoint_ids = configurable[keys.CONFIG_KEY_CHECKPOINT_MAP]
        ns = self._ledger.find_graph_ns(task_ns, checkpoint_ids)
        if ns is None:
            raise RuntimeError(
                f"{name}() was called in a graph that stores no state. Compile the graph without "
                "checkpointer=False."
            )
        return self.task_contexts.find_context(configurable, ns, checkpoint_ids[ns])

    def store_rest(self) -> None:
        """Store the remaining writes of tasks and their stream chunks, at the end of the run."""
        self._store_pending(self._take_pending(lambda held: True))
        self._perform(self._store_collected)

    def _take_pending(self, is_due: Callable[[_PendingWrites], bool]) -> list[_PendingWrites]:
        with self._lock:
            due = [task_id for task_id, held in self._held.items() if is_due(held)]
            return [self._held.pop(task_id) for task_id in due]

    def _store_pending(self, held: Sequence[_PendingWrites]) -> None:
        if not held:
            return
        for one in held:
            for stored in self._list_awaited(one.config):
                stored.result()
        self._perform(self._put_pending, held)

    def _put_pending(self, held: Sequence[_PendingWrites]) -> None:
        # Use one commit, because a cached update may belong to any of these tasks.
        self._commit_all([self._build_commit(*one) for one in held])

    def add_chunk(self, chunk: Chunk) -> None:
        """Add a stream chunk from LangGraph.

        If the chunk is the last one of a task, the task's writes are also stored.
        """
        ended = self._ledger.add_chunk(chunk)
        with self._lock:
            held = None if ended is None else self._held.pop(ended, None)
        if held is not None:
            # Some of LangGraph's OS threads discard exceptions, so the next call raises the
            # exception.
            with suppress(Exception):
                self._store_pending([held])

    def add_message(self, chunk: Chunk) -> None:
        """Add a message chunk, and start to store the buffered chunks if there are enough.

        If the previous chunks are still being stored, this method waits. LangGraph runs an error
        handler again on resume, so chunks of a task that has already finished are ignored.
        """
        ns, mode, (_, metadata) = chunk
        if not self._ledger.is_event(ns, mode) or self._ledger.is_over(metadata[_NS]):
            return
        if self._messages.add(chunk) and not self._at_exit:
            if self._said is not None:
                wait([self._said])
            with self._lock:
                self._spoken += self._messages.take()
                self._said = self._calls.submit(self._store_messages)

    def _store_messages(self) -> None:
        root = {"thread_id": self._thread_id, "checkpoint_ns": ""}
        try:
            if taken := self._take_spoken(self._stored):
                self._saver.commit(Commit({"configurable": root}, chunks=taken))
        except BaseException as error:
            self._fail(error)
            raise

    def _take_spoken(self, stored: Mapping[str, str], *, whole: bool = False) -> list[Chunk]:
        """Remove and return the message chunks of tasks that started from a stored checkpoint.

        ``stored`` are the newest stored checkpoint ids by namespace. With ``whole``, the buffer of
        message chunks is emptied first, so that its chunks are included.
        """
        taken: list[Chunk] = []
        with self._lock:
            if whole:
                self._spoken += self._messages.take()
            spoken, self._spoken = self._spoken, []
            for chunk in spoken:
                is_stored = self._ledger.is_base_stored(chunk[2][1][_NS], stored)
                (taken if is_stored else self._spoken).append(chunk)
        return taken

    def take_rest(self, status: str) -> list[Chunk]:
        """Return the chunks to store at the end of the run. ``status`` is the run's outcome."""
        spoken = [*self._spoken, *self._messages.take()]
        return [*spoken, *self._ledger.take_rest(status)]

    def _perform(self, function: Callable[..., Any], *args: Any) -> Any:
        self._raise_failure()
        try:
            return self._calls.ask(function, *args)
        except BaseException as error:
            self._fail(error)
            raise

    async def _aperform(self, function: Callable[..., Any], *args: Any) -> Any:
        self._raise_failure()
        try:
            return await asyncio.wrap_future(self._calls.submit(function, *args))
        except Exception as error:
            self._fail(error)
            raise

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self.failure = self.failure or error
            awaited, self._awaited = self._awaited, {}
        for stored in awaited.values():
            stored.set_exception(error)

    def _load(self, config: Any) -> CheckpointTuple | None:
        ns = config["configurable"].get("checkpoint_ns", "")
        if any(_get_ns(commit) == ns for commit in self._collected):
            self._store_collected()
        found = super()._load(config)
        self._ledger.enter_graph(config, found)
        if found is not None:
            self._note_stored(ns, found.checkpoint["id"])
            if not self._is_of_this_call(ns, found):
                config["configurable"].pop(keys.CONFIG_KEY_RESUMING, None)
        return found

    def _is_of_this_call(self, ns: str, found: CheckpointTuple) -> bool:
        """Return whether the current call of a subgraph has stored the checkpoint ``found``.

        A subgraph with ``checkpointer=True`` also loads the checkpoint of an earlier call, which
        ended in an earlier super-step. In the first super-step of a resumed run, LangGraph would
        resume from this checkpoint, and the current call would end without running any node.
        """
        above = self._ledger.list_bases_above(ns)
        if not above or NS_END in ns.rpartition(NS_SEP)[2]:
            return True
        around, base = above[0]
        return bool((found.metadata or {}).get("parents", {}).get(around) == base)

    def _commit(self, commit: Commit) -> None:
        self._commit_all([commit])

    def _commit_all(self, commits: list[Commit]) -> None:
        if self._at_exit:
            self._collected += commits
        else:
            self._store(commits)

    def _store_collected(self) -> None:
        collected, self._collected = self._collected, []
        if collected:
            self._store(collected)

    def _store(self, commits: list[Commit]) -> None:
        """Store commits, together with the stream chunks of the same tasks and super-steps."""
        added = {_get_ns(one): one.checkpoint["id"] for one in commits if one.checkpoint}
        stored = self._stored | added
        begun: list[Commit] = []
        kept: list[BufferedChunk] = []
        for commit in commits:
            ns = _get_ns(commit)
            # The super-steps of parent graphs started before this super-step.
            for one in self._ledger.take_beginnings(ns, stored):
                begun.append(self._record_beginning(one))
                kept += one.chunks
            if commit.checkpoint is not None:
                kept += self._ledger.take_of_checkpoint(ns, commit.checkpoint["id"])
            for written in commit.writes:
                base = commit.config["configurable"]["checkpoint_id"]
                kept += self._ledger.take_of_task(ns, base, written)
        commits[0].chunks = [*self._take_spoken(stored, whole=True), *sort_chunks(kept)]
        self._saver.commit_all([*begun, *commits])
        for commit in commits:
            for task in commit.writes:
                self.task_interrupts.note_writes(commit.config, task)
        for ns, checkpoint_id in added.items():
            self._note_stored(ns, checkpoint_id)

    def _note_stored(self, ns: str, checkpoint_id: str) -> None:
        with self._lock:
            self._stored[ns] = max(checkpoint_id, self._stored.get(ns, ""))
            awaited = self._awaited.pop(checkpoint_id, None)
        if awaited is not None:
            awaited.set_result(None)

    def _record_beginning(self, begun: Beginning) -> Commit:
        """Return the commit that stores the start of a super-step."""
        ref = {
            "thread_id": self._thread_id,
            "checkpoint_ns": begun.ns,
            "checkpoint_id": begun.checkpoint_id,
        }
        asked = [(ASKED, self.task_interrupts.get_task_interrupts(begun.task_id))]
        writes = [TaskWrites(begun.task_id, "", asked)]
        return Commit({"configurable": ref}, writes=writes)

    def _list_writes(self, found: CheckpointTuple) -> Sequence[PendingWrite]:
        return self.task_interrupts.check_answers(found, super()._list_writes(found))


def find_task_context(configurable: Mapping[str, Any], name: str) -> Any:
    """Return the context of the running LangGraph task.

    If the task belongs to a graph that wasn't started by a worker, the result is None.

    ``name`` is the called function, such as ``once``.

    Raises:
        RuntimeError: the task can't store results of this function.
    """
    saver = configurable.get(keys.CONFIG_KEY_CHECKPOINTER)
    return saver.find_task_context(name, configurable) if isinstance(saver, RunSaver) else None


def _get_ns(commit: Commit) -> str:
    return str(commit.config["configurable"].get("checkpoint_ns", ""))
