"""The super-step machine: plans, has tasks run, applies what they wrote, and says what to store.

Sans-IO: a generator that yields effects and is told what came of them. It never touches a saver,
a thread or an event loop, so the sync and the async driver perform the same one, and a run can be
stopped between any two effects without losing anything that was stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .. import ids
from ..constants import NO_WRITES
from ..errors import DrainSignal, InvalidAnswerError, ParentCommand, annotate
from ..savers.checkpoint import CheckpointMetadata, CheckpointTuple, Outcome, stored_metadata
from ..task.context import TaskContext, refuse_storage_error
from ..task.nodes import Write
from ..task.run_context import RunContext
from ..task.task_memory import NO_MEMORY, Memory
from ..task.task_runner import passes_on
from . import chunks as telling
from . import start, stream_modes
from . import stop as stopping
from .apply import NextVersion, apply, count_version
from .commit import leave, state_commit, store
from .commit_builder import Ledger
from .effects import AWAIT, CANCEL, Effect, Effects, Emit, Job, Notify, Run, RunBeside
from .error_handlers import failure_of, hand_over, takes
from .graph_spec import State
from .node_cache import Recaller
from .plan import Origin, Task, plan, read_state
from .task_status import TaskStatus, answers_for

if TYPE_CHECKING:
    from ..graph.pregel import Pregel

#: What leaves the siblings alone: a wrong answer, which is the reviewer's mistake and can be given
#: again, and a drain, which lets everybody come to an edge.
_MILD = (InvalidAnswerError, DrainSignal)
NOTHING: list[Write] = [(NO_WRITES, None)]


class Loop:
    """One run of one graph.

    ``outcome`` says how it ended. ``wanted`` are the stream modes of the caller itself.
    """

    def __init__(
        self,
        graph: Pregel,
        job: Job,
        run: RunContext,
        wanted: frozenset[str],
        output_keys: Sequence[str] | str | None = None,
    ) -> None:
        self.graph, self.job, self.run, self.wanted = graph, job, run, wanted
        if output_keys is None:
            self.output_keys, self.output_set = graph.output_keys, graph.output_set
        else:
            self.output_keys = output_keys
            self.output_set = frozenset(
                (output_keys,) if isinstance(output_keys, str) else output_keys
            )
        self.blueprint = graph.blueprint
        self.saver = run.saver
        self.next_version: NextVersion = (
            run.saver.get_next_version if run.saver is not None else count_version
        )
        self.exits = run.durability == "exit" and run.saver is not None
        #: Whether what it tells is stored, with the commits that it tells of.
        self.records = run.notes is not None and not job.nested
        #: Whether nothing is stored, and nobody listens.
        self.is_silent = run.saver is None and not run.modes
        self.outcome: Outcome | None = None
        self.has_values = False
        self.stopped_after = False
        self.tasks: list[Task] = []
        #: The tasks of the step that is being run and stored.
        self.ran: list[Task] = []
        self.statuses: dict[str, TaskStatus] = {}
        self.state: State
        self.origin: Origin
        self.checkpoint_id: str | None = None
        self.metadata: CheckpointMetadata = {}
        self.ledger = Ledger(self.blueprint, run.thread_id, job.ns)
        self.user_metadata = stored_metadata(run.config) if run.saver or run.modes else {}
        #: Whether failures may go to a handler, or results come from the cache.
        self.careful = graph.blueprint.handled or graph.cache is not None
        self.recaller = None if graph.cache is None else Recaller()
        #: How many tasks of the step have been started and not taken in.
        self.running = 0
        #: A failure that was met while siblings were still running.
        self.broken: Outcome | None = None

    # The machine.

    def effects(self) -> Effects:
        """Runs the graph; yields what has to be done outside."""
        yield from start.open_run(self)
        if self.job.kind == "submit":
            return
        while self.outcome is None:
            task = self._lone_task()
            if task is None:
                yield from self._super_step()
                continue
            # Most steps have one task: nothing to wait for, to drop or to store beside it.
            if not passes_on(task) and not (yield Run([self.context_of(task)])):
                yield AWAIT
            if chunks := self._settle(task):
                yield Emit(chunks)
            yield from self._end_step() if task.writes is None else self.commit_step()
        if self.run.callbacks and self.outcome.status == "interrupted" and not self.job.nested:
            yield Notify(stopping.pause_event(self, self.outcome))

    def _lone_task(self) -> Task | None:
        """Returns the step's one task, where it is to run and that is all there is to the step."""
        tasks = self.tasks
        if len(tasks) != 1 or self.careful:
            return None
        task = tasks[0]
        if task.writes is not None or task.questions or task.error is not None:
            return None
        self.ran = tasks
        return task

    def _super_step(self) -> Effects:
        self.ran = self.tasks
        todo = [t for t in self.tasks if t.writes is None and not t.questions]
        if todo and not _failed(todo):
            if self.recaller is not None:
                todo = yield from self.recaller.recall(self, todo)
            if todo and not _failed(todo):
                yield from self._run_tasks(todo)
        yield from self._end_step()

    def _end_step(self) -> Iterable[Effect]:
        """Returns the effects of a step whose tasks have ended, whatever became of them."""
        if self.broken is not None:
            return leave(self)
        if failed := _failed(self.ran):
            return self._fail(failed)
        if [task for task in self.ran if task.questions]:
            return self._pause()
        return self.commit_step()

    def _run_tasks(self, tasks: Sequence[Task]) -> Effects:
        self.running = len(tasks)
        ended = yield Run([self.context_of(task) for task in tasks])
        yield from self.take_in(ended)
        while self.running:
            yield from self.take_in((yield AWAIT))

    def take_in(self, ended: Sequence[Task]) -> Effects:
        """Settles tasks that have ended while their siblings may be running.

        While these effects wait for tasks to end, a driver may perform those of another call.
        """
        while ended:
            self.running -= len(ended)
            failed = False
            for task in ended:
                failed = failed or task.error is not None
                if chunks := self._settle(task):
                    yield Emit(chunks)
            if self.recaller is not None:
                yield from self.recaller.keep(ended)
            handlers = self._hand_over(ended) if failed else ()
            if self.running and failed and any(_stops_siblings(task) for task in ended):
                self.running -= yield CANCEL
            if (self.running or handlers) and self.saver is not None and not self.exits:
                # A sibling is still running: what has finished must not depend on it. Nor may a
                # node run again because its handler didn't come to its end.
                yield from store(self, self.ledger.commit(None), held=True)
            ended = ()
            if handlers and self.broken is None:
                contexts = [self.context_of(task) for task in handlers]
                beside = bool(self.running)
                self.running += len(handlers)
                ended = yield RunBeside(contexts) if beside else Run(contexts)

    def _hand_over(self, ended: Sequence[Task]) -> Sequence[Task]:
        """Gives failures to their nodes' handlers; returns those that may start now.

        None may once a failure that nobody takes has failed the run: they wait for the next one.
        """
        handlers = [hand_over(self.blueprint, task) for task in ended if takes(task)]
        self.tasks.extend(handlers)
        return () if any(_stops_siblings(task) for task in self.tasks) else handlers

    def context_of(self, task: Task) -> TaskContext:
        """Returns what a task that is about to run knows from before."""
        status = self.statuses.get(task.id) if self.statuses else None
        if status is None and not self.run.answers:
            return TaskContext(task, self.run, NO_MEMORY)
        memory = Memory.of(status) if status else Memory()
        if self.run.answers:
            memory.answers = answers_for(task.ns, status, self.run.answers)
        return TaskContext(task, self.run, memory)

    def _settle(self, task: Task) -> Sequence[stream_modes.Chunk]:
        """Notes what became of a task; returns what there is to tell of it."""
        if self.saver is not None:
            self.ledger.note(task)
        if task.writes is not None and not task.writes:
            task.writes = NOTHING
        return telling.of_task(self, task) if self.run.modes and not task.node.hidden else ()

    def _fail(self, failed: Sequence[Task]) -> Effects:
        errors = [task.error for task in failed if task.error is not None]
        real = [error for error in errors if not isinstance(error, _MILD)]
        error = (real or errors)[0]
        self.outcome = Outcome("failed", next=self.due(), error=error)
        if isinstance(error, ParentCommand) and self.job.nested:
            self.outcome = Outcome("finished", error=error)
        elif isinstance(error, DrainSignal):
            self.outcome = Outcome("drained", next=self.due())
        yield from leave(self)

    def _pause(self) -> Effects:
        questions = tuple(q for task in self.tasks for q in task.questions)
        self.outcome = Outcome("interrupted", questions, self.due())
        self.has_values = True
        yield from leave(self)
        done = [task for task in self.tasks if task.writes]
        if done and not self.job.nested:
            # What finished beside the pause is stored as pending; the caller sees it applied.
            self.state = self.state.copy()
            apply(self.blueprint, self.state, done, self.next_version)
            yield from self.emit_values(done)

    def commit_step(self) -> Iterable[Effect]:
        """Makes the state that the step's tasks lead to the next checkpoint.

        The effects are to store and to tell of it.
        """
        if not self._apply():
            return leave(self)
        if not self.is_silent:
            return self._go_on_telling()
        self.has_values = self.has_values or self._is_output_changed(self.tasks)
        self._go_on()
        return ()

    def _apply(self) -> bool:
        """Applies what the step's tasks wrote; False where that can't be done."""
        tasks = self.tasks
        if self.exits:
            # What is stored at the exit must not be a step that was applied by half.
            self.state = self.state.copy()
        try:
            apply(self.blueprint, self.state, tasks, self.next_version)
        except Exception as error:
            refuse_storage_error(self.run, error)
            # Two writes where one may be, a reducer that raises: the step's tasks have finished
            # and stay finished, the step can't be taken.
            wrote = ", ".join(
                f"'{name}'" for name in dict.fromkeys(t.name for t in tasks if t.writes)
            )
            annotate(error, f"While applying what {wrote} wrote in step {self.origin.step}")
            self.outcome = Outcome("failed", next=self.due(), error=error)
            self.state.touched = set()
            return False
        return True

    def _go_on(self) -> None:
        """Goes on from the state that the step has led to."""
        self.statuses = {}
        self.run.resuming = False
        self.run.answers = {}
        self._make_checkpoint("loop", self.tasks)

    def _go_on_telling(self) -> Effects:
        if self.run.modes or not self.has_values:
            yield from self.emit_values(self.tasks)
        self._go_on()
        yield from self._store_checkpoint(raises=False)

    # Between two super-steps.

    def commit_checkpoint(self, source: str) -> Effects:
        """Makes the state a checkpoint, plans what follows, and stores both facts at once."""
        self._make_checkpoint(source, ())
        yield from self._store_checkpoint(raises=True)

    def _make_checkpoint(self, source: str, ran: Sequence[Task]) -> None:
        step = self.origin.step
        if not self.is_silent:
            self.checkpoint_id = ids.new_uuid6() if self.saver is not None else None
            self.metadata = {"source": source, "step": step, "parents": self.run.checkpoint_ids}
        self.begin_step(step + 1)
        if self.job.kind != "submit":
            self.outcome = stopping.outcome_between(self, ran)

    def _store_checkpoint(self, *, raises: bool) -> Effects:
        if self.records:
            yield from self.emit_step()
        if self.saver is not None:
            if not self.exits:
                yield from store(self, state_commit(self, self.outcome), raises=raises)
            else:
                self.ledger.unsaved = []
                if self.outcome is not None:
                    yield from leave(self)
        if self.run.modes and not self.records:
            yield from self.emit_step()

    def begin_step(self, step: int) -> None:
        """Plans the tasks of ``step``."""
        stop = self.origin.stop
        self.origin = Origin(
            self.blueprint, self.state.values, self.checkpoint_id, self.job.ns, step, stop
        )
        self.tasks = plan(self.blueprint, self.state, self.origin)

    def decide_opening(self) -> Effects:
        """Settles whether a run that starts from a stored checkpoint goes on at all."""
        self.outcome = stopping.outcome_between(self, ())
        if self.outcome is not None and self.saver is not None:
            yield from leave(self)
        if not self.records:  # else it was told when it was stored
            yield from self.emit_step()

    def restore(self, saved: CheckpointTuple | None) -> None:
        """Takes up a stored checkpoint, or begins before the first."""
        step = saved.metadata.get("step", -1) + 1 if saved else -1
        self.state = self.blueprint.state_from(saved.checkpoint if saved else None)
        if saved:
            self.checkpoint_id = saved.checkpoint["id"]
            self.metadata = saved.metadata
            self.ledger.take_up(saved)
        self.origin = Origin(
            self.blueprint,
            self.state.values,
            self.checkpoint_id,
            self.job.ns,
            step,
            step + self.job.recursion_limit + 1,
        )

    # What the caller is told.

    @property
    def ns(self) -> tuple[str, ...]:
        """The namespace by its levels, as it stands before whatever is told."""
        return tuple(self.job.ns.split("|")) if self.job.ns else ()

    def due(self) -> tuple[str, ...]:
        """Returns the names of the step's tasks that have yet to come to their end."""
        return tuple(t.name for t in self.tasks if not t.writes and failure_of(t) is None)

    def values(self) -> Any:
        """Returns the output channels' values."""
        return self.read(self.output_keys)

    def read(self, keys: Sequence[str] | str) -> Any:
        """Returns one channel's value, or a dict of several."""
        if isinstance(keys, str):
            return read_state(self.blueprint, self.state.values, (keys,)).get(keys)
        return read_state(self.blueprint, self.state.values, keys)

    def emit_values(self, tasks: Sequence[Task] | None) -> Effects:
        """Emits the state where what ``tasks`` wrote reached it (None: in any case)."""
        if tasks is not None and not self._is_output_changed(tasks):
            return
        self.has_values = True
        if "values" in self.run.modes:
            yield Emit([(self.ns, "values", self.values())])

    def _is_output_changed(self, tasks: Sequence[Task]) -> bool:
        """Tells whether an output channel was updated, and by what one of ``tasks`` wrote."""
        output = self.output_set
        if output.isdisjoint(self.state.updated or ()):
            return False
        for task in tasks:
            for name, _ in task.writes or ():
                if name in output:
                    return True
        return False

    def emit_step(self) -> Effects:
        """Emits what there is to tell of the super-step about to begin."""
        if self.run.modes and (chunks := telling.of_step(self)):
            yield Emit(chunks)


def _failed(tasks: Sequence[Task]) -> list[Task]:
    return [task for task in tasks if task.error is not None]


def _stops_siblings(task: Task) -> bool:
    return task.error is not None and not isinstance(task.error, _MILD)
