"""The end of a super-step: its writes applied, the next one planned, the checkpoint stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from .. import ids
from ..constants import ERROR, INPUT, NS_END
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
    """Make the channel state that the step's tasks lead to the next checkpoint.

    The effects are to store it and to emit it.
    """
    if not _apply_tasks(state):
        return stop_run(state)
    if not state.is_silent:
        return _emit_and_store(state)
    state.has_values = state.has_values or is_output_changed(state, state.tasks)
    _finish_step(state)
    return ()


def _apply_tasks(state: LoopState) -> bool:
    """Apply what the step's tasks wrote; False where that can't be done."""
    tasks, before = state.tasks, state.channel_state
    if state.exits:
        # What is stored at the exit must not be a step that was applied by half.
        state.channel_state = before.copy()
    try:
        apply_writes(state.spec, state.channel_state, tasks, state.next_version)
    except Exception as error:
        refuse_foreign_error(state.run, error)
        # Two writes where one may be, a reducer that raises: the step's tasks have finished
        # and stay finished, the step can't be taken.
        wrote = ", ".join(f"'{name}'" for name in dict.fromkeys(t.name for t in tasks if t.writes))
        annotate(error, f"While applying the writes of {wrote} in step {state.origin.step}")
        state.outcome = Outcome("failed", next=state.list_due(), error=error)
        state.channel_state = before
        return False
    return True


def _finish_step(state: LoopState) -> None:
    """Goes on from the channel state that the step has led to."""
    state.statuses = {}
    state.run.resuming = False
    state.run.answers = {}
    _make_checkpoint(state, "loop", state.tasks)


def _emit_and_store(state: LoopState) -> Effects:
    if state.run.modes or not state.has_values:
        yield from emit_values(state, state.tasks, is_stored=False)
    _finish_step(state)
    yield from _store_checkpoint(state, raises=False)


def commit_checkpoint(state: LoopState, source: Literal["input", "loop", "fork"]) -> Effects:
    """Make the channel state a checkpoint, plans what follows, and store both at once."""
    _make_checkpoint(state, source, ())
    yield from _store_checkpoint(state, raises=True)


def _make_checkpoint(state: LoopState, source: str, ran: Sequence[Task]) -> None:
    step = state.origin.step
    if not state.is_silent:
        state.checkpoint_id = ids.new_uuid6() if state.saver is not None else None
        state.metadata = {"source": source, "step": step, "parents": state.run.checkpoint_ids}
    state.channel_state.former_names = None
    plan_step(state, step + 1)
    if state.job.kind != "submit":
        state.outcome = find_outcome(state, ran)


def plan_step(state: LoopState, step: int) -> None:
    """Plan the tasks of ``step``."""
    stop = state.origin.stop
    state.origin = StepOrigin(
        state.spec, state.channel_state.values, state.checkpoint_id, state.job.ns, step, stop
    )
    state.tasks = plan_tasks(state.spec, state.channel_state, state.origin)


def _store_checkpoint(state: LoopState, *, raises: bool) -> Effects:
    if state.records:
        yield from emit_step(state)
    if state.saver is not None:
        if not state.exits:
            yield from store(state, state.build_state_commit(state.outcome), raises=raises)
        else:
            state.commits.take_writes()
            if state.outcome is not None:
                yield from stop_run(state)
    if state.run.modes and not state.records:
        yield from emit_step(state)


def store(state: LoopState, commit: Commit, *, raises: bool = False, held: bool = False) -> Effects:
    """Store a commit.

    A value that can't be stored is the fault of the node that returned it: what the others
    wrote is stored all the same, and the run fails with an error that names it. With
    ``raises`` it is the caller's fault; with ``held`` siblings are still running.
    """
    # What the caller has given is stored before any step, and how a run ends before it has ended.
    beside = state.overlaps and commit.outcome is None and not (raises or held)
    try:
        yield state.save_beside(commit) if beside else state.save(commit)
        _release_ended(state, commit)
    except PayloadError as error:
        if raises:
            raise
        yield from _store_rest(state, commit, error, held)
    else:
        state.mark_stored((commit,))
    if state.withheld:
        yield from emit_withheld(state)


def _release_ended(state: LoopState, commit: Commit) -> None:
    """Give the thread back with the commit that ends the run.

    Whoever is told how the run ended may begin another, even if they keep the stream.
    """
    if commit.outcome is not None and state.run.lease is not None and not state.job.nested:
        state.run.lease.release()


def _store_rest(state: LoopState, commit: Commit, error: PayloadError, held: bool) -> Effects:
    """Store each task's writes that can be stored, and the others' failure."""
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
    if held:
        state.broken = outcome
        return
    state.outcome = outcome
    yield state.save(Commit(commit.config, outcome=outcome))


def stop_run(state: LoopState) -> Effects:
    """Store what is left when the run stops where it is."""
    if state.broken is not None:
        state.outcome = state.broken
    if state.saver is None:
        return
    if state.exits and state.job.nested:
        if state.outcome is not None and state.outcome.status == "finished":
            _pass_chunks_on(state)
        elif state.run.above is not None:
            # Where it waits, or has failed, it stands on what the graphs above it have come to.
            yield CallStorage(state.run.above.store_steps)
        if _is_kept_above(state):
            return
    if state.has_unsaved_commits:
        yield from _store_overdue(state)
    else:
        commit = state.commits.build(state.outcome)
        commit.grown = state.commits.list_grown(state.channel_state)
        yield from store(state, commit)


def _store_overdue(state: LoopState) -> Effects:
    """Store where a run stands that stores at its exit, and how it left."""
    commits = state.build_overdue(state.outcome)
    if len(commits) == 1:
        yield from store(state, commits[0])
        return
    reached, on_top = commits
    try:
        yield state.save_all(commits)
        _release_ended(state, on_top)
    except PayloadError:
        # One of them can be stored, perhaps: what tasks wrote stands on the checkpoint.
        yield from store(state, reached)
        if not state.has_unsaved_commits:
            yield from store(state, on_top)
    else:
        state.mark_stored(commits)


def _is_kept_above(state: LoopState) -> bool:
    """Return whether all that is stored of a run, at its exit, is what its caller does with it.

    So it is for a graph further down which has finished and begins anew at its next call.
    """
    outcome = state.outcome
    if outcome is None or outcome.status != "finished" or outcome.error is not None:
        return False
    return NS_END in state.job.ns


def _pass_chunks_on(state: LoopState) -> None:
    """Has the task that called a graph store the chunks of it, with what it returns."""
    if state.pass_on is not None:
        for chunk in state.commits.take_chunks():
            state.pass_on(chunk)
