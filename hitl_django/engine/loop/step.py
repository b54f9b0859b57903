"""One super-step: run tasks, process each task when it ends, and end the super-step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..constants import NO_WRITES
from ..errors import DrainSignal, InvalidAnswerError, ParentCommand
from ..savers.checkpoint import Outcome
from ..task.context import TaskContext
from ..task.nodes import Write
from ..task.task import Task
from ..task.task_memory import NO_MEMORY, TaskMemory
from ..task.task_status import collect_answers
from ..types import Chunk
from .apply import apply_writes
from .cached_results import cache_results, read_cached_results
from .chunks import build_breakpoint_chunks, build_task_chunks, emit_values, emit_writes
from .commit import commit_step, stop_run, store
from .effects import AWAIT, CANCEL, Effect, Effects, RunTasks, StartTasks
from .error_handlers import has_handler, start_handler
from .state import LoopState

#: Errors that don't cancel other tasks: an invalid response, which the reviewer can correct, and a
#: drain, which lets all tasks finish.
_MILD = (InvalidAnswerError, DrainSignal)
_NOTHING: list[Write] = [(NO_WRITES, None)]


def run_step(state: LoopState) -> Effects:
    """Run the planned tasks that have not ended yet, and end the super-step."""
    state.ran = state.tasks
    todo = [t for t in state.tasks if t.writes is None and not t.pending_interrupts]
    if todo and not _list_failed(todo):
        if state.cache_keys is not None:
            todo = yield from read_cached_results(state, todo)
        if todo and not _list_failed(todo):
            yield from _run_tasks(state, todo)
    yield from end_step(state)


def end_step(state: LoopState) -> Iterable[Effect]:
    """Return the effects that end a super-step. All of its tasks must have ended."""
    if state.broken is not None:
        return stop_run(state)
    if failed := _list_failed(state.ran):
        return _fail(state, failed)
    if [task for task in state.ran if task.pending_interrupts]:
        return _pause(state)
    return commit_step(state)


def _run_tasks(state: LoopState, tasks: Sequence[Task]) -> Effects:
    state.running = len(tasks)
    ended = yield RunTasks([build_context(state, task) for task in tasks])
    yield from take_in(state, ended)
    while state.running:
        yield from take_in(state, (yield AWAIT))


def take_in(state: LoopState, ended: Sequence[Task]) -> Effects:
    """Process ended tasks, while other tasks may be running.

    Some effects wait for tasks. The function may therefore be called for other ended tasks before
    all effects of an earlier call are performed.
    """
    while ended:
        state.running -= len(ended)
        failed = False
        for task in ended:
            failed = failed or task.error is not None
            if chunks := settle_task(state, task):
                yield from emit_writes(state, task, chunks)
        if state.cache_keys is not None:
            yield from cache_results(state.cache_keys, ended)
        handlers = _start_handlers(state, ended) if failed else ()
        if state.running and failed and any(_stops_siblings(task) for task in ended):
            state.running -= yield CANCEL
        if (state.running or handlers) and state.saver is not None and not state.exits:
            # Finished tasks must be stored independently of running tasks. A node must not run
            # again because its error handler was interrupted.
            yield from store(state, state.commits.build(None), has_running=True)
        ended = ()
        if handlers and state.broken is None:
            contexts = [build_context(state, task) for task in handlers]
            has_running = bool(state.running)
            state.running += len(handlers)
            ended = yield StartTasks(contexts) if has_running else RunTasks(contexts)


def _start_handlers(state: LoopState, ended: Sequence[Task]) -> Sequence[Task]:
    """Return the tasks of the error handlers that must start now, for failed tasks in ``ended``.

    If another task failed without an error handler, the run fails. The result is then empty, and
    the error handlers start in the next run.
    """
    handlers = [start_handler(state.spec, task) for task in ended if has_handler(task)]
    state.tasks.extend(handlers)
    return () if any(_stops_siblings(task) for task in state.tasks) else handlers


def build_context(state: LoopState, task: Task) -> TaskContext:
    """Return the context in which a task runs, with the once() results of earlier attempts."""
    status = state.statuses.get(task.id) if state.statuses else None
    if status is None and not state.run.answers:
        return TaskContext(task, state.run, NO_MEMORY)
    memory = TaskMemory.from_status(status) if status else TaskMemory()
    if state.run.answers:
        memory.answers = collect_answers(task.ns, status, state.run.answers)
    return TaskContext(task, state.run, memory)


def settle_task(state: LoopState, task: Task) -> Sequence[Chunk]:
    """Add an ended task to the next commit, and return the stream chunks about the task."""
    if state.saver is not None:
        state.commits.add_task(task)
    if task.writes is not None and not task.writes:
        task.writes = _NOTHING
    return build_task_chunks(state, task) if state.run.modes and not task.node.hidden else ()


def leave_run(state: LoopState, ended: Sequence[Task]) -> Effects:
    """Store the results of finished tasks when the caller abandons the run.

    ``ended`` are the finished tasks that the loop has not processed.
    """
    for task in ended:
        state.commits.add_task(task)
    yield from stop_run(state)


def _fail(state: LoopState, failed: Sequence[Task]) -> Effects:
    errors = [task.error for task in failed if task.error is not None]
    real = [error for error in errors if not isinstance(error, _MILD)]
    error = (real or errors)[0]
    state.outcome = Outcome("failed", next=state.list_unfinished_nodes(), error=error)
    if isinstance(error, ParentCommand) and state.job.nested:
        state.outcome = Outcome("finished", error=error)
    elif isinstance(error, DrainSignal):
        state.outcome = Outcome("drained", next=state.list_unfinished_nodes())
    yield from stop_run(state)


def _pause(state: LoopState) -> Effects:
    pending_interrupts = tuple(q for task in state.tasks for q in task.pending_interrupts)
    state.outcome = Outcome("interrupted", pending_interrupts, state.list_unfinished_nodes())
    state.has_values = True
    has_interrupts = any(task.interrupts for task in state.tasks)
    if not has_interrupts and (chunks := build_breakpoint_chunks(state)):
        yield from emit_writes(state, None, chunks)
    yield from stop_run(state)
    done = [task for task in state.tasks if task.writes]
    if done and not state.job.nested:
        # Writes of tasks that finished during the pause are stored as pending, but the caller's
        # state includes them.
        state.channel_state = state.channel_state.copy()
        apply_writes(state.spec, state.channel_state, done, state.next_version)
        yield from emit_values(state, done)


def _list_failed(tasks: Sequence[Task]) -> list[Task]:
    return [task for task in tasks if task.error is not None]


def _stops_siblings(task: Task) -> bool:
    return task.error is not None and not isinstance(task.error, _MILD)
