"""The saver of a worker's run of a LangGraph graph: fenced, on one thread, and never misread.

LangGraph hands a task its answers by position, whatever it asks there. So what a task has asked is
stored with its questions, and each answer is compared with that when it is taken.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any

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

from .chunk_ledger import Beginning, ChunkLedger
from .saver import BridgedSaver
from .served_calls import ServedCalls


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


class RunSaver(BridgedSaver):
    """Stores a run by a worker's saver, all calls of which are made on the worker's thread.

    Each chunk goes with the commit of what it describes; what models say is stored before that,
    too, as they say it. ``failure`` is what the worker's saver has raised, ``misplaced`` says
    which answer would have reached another question than its own. ``passed`` are the checkpoints
    at whose breakpoint a person has let the run go on.
    """

    def __init__(
        self, saver: OurSaver, calls: ServedCalls, thread_id: str, ledger: ChunkLedger
    ) -> None:
        super().__init__(saver)
        self._calls, self._thread_id, self._ledger = calls, thread_id, ledger
        self.failure: BaseException | None = None
        self.misplaced: QuestionChangedError | None = None
        self.passed: set[str] = set()
        self._asking: dict[str, AskingTask] = {}
        #: What tasks have asked so far: hashes by position.
        self._asked: dict[str, Mapping[str, str]] = {}
        #: What stores the writes of tasks whose end hasn't been emitted, with their namespaces.
        self._held: dict[str, tuple[str, Callable[[], None]]] = {}
        self._messages = MessageBuffer()
        self._lock = Lock()

    def put_writes(
        self, config: Any, writes: Sequence[Any], task_id: str, task_path: str = ""
    ) -> None:
        """Stores what a task wrote, or leaves that until the end of the task is emitted.

        LangGraph does both at once, on two threads; within an event loop, it emits first.
        """
        store = partial(super().put_writes, config, writes, task_id, task_path)
        with self._lock:
            if not self._ledger.has_ended(task_id):
                self._held[task_id] = config["configurable"].get("checkpoint_ns", ""), store
                return
        store()

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Stores a checkpoint, behind the writes of tasks whose end nothing is emitted of."""
        self.store_held(config["configurable"].get("checkpoint_ns", ""))
        return super().put(config, checkpoint, metadata, new_versions)

    def store_held(self, ns: str | None = None) -> None:
        """Stores the writes that wait for the end of their task: all, or those of a namespace."""
        with self._lock:
            waiting = [one for one, held in self._held.items() if ns is None or held[0] == ns]
            stores = [self._held.pop(task_id)[1] for task_id in waiting]
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
                held[1]()

    def add_message(self, chunk: Chunk) -> None:
        """Adds a part of a message, and has what was said stored where it is time for that."""
        ns, mode, _ = chunk
        if self._ledger.is_event(ns, mode) and self._messages.add(chunk):
            with self._lock:  # what is taken first is stored first
                self._calls.submit(self._store_messages, self._messages.take())

    def _store_messages(self, taken: list[Chunk]) -> None:
        root = {"thread_id": self._thread_id, "checkpoint_ns": ""}
        try:
            self._saver.commit(Commit({"configurable": root}, chunks=taken))
        except BaseException as error:
            self.failure = self.failure or error
            raise

    def take_rest(self, status: str) -> list[Chunk]:
        """Removes and returns the chunks that go with the run's outcome."""
        return [*self._messages.take(), *self._ledger.take_rest(status)]

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
            self.failure = self.failure or error
            raise

    async def _aperform(self, function: Callable[..., Any], *args: Any) -> Any:
        self._raise_failure()
        try:
            return await asyncio.wrap_future(self._calls.submit(function, *args))
        except Exception as error:
            self.failure = self.failure or error
            raise

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _load(self, config: Any) -> CheckpointTuple | None:
        found = super()._load(config)
        self._ledger.enter_graph(config, found)
        return found

    def _commit(self, commit: Commit) -> None:
        ref = commit.config["configurable"]
        ns, messages = ref.get("checkpoint_ns", ""), self._messages.take()
        # The super-steps of the graphs around this one have begun before it.
        begun = [self._record_beginning(one) for one in self._ledger.take_beginnings(ns)]
        if commit.checkpoint is not None:
            taken = self._ledger.take_of_checkpoint(ns, commit.checkpoint["id"])
        else:
            (written,) = commit.writes
            taken = self._ledger.take_of_task(ns, ref["checkpoint_id"], written)
        commit.chunks = [*messages, *taken]
        self._saver.commit_all([*reversed(begun), commit])
        for task in commit.writes:
            self._note_asking(commit.config, task)

    def _record_beginning(self, begun: Beginning) -> Commit:
        """Returns the commit by which something is stored of a super-step that has begun."""
        ref = {
            "thread_id": self._thread_id,
            "checkpoint_ns": begun.ns,
            "checkpoint_id": begun.checkpoint_id,
        }
        asked = [(ASKED, self._asked.get(begun.task_id, {}))]
        writes = [TaskWrites(begun.task_id, "", asked)]
        return Commit({"configurable": ref}, writes=writes, chunks=begun.chunks)

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
