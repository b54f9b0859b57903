"""The end of a super-step: applying writes, planning, storing the checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from .. import ids
from ..constants import ERROR, INPUT
from ..errors import PayloadError, annotate
from ..savers.checkpoint import Commit, Outcome, TaskWrites
from ..task.context import refuse_foreign_error
from ..task.task import StepOrigin, Task
from .apply import apply_writes
from .chunks import emit_step, emit_values, emit_withheld, is_output_changed
from .commit_builder import blame_node
from .effects import CallStorage, Effect, Effects
from .plan import plan_tasks
from .state import LoopState
from .stop import find_outcome


def commit_step(state: LoopState) -> Iterable[Effect]:
    """Apply the writes of the super-step's tasks and create the next checkpoint.

    Return the effects that store and emit the checkpoint.
    """
    return end_applied_step(state) if _apply_tasks(state) else stop_run(state)


def end_applied_step(state: LoopState) -> Iterable[Effect]:
    """Create the next checkpoint from the applied writes of the super-step's tasks.

    Return the effects that store and emit the checkpoint.
    """
    if state.is_silent:
        state.has_values = state.has_values or is_output_changed(state, state.tasks)
        _finish_step(state)
        return ()
    if state.has_values and "values" not in state.run.modes:
        _finish_step(state)
        return _store_checkpoint(state, raises=False)
    return _emit_and_store(state)


def _apply_tasks(state: LoopState) -> bool:
    """Apply the writes of the super-step's tasks. Return False if they can't be applied."""
    tasks, before = state.tasks, state.channel_state
    if state.exits and not state.spec.is_atomic:
        # A partially applied step must not be stored when the run stops.
        state.channel_state = before.copy()
    try:
        apply_writes(state.spec, state.channel_state, tasks, state.next_version)
    except Exception as error:
        refuse_foreign_error(state.run, error)
        # For example, a channel for one write received several, or a reducer raised an error. The
        # tasks have finished and don't run again, but the step fails.
        wrote = ", ".join(f"'{name}'" for name in dict.fromkeys(t.name for t in tasks if t.writes))
        annotate(error, f"While applying the writes of {wrote} in step {state.origin.step}")
        state.outcome = Outcome("failed", next=state.list_unfinished_nodes(), error=error)
        state.channel_state = before
        return False
    return True


def _finish_step(state: LoopState) -> None:
    state.statuses = {}
    state.run.resuming = False
    state.run.answers = {}
    _make_checkpoint(state, "loop", state.tasks)


def _emit_and_store(state: LoopState) -> Effects:
    yield from emit_values(state, state.tasks, is_stored=False)
    _finish_step(state)
    yield from _store_checkpoint(state, raises=False)


def commit_checkpoint(state: LoopState, source: Literal["input", "loop", "fork"]) -> Effects:
    """Create a checkpoint of the channel state, plan the next tasks, and store the checkpoint."""
    _make_checkpoint(state, source, ())
    yield from _store_checkpoint(state, raises=True)


def _make_checkpoint(state: LoopState, source: str, ran: Sequence[Task]) -> None:
    step = state.origin.step
    if not state.is_silent:
        # Most checkpoints of a run with durability "exit" are never stored, so their ids are
        # created on first use.
        is_stored = state.saver is not None and not state.exits
        state.checkpoint_id = ids.new_uuid6() if is_stored else None
        state.metadata = {"source": source, "step": step, "parents": state.run.checkpoint_ids}
    state.channel_state.former_names = None
    plan_step(state, step + 1)
    if state.job.kind != "submit":
        state.outcome = find_outcome(state, ran)


def plan_step(state: LoopState, step: int) -> None:
    stop = state.origin.stop
    state.origin = StepOrigin(
        state.spec, state.channel_state.values, state.checkpoint_id, state.job.ns, step, stop
    )
    state.tasks = plan_tasks(state.spec, state.channel_state, state.origin)


def _store_checkpoint(state: LoopState, *, raises: bool) -> Iterable[Effect]:
    if state.exits:
        state.commits.drop_writes()
    if state.saver is None or (state.exits and state.outcome is None):
        return emit_step(state)
    return _store_and_emit(state, raises=raises)


def _store_and_emit(state: LoopState, *, raises: bool) -> Effects:
    if state.records:
        yield from emit_step(state)
    if state.exits:
        yield from stop_run(state)
    else:
        yield from store(state, state.build_state_commit(state.outcome), raises=raises)
    if not state.records:
        yield from emit_step(state)


def store(
    state: LoopState, commit: Commit, *, raises: bool = False, has_running: bool = False
) -> Effects:
    """Store a commit.

    If a value of a task can't be stored, the writes of the other tasks are stored separately, and
    the run fails with an error that names the node. With ``raises``, nothing is stored separately,
    and the error is raised. ``has_running`` is true while other tasks are running.
    """
    # Input is stored before the first step, and the outcome before the run ends, so neither is
    # stored during a step.
    is_overlapping = state.overlaps and commit.outcome is None and not (raises or has_running)
    try:
        yield state.save_async(commit) if is_overlapping else state.save(commit)
        _release_ended(state, commit)
    except PayloadError as error:
        if raises:
            raise
        yield from _store_rest(state, commit, error, has_running)
    else:
        state.mark_stored((commit,))
    if state.withheld:
        yield from emit_withheld(state)


def _release_ended(state: LoopState, commit: Commit) -> None:
    """Release the lease on the thread if the commit ends the run.

    The lease isn't kept until the generator of the run is closed, because the caller may start
    another run as soon as the outcome is known.
    """
    if commit.outcome is not None and state.run.lease is not None and not state.job.nested:
        state.run.lease.release()


def _store_rest(
    state: LoopState, commit: Commit, error: PayloadError, has_running: bool
) -> Effects:
    """Store the writes of each task separately, after ``error`` prevented a common commit.

    If the writes of a task can't be stored, the failure of the task is stored instead.
    """
    names = {task.id: task.name for task in state.ran}
    refused: set[str | None] = {None}
    for writes in commit.writes:
        try:
            yield state.save(Commit(commit.config, [writes]))
        except PayloadError as found:
            error = blame_node(found, names.get(writes.task_id, INPUT), writes.writes)
            failure = TaskWrites(writes.task_id, writes.task_path, [(ERROR, repr(error))])
            yield state.save(Commit(commit.config, [failure]))
            refused.add(writes.task_id)
    if state.withheld:
        state.withheld = [waiting for waiting in state.withheld if waiting[0] not in refused]
    outcome = Outcome("failed", next=tuple(t.name for t in state.ran), error=error)
    if has_running:
        state.broken = outcome
        return
    state.outcome = outcome
    yield state.save(Commit(commit.config, outcome=outcome))


def stop_run(state: LoopState) -> Effects:
    """Store the unstored writes and the outcome of a run that stops."""
    if state.broken is not None:
        state.outcome = state.broken
    if state.saver is None:
        return
    if state.exits and state.job.nested:
        if state.outcome is not None and state.outcome.status == "finished":
            _pass_chunks_on(state)
        elif state.run.above is not None:
            # A paused or failed nested run depends on the stored steps of the calling graphs.
            yield CallStorage(state.run.above.store_steps)
        if _leaves_result_to_task(state):
            return
    if state.has_unsaved_commits:
        yield from _store_overdue(state)
    else:
        commit = state.commits.build(state.outcome)
        commit.grown = state.commits.list_grown(state.channel_state)
        yield from store(state, commit)


def _store_overdue(state: LoopState) -> Effects:
    """Store the super-steps and the outcome of a run with the durability "exit"."""
    commits = state.build_overdue(state.outcome)
    if len(commits) == 1:
        yield from store(state, commits[0])
        return
    checkpoint_commit, write_commit = commits
    try:
        yield state.save_all(commits)
        _release_ended(state, write_commit)
    except PayloadError:
        # One of the commits may still be valid. The writes of tasks depend on the checkpoint.
        yield from store(state, checkpoint_commit)
        if not state.has_unsaved_commits:
            yield from store(state, write_commit)
    else:
        state.mark_stored(commits)


def _leaves_result_to_task(state: LoopState) -> bool:
    """Return whether the calling task stores the result of this run of a subgraph.

    This is the case if the subgraph starts from the beginning on each call.
    """
    outcome = state.outcome
    if outcome is None or outcome.status != "finished" or outcome.error is not None:
        return False
    return state.job.starts_over


def _pass_chunks_on(state: LoopState) -> None:
    """Pass the stream chunks of a subgraph run to the calling task.

    The calling task stores them with its result.
    """
    if state.pass_on is not None:
        for chunk in state.commits.take_chunks():
            state.pass_on(chunk)
