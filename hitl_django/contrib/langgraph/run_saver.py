"""The saver of a worker's run of a LangGraph graph: fenced, on one thread, and never misread.

LangGraph hands a task its answers by position, whatever it asks there. So what a task has asked is
stored with its questions, and each answer is compared with that when it is taken.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

from langgraph._internal import _constants as keys
from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from hitl_django.contrib.langchain.message_buffer import MessageBuffer
from hitl_django.engine import ids
from hitl_django.engine.constants import (
    ASKED,
    INTERRUPT,
    NS_END,
    NS_SEP,
    NULL_TASK_ID,
    PUSH,
    RESUME,
)
from hitl_django.engine.errors import QuestionChangedError
from hitl_django.engine.graph.subgraphs import split_path
from hitl_django.engine.payload import check_json
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver as OurSaver
from hitl_django.engine.savers.checkpoint import (
    CheckpointTuple,
    Commit,
    PendingWrite,
    Question,
    TaskWrites,
)
from hitl_django.engine.types import Chunk, Interrupt, RunnableConfig
from hitl_django.services.runs.state import render_json

from .chunk_ledger import Beginning, ChunkLedger, KeptChunk, sort_chunks
from .saver import BridgedSaver
from .served_calls import ServedCalls

#: By which the metadata of a message say whose it is.
_NS = "langgraph_checkpoint_ns"


@dataclass(frozen=True, slots=True)
class AskingTask:
    """A task that waits for answers: where it is stored, and how many it has."""

    config: RunnableConfig
    task_id: str
    task_path: str
    interrupts: Sequence[Interrupt]
    answered: int

    def called_by(self, other: AskingTask) -> bool:
        """Returns whether another task has called this one, as functional graphs do."""
        called = self.task_path.startswith(f"~{PUSH}, {other.task_path}, ")
        return called and self.config == other.config

    def list_questions(self, ns: str) -> Iterator[Question]:
        """Yields what the task at a namespace asks itself; what is asked below it isn't its own."""
        ref, name = self.config["configurable"], split_path(ns)[-1]
        own = ids.make_interrupt_id(ns, self.answered)
        for one in self.interrupts:
            if one.id == own:
                payload = render_json(one.value)
                check_json(payload, "The question")
                yield Question(
                    Interrupt(payload, one.id, response_schema=one.response_schema),
                    name, self.task_id, self.task_path, ref["checkpoint_ns"],
                    ref["checkpoint_id"], self.answered,
                )  # fmt: skip


class _HeldWrites(NamedTuple):
    """The writes of a task on a checkpoint of its graph, and what stores them."""

    ns: str
    base: str
    store: Callable[[], None]


class RunSaver(BridgedSaver):
    """Stores a run by a worker's saver, all calls of which are made on the worker's thread.

    Each chunk goes with the commit of what it describes; what models say is stored before that,
    too, as they say it. Nothing is stored before the checkpoint that it stands on, which another
    worker wouldn't find; ``at_exit`` has all stored at once. ``failure`` is what the worker's
    saver has raised, ``misplaced`` says which answer would have reached another question than its
    own. ``passed`` are the checkpoints at whose breakpoint a person has let the run go on.
    """

    def __init__(
        self,
        saver: OurSaver,
        calls: ServedCalls,
        thread_id: str,
        ledger: ChunkLedger,
        *,
        at_exit: bool,
    ) -> None:
        super().__init__(saver)
        self._calls, self._thread_id, self._ledger = calls, thread_id, ledger
        self._at_exit = at_exit
        self.failure: BaseException | None = None
        self.misplaced: QuestionChangedError | None = None
        self.passed: set[str] = set()
        self._asking: dict[str, AskingTask] = {}
        #: What tasks have asked so far: hashes by position.
        self._asked: dict[str, Mapping[str, str]] = {}
        #: What stores the writes of tasks whose end hasn't been emitted.
        self._held: dict[str, _HeldWrites] = {}
        #: What is stored at the exit.
        self._collected: list[Commit] = []
        #: The newest checkpoints that are stored, by namespace, and those that somebody awaits.
        self._stored: dict[str, str] = {}
        self._awaited: dict[str, Future[None]] = {}
        self._messages = MessageBuffer()
        #: Parts of messages that are to be stored, and what comes of storing them.
        self._spoken: list[Chunk] = []
        self._said: Future[None] | None = None
        self._lock = Lock()

    def put_writes(
        self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = ""
    ) -> None:
        """Stores what a task wrote, or leaves that until the end of the task is emitted.

        LangGraph does both at once, on two threads; within an event loop, it emits first.
        """
        store = partial(self._store_writes, config, writes, task_id, task_path)
        with self._lock:
            if not self._ledger.has_ended(task_id):
                ref = config["configurable"]
                self._held[task_id] = _HeldWrites(
                    ref.get("checkpoint_ns", ""), ref["checkpoint_id"], store
                )
                return
        store()

    def _store_writes(self, config: Any, *written: Any) -> None:
        for stored in self._list_awaited(config):
            stored.result()
        super().put_writes(config, *written)

    async def aput_writes(
        self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = ""
    ) -> None:
        """Stores what a task wrote."""
        for stored in self._list_awaited(config):
            await asyncio.shield(asyncio.wrap_future(stored))
        await super().aput_writes(config, writes, task_id, task_path)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Stores a checkpoint, behind the writes of tasks whose end nothing is emitted of."""
        for stored in self._list_awaited(config):
            stored.result()
        ns = config["configurable"].get("checkpoint_ns", "")
        self._store_held(lambda held: held.ns == ns and held.base < checkpoint["id"])
        return super().put(config, checkpoint, metadata, new_versions)

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Stores a checkpoint."""
        for stored in self._list_awaited(config):
            await asyncio.shield(asyncio.wrap_future(stored))
        return await super().aput(config, checkpoint, metadata, new_versions)

    def _list_awaited(self, config: Any) -> list[Future[None]]:
        """Returns what has to be done before something is stored on a checkpoint.

        With the durability ``async`` LangGraph begins a super-step before its checkpoint is stored.
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

    def store_rest(self) -> None:
        """Stores what waits for the end of its task, or of the run."""
        self._store_held(lambda held: True)
        self._perform(self._store_collected)

    def _store_held(self, is_due: Callable[[_HeldWrites], bool]) -> None:
        with self._lock:
            due = [task_id for task_id, held in self._held.items() if is_due(held)]
            stores = [self._held.pop(task_id).store for task_id in due]
        for store in stores:
            store()

    def add_chunk(self, chunk: Chunk) -> None:
        """Adds what LangGraph emits; stores the writes of the task that it is the end of."""
        ended = self._ledger.add_chunk(chunk)
        with self._lock:
            held = None if ended is None else self._held.pop(ended, None)
        if held is not None:
            # Some of LangGraph's threads have nobody to hear of it; the next call raises it.
            with suppress(Exception):
                held.store()

    def add_message(self, chunk: Chunk) -> None:
        """Adds a part of a message, and has what was said stored where it is time for that.

        A model that speaks faster waits for that. What a task says that had finished before is said
        already: LangGraph runs an error handler again.
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
        """Removes and returns what is said by tasks whose checkpoint is stored.

        ``stored`` are the newest by namespace. ``whole`` is with what isn't to be stored yet.
        """
        taken: list[Chunk] = []
        with self._lock:
            if whole:
                self._spoken += self._messages.take()
            spoken, self._spoken = self._spoken, []
            for chunk in spoken:
                stands = self._ledger.stands(chunk[2][1][_NS], stored)
                (taken if stands else self._spoken).append(chunk)
        return taken

    def take_rest(self, status: str) -> list[Chunk]:
        """Removes and returns the chunks that go with the run's outcome."""
        spoken = [*self._spoken, *self._messages.take()]
        return [*spoken, *self._ledger.take_rest(status)]

    def list_questions(self, names: Mapping[str, str]) -> list[Question]:
        """Returns what tasks ask that wait; ``names`` are their nodes by task id."""
        found = [
            question
            for task in self._asking.values()
            for question in task.list_questions(self._find_ns(task, names))
        ]
        return sorted(found, key=lambda one: (one.checkpoint_ns, one.task_path, one.task_id))

    def _find_ns(self, task: AskingTask, names: Mapping[str, str]) -> str:
        above = task.config["configurable"]["checkpoint_ns"]
        for other in self._asking.values():
            if task.called_by(other):
                above = self._find_ns(other, names)
        own = f"{names.get(task.task_id, '')}{NS_END}{task.task_id}"
        return f"{above}{NS_SEP}{own}" if above else own

    def record_asked(self, question: Question) -> Commit:
        """Returns the commit that has the task remember what it has asked."""
        asked = {
            **self._asked.get(question.task_id, {}),
            str(question.index): ids.hash_json(question.interrupt.value),
        }
        writes = [TaskWrites(question.task_id, question.task_path, [(ASKED, asked)])]
        return Commit(self._asking[question.task_id].config, writes=writes)

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
        """Returns whether a graph below has stored a checkpoint in the call that loads it.

        One compiled with ``checkpointer=True`` may have done so in an earlier super-step. In the
        first of a run that is taken up LangGraph would have it go on from there, which is its
        end, and the call would do nothing.
        """
        above = self._ledger.list_bases_above(ns)
        if not above or NS_END in ns.rpartition(NS_SEP)[2]:
            return True
        around, base = above[0]
        return bool((found.metadata or {}).get("parents", {}).get(around) == base)

    def _commit(self, commit: Commit) -> None:
        if self._at_exit:
            self._collected.append(commit)
        else:
            self._store([commit])

    def _store_collected(self) -> None:
        collected, self._collected = self._collected, []
        if collected:
            self._store(collected)

    def _store(self, commits: list[Commit]) -> None:
        """Stores what LangGraph gave by some calls, with what it has emitted of that."""
        added = {_get_ns(one): one.checkpoint["id"] for one in commits if one.checkpoint}
        stored = self._stored | added
        begun: list[Commit] = []
        kept: list[KeptChunk] = []
        for commit in commits:
            ns = _get_ns(commit)
            # The super-steps of the graphs around this one have begun before it.
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
                self._note_asking(commit.config, task)
        for ns, checkpoint_id in added.items():
            self._note_stored(ns, checkpoint_id)

    def _note_stored(self, ns: str, checkpoint_id: str) -> None:
        with self._lock:
            self._stored[ns] = max(checkpoint_id, self._stored.get(ns, ""))
            awaited = self._awaited.pop(checkpoint_id, None)
        if awaited is not None:
            awaited.set_result(None)

    def _record_beginning(self, begun: Beginning) -> Commit:
        """Returns the commit by which something is stored of a super-step that has begun."""
        ref = {
            "thread_id": self._thread_id,
            "checkpoint_ns": begun.ns,
            "checkpoint_id": begun.checkpoint_id,
        }
        asked = [(ASKED, self._asked.get(begun.task_id, {}))]
        writes = [TaskWrites(begun.task_id, "", asked)]
        return Commit({"configurable": ref}, writes=writes)

    def _note_asking(self, config: RunnableConfig, task: TaskWrites) -> None:
        written = dict(task.writes)
        if INTERRUPT in written:
            self._asking[task.task_id] = AskingTask(
                config, task.task_id, task.task_path, written[INTERRUPT],
                len(written.get(RESUME, ())),
            )  # fmt: skip
        else:
            self._asking.pop(task.task_id, None)

    def _list_writes(self, found: CheckpointTuple) -> Sequence[PendingWrite]:
        pending = found.pending_writes or ()
        self._asked |= {task: value for task, name, value in pending if name == ASKED}
        kept: list[PendingWrite] = []
        for task, name, value in super()._list_writes(found):
            if name != RESUME:
                kept.append((task, name, value))
            elif task == NULL_TASK_ID:
                # To LangGraph it would be the answer to whatever is asked next.
                self.passed.add(found.checkpoint["id"])
            else:
                given = _CheckedAnswers(value, self._asked.get(task, {}), self._refuse)
                kept.append((task, name, given))
        return kept

    def _refuse(self, index: int) -> None:
        self.misplaced = QuestionChangedError(
            f"A node asks something else than was answered (question {index + 1} of its task). "
            "Code before an interrupt() has to do the same thing each time it runs."
        )
        raise GraphInterrupt(())


def _get_ns(commit: Commit) -> str:
    return str(commit.config["configurable"].get("checkpoint_ns", ""))


class _CheckedAnswers(list[Any]):
    """The answers of a task by position, each for the question that it was given to.

    ``interrupt`` looks one up without saying what it asks, so its caller is looked at.
    """

    def __init__(
        self, answers: Sequence[Any], asked: Mapping[str, str], refuse: Callable[[int], None]
    ) -> None:
        super().__init__(answers)
        self._asked, self._refuse = asked, refuse

    def __getitem__(self, index: Any) -> Any:
        caller = sys._getframe(1)
        if isinstance(index, int) and caller.f_code is interrupt.__code__:
            asked = ids.hash_json(render_json(caller.f_locals["value"]))
            if self._asked.get(str(index), asked) != asked:
                self._refuse(index)
        return super().__getitem__(index)
