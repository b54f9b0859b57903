"""The start of a run with new input, with a resume value, or from a stored checkpoint."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any

from ..constants import ATTEMPTS, INPUT, INTERRUPT, KEYED, NULL_TASK_ID, PULL, RESUME, START, TASKS
from ..errors import (
    EmptyInputError,
    GraphChangedError,
    PayloadError,
    PendingInterruptsError,
    ThreadNotFound,
)
from ..savers.checkpoint import CheckpointTuple
from ..task.callbacks import GraphResumeEvent
from ..task.nodes import Write
from ..task.run_context import Replay
from ..task.task import StepOrigin, Task
from ..task.task_runner import pass_input_on
from ..task.task_status import TaskStatus, collect_answers, list_own_interrupts, read_task_statuses
from ..types import Command, Interrupt, MissingResume, Send
from .apply import InputWrites, apply_writes
from .channel_state import restore_channels
from .chunks import emit_step, emit_values
from .commit import commit_checkpoint, end_applied_step, plan_step, stop_run
from .effects import CallStorage, Effect, Effects, ListCheckpoints, LoadCheckpoint, Notify
from .error_handlers import restore_handlers
from .migrated_state import replace_values
from .orphaned_triggers import drop_orphaned_triggers, find_orphaned_triggers
from .plan import plan_tasks
from .renamed_checkpoint import rename_checkpoint
from .resume import list_interrupt_ids, list_open_ids, refuse_command, take_command
from .state import LoopState
from .stop import find_outcome


def open_run(state: LoopState) -> Iterable[Effect]:
    """Prepare a run: read the stored checkpoint, apply the input, and plan the first tasks."""
    return _begin(state) if state.saver is None else _start_from_saver(state)


def _begin(state: LoopState) -> Iterable[Effect]:
    _restore(state, None)
    if isinstance(state.job.input, Command):
        refuse_command(state, state.job.input, None)
    _refuse_advance(state)
    state.run.resuming = False
    return _take_input(state, ())


def _start_from_saver(state: LoopState) -> Effects:
    """Start the run of a graph with a saver, from a stored checkpoint or with new input."""
    if not state.job.nested:
        yield from _lease_thread(state)
    saved, superseded = (None, False) if _is_new(state) else (yield from _load(state))
    saved = rename_checkpoint(state.spec, saved)
    if saved is None:
        yield from _begin(state)
        return
    _restore(state, saved)
    if state.graph.migrated is not None and not state.job.nested:
        replace_values(state.spec, state.channel_state, state.graph.migrated, state.next_version)
    command = state.job.input if isinstance(state.job.input, Command) else None
    if command is not None:
        refuse_command(state, command, saved)
    is_time_travel = state.job.addressed and not _is_answered_by(state, command)
    if is_time_travel and not state.job.nested:
        state.run.replay = Replay(_replay_bound(saved))
    pending = saved.pending_writes or []
    if is_time_travel:
        # From the view of an older checkpoint, later resume values and attempts don't exist.
        pending = [write for write in pending if write[1] not in (RESUME, KEYED, ATTEMPTS)]
    state.statuses = read_task_statuses(pending)
    null_writes = [(name, value) for task, name, value in pending if task == NULL_TASK_ID]
    if not _continues(state, command, saved):
        state.run.resuming = False
        yield from _take_input(state, null_writes)
        return

    _refuse_removed(state)
    if command is not None:
        below = yield from _list_ids_below(state)
        null_writes = take_command(state, command, null_writes, superseded, below)
    _apply_null(state, null_writes)
    state.run.resuming = True
    if state.run.passes_breakpoints or any(name == RESUME for name, _ in null_writes):
        # A caller that resumes the run passes the current breakpoint. A worker that picks up a run
        # without a resume value must not pass the breakpoint.
        state.channel_state.seen[INTERRUPT] = {INTERRUPT: state.channel_state.clock}
    if state.run.callbacks:
        yield Notify(
            GraphResumeEvent(
                state.run.config.get("run_id"), "pending", state.origin.checkpoint_id, state.ns
            )
        )
    if not state.records:
        yield from emit_values(state, None)
    source = state.metadata.get("source")
    if is_time_travel and (superseded or source not in ("update", "fork")):
        # Tasks that run again get a separate checkpoint, so that the writes of both branches remain
        # separate.
        state.statuses = {}
        state.commits.unsaved = []
        yield from commit_checkpoint(state, "fork")
        return
    plan_step(state, state.origin.step)
    if not is_time_travel and not superseded:
        _restore_finished_writes(state)
        if not state.run.reruns_unanswered:
            _keep_pending(state)
    elif superseded:
        _keep_answered(state)
    yield from _decide_opening(state)


def _lease_thread(state: LoopState) -> Effects:
    run = state.run
    assert run.saver is not None
    assert run.thread_id is not None
    lease = run.lease = run.saver.lease_thread(run.thread_id, run.stream)
    if lease is not None and not lease.in_force:
        yield CallStorage(lease.check)


def _is_answered_by(state: LoopState, command: Command[Any] | None) -> bool:
    """Return whether the caller gave resume values.

    For a subgraph, the resume values may belong to any graph of the run.
    """
    if state.job.nested:
        return bool(state.run.answers or state.run.wildcard)
    return command is not None and command.resume is not None


def _is_new(state: LoopState) -> bool:
    """Return whether the namespace of a subgraph can't have stored data.

    The namespace contains the id of the calling task. The result is true if the checkpoint from
    which this task starts isn't stored yet. No earlier attempt of the task can have stored data,
    because an attempt stores this checkpoint before its own data.
    """
    job, run = state.job, state.run
    if run.above is None or run.replay is not None or job.addressed or not state.exits:
        return False
    above: LoopState = run.above.loop_state
    return job.starts_over and above.exits and above.has_unsaved_commits


def _load(state: LoopState) -> Generator[Any, Any, tuple[CheckpointTuple | None, bool]]:
    """Return the checkpoint from which the run starts, or None without a stored checkpoint.

    The second result states whether the thread has a newer checkpoint.
    """
    config, replay = state.commits.config_for(state.job.checkpoint_id), state.run.replay
    if replay is not None and not state.job.addressed:
        # In a replay, a subgraph starts with its input again.
        state.run.resuming = False
        if replay.visits_first(state.job.ns):
            before = state.commits.config_for(replay.bound)
            earlier: list[CheckpointTuple] = yield ListCheckpoints(config, before=before, limit=1)
            return (earlier[0] if earlier else None), False
    found: CheckpointTuple | None = yield LoadCheckpoint(config)
    if not state.job.addressed:
        for ns in state.job.former_ns if found is None else ():
            found = yield LoadCheckpoint(
                {"configurable": {**config["configurable"], "checkpoint_ns": ns}}
            )
            if found is not None:
                # The history remains in its namespace, because stored data refers to the namespace.
                state.job.ns = state.commits.ns = ns
                break
        return found, False
    if found is None:
        raise ThreadNotFound(
            f"Thread {state.run.thread_id!r} has no checkpoint {state.job.checkpoint_id!r}.",
            thread_id=state.run.thread_id,
            checkpoint_id=state.job.checkpoint_id,
        )
    newest: CheckpointTuple | None = yield LoadCheckpoint(state.commits.config_for(None))
    return found, newest is not None and newest.checkpoint["id"] != found.checkpoint["id"]


def _list_ids_below(state: LoopState) -> Generator[Any, Any, Sequence[str] | None]:
    """Return the ids of the interrupts in the subgraph that the caller has selected.

    Return None if the caller has selected no subgraph.
    """
    ns = state.job.answers_ns
    checkpoint_id = state.run.checkpoint_map.get(ns)
    if not ns or checkpoint_id is None:
        return None
    place = {"thread_id": state.run.thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
    found: CheckpointTuple | None = yield LoadCheckpoint({"configurable": place})
    if found is None:
        raise ThreadNotFound(
            f"Thread {state.run.thread_id!r} has no checkpoint {checkpoint_id!r} in "
            f"namespace {ns!r}.",
            thread_id=state.run.thread_id,
            checkpoint_id=checkpoint_id,
        )
    return list_interrupt_ids(read_task_statuses(found.pending_writes or []))


def _replay_bound(saved: CheckpointTuple) -> str:
    """Return the checkpoint id that limits which states of subgraphs a replay reads.

    A replay reads only states with older ids. The limit is the id of ``saved``, the replayed
    checkpoint. If ``saved`` is an update or a fork, it was created after the subgraphs had run. The
    limit is then the id of its parent checkpoint.
    """
    if saved.metadata.get("source") in ("update", "fork") and saved.parent_config is not None:
        bound: str = saved.parent_config["configurable"]["checkpoint_id"]
        return bound
    return saved.checkpoint["id"]


def _refuse_advance(state: LoopState) -> None:
    """Raise ThreadNotFound if the run needs a stored checkpoint and the thread has none."""
    if state.job.kind == "advance":
        raise ThreadNotFound(
            f"Thread {state.run.thread_id!r} has no checkpoint to resume from.",
            thread_id=state.run.thread_id,
        )


def _continues(state: LoopState, command: Command[Any] | None, saved: CheckpointTuple) -> bool:
    """Return whether the run continues from stored data. Otherwise, it starts with new input."""
    job = state.job
    if not saved.checkpoint["channel_versions"]:
        _refuse_advance(state)
        return False
    if job.kind == "advance":
        return True
    if job.nested:
        return state.run.resuming or job.addressed
    if job.kind == "submit":
        return False
    if job.input is None or command is not None:
        return True
    run_id = (state.run.config.get("metadata") or {}).get("run_id")
    return run_id is not None and run_id == saved.metadata.get("run_id")


def _refuse_removed(state: LoopState) -> None:
    spec, channels = state.spec, state.channel_state
    due = [
        node
        for name, node in find_orphaned_triggers(spec, channels).items()
        if channels.updated is None or name in channels.updated
    ]
    due += [
        sent.node
        for sent in channels.values.get(TASKS) or ()
        if isinstance(sent, Send) and sent.node not in spec.nodes
    ]
    if due:
        missing = ", ".join(f"'{node}'" for node in sorted(set(due)))
        nodes = ", ".join(name for name in spec.nodes if name != START)
        raise GraphChangedError(
            f"Thread {state.run.thread_id!r} stopped before {missing}, which the graph no longer "
            f"contains or triggers. Nodes: {nodes}. Nothing was stored. Resume with a graph that "
            "does, or clear the pending node with update_state(config, None, as_node=END).",
            [f"node '{node}' was removed" if node not in spec.nodes
             else f"node '{node}' is triggered by different edges" for node in sorted(set(due))],
            thread_id=state.run.thread_id,
        )  # fmt: skip


def _take_input(state: LoopState, null_writes: Sequence[Write]) -> Iterable[Effect]:
    job = state.job
    pending = list_open_ids(state)
    if pending and not job.discard_pending and not job.nested:
        raise PendingInterruptsError(
            f"Thread {state.run.thread_id!r} has pending interrupts "
            f"({', '.join(pending)}); new input would discard them. Answer them first, or "
            "set the config key `discard_pending`.",
            pending,
            thread_id=state.run.thread_id,
        )
    writes = state.graph.input_writes(job.input)
    if job.kind == "submit" and START in state.graph.nodes:
        # Input that the first node rejects must not be stored.
        for _, value in writes:
            state.graph.nodes[START].collect(value)
    if not writes:
        raise EmptyInputError(f"Received no input for {state.graph.input_channels}")
    if not null_writes and _skips_input(state) and _apply_to_new_thread(state, writes):
        return end_applied_step(state)
    return _commit_input(state, writes, null_writes)


def _skips_input(state: LoopState) -> bool:
    """Return whether no checkpoint is created for the input, because it would not be visible.

    Such a checkpoint would neither be stored nor be described in the stream.
    """
    job = state.job
    if state.channel_state.versions or job.kind == "submit" or START in job.before:
        return False
    is_unsaved = state.saver is None or state.exits
    return is_unsaved and state.run.modes.isdisjoint(("checkpoints", "debug"))


def _apply_to_new_thread(state: LoopState, writes: Sequence[Write]) -> bool:
    """Apply the input without running the first super-step, and return True.

    Return False if the first super-step has to run: it runs a conditional entry point, or the input
    can't be applied.
    """
    first = _make_finished_start_task(state, writes)
    if first is None:
        return False
    spec, channels = state.spec, state.channel_state.copy()
    try:
        if state.saver is not None:
            # Stored checkpoints contain the version of the input.
            channels.versions[START] = channels.clock = state.next_version(None, None)
        apply_writes(spec, channels, [first], state.next_version)
    except Exception:
        return False
    state.channel_state, state.origin, state.tasks = channels, first.origin, [first]
    return True


def _commit_input(
    state: LoopState, writes: Sequence[Write], null_writes: Sequence[Write]
) -> Effects:
    job, channels = state.job, state.channel_state
    _apply_null(state, null_writes)
    drop_orphaned_triggers(state.spec, channels)
    # The pending tasks of the thread are marked as seen, so that they don't run.
    dropped = plan_tasks(state.spec, channels, state.origin) if channels.versions else []
    state.statuses = {}
    apply_writes(state.spec, channels, [*dropped, InputWrites(INPUT, writes)], state.next_version)
    yield from commit_checkpoint(state, "input")
    if job.kind == "submit" and not (
        state.graph.interrupt_before_nodes or state.graph.interrupt_after_nodes
    ):
        yield from _apply_input(state)


def _apply_input(state: LoopState) -> Effects:
    """Apply the input immediately if the first super-step would only pass it on to the state.

    If a conditional entry point must run first, the input is not applied. If applying the input
    fails, the first super-step runs and raises the same error.
    """
    tasks, before = state.tasks, state.channel_state
    if len(tasks) != 1 or tasks[0].name != START or not pass_input_on(tasks[0]):
        return
    state.channel_state = before.copy()
    try:
        apply_writes(state.spec, state.channel_state, tasks, state.next_version)
    except Exception:
        state.channel_state = before
        return
    state.commits.add_task(tasks[0])
    if state.run.modes:
        yield from emit_values(state, tasks)
    try:
        yield from commit_checkpoint(state, "loop")
    except PayloadError:
        return


def _make_finished_start_task(state: LoopState, writes: Sequence[Write]) -> Task | None:
    """Return the finished task that reads the input, or None if this task has to run.

    The task is hidden: it is not a node of the graph's definition.
    """
    node = state.graph.nodes.get(START)
    if node is None or len(writes) != 1 or writes[0][0] != START:
        return None
    origin = StepOrigin(
        state.spec, state.channel_state.values, None, state.job.ns, 0, state.origin.stop
    )
    task = Task(START, node, (PULL, START), node.sorted_triggers, writes[0][1], origin)
    return task if pass_input_on(task) else None


def _apply_null(state: LoopState, writes: Sequence[Write]) -> None:
    if any(name != RESUME for name, _ in writes):
        updated = state.channel_state.updated
        apply_writes(
            state.spec, state.channel_state, [InputWrites(INPUT, writes)], state.next_version
        )
        # Pending tasks remain pending. None means that all nodes are checked.
        if updated is None or state.channel_state.updated is None:
            state.channel_state.updated = None
        else:
            state.channel_state.updated |= updated


def _restore_finished_writes(state: LoopState) -> None:
    """Assign the stored writes of finished tasks to ``task.writes``.

    These tasks don't run again. A failed task whose error handler was started doesn't run again
    either. The task of the error handler is added to ``state.tasks``, and runs if it has not
    finished.
    """
    handlers = restore_handlers(state.spec, state.tasks, state.statuses)
    for handler in handlers:
        handler.failed.writes = ()
    state.tasks += handlers
    for task in state.tasks:
        status = state.statuses.get(task.id)
        if status is not None and status.finished:
            task.writes = status.output


def _keep_answered(state: LoopState) -> None:
    """Reuse the results of finished tasks with interrupts, in a run from an older checkpoint.

    The stored writes of such a task are assigned to ``task.writes``. The task runs again only if
    the caller gives a new resume value for one of its interrupts. Without a new resume value, a
    repeated task would pause at a checkpoint that isn't the thread's newest checkpoint. The pause
    would not be visible.
    """
    for task in state.tasks:
        status = state.statuses.get(task.id)
        if status is None or not status.finished or not status.interrupts:
            continue
        if state.run.answers.keys().isdisjoint(each.id for each in status.interrupts):
            task.writes = status.output


def _keep_pending(state: LoopState) -> None:
    """Keep tasks paused, without running them again, if all their interrupts are still pending.

    The stored interrupts of such a task are assigned to ``task.pending_interrupts``.
    """
    for task in state.tasks:
        status = state.statuses.get(task.id)
        if status is None or status.finished or not status.interrupts:
            continue
        own = list_own_interrupts(task.ns, status)
        answers = collect_answers(task.ns, status, state.run.answers)
        still_pending = [
            slot is not None and not _is_answered(slot, status, answers, interrupt, state)
            for interrupt, slot in own
        ]
        if all(still_pending):
            task.pending_interrupts = tuple(
                task.build_interrupt(interrupt, slot if isinstance(slot, int) else 0,
                              slot if isinstance(slot, str) else None)
                for interrupt, slot in own
            )  # fmt: skip


def _is_answered(
    slot: int | str,
    status: TaskStatus,
    answers: Sequence[Any],
    interrupt: Interrupt,
    state: LoopState,
) -> bool:
    if isinstance(slot, str):
        return slot in status.keyed or interrupt.id in state.run.answers
    return slot < len(answers) and answers[slot] != MissingResume()


def _restore(state: LoopState, saved: CheckpointTuple | None) -> None:
    step, limit = saved.metadata.get("step", -1) + 1 if saved else -1, state.job.recursion_limit
    if saved and state.job.kind == "advance":
        limit -= _count_input_steps(saved)
    state.channel_state = restore_channels(state.spec, saved.checkpoint if saved else None)
    if saved:
        state.checkpoint_id = saved.checkpoint["id"]
        state.metadata = saved.metadata
        state.commits.continue_from(saved)
    state.origin = StepOrigin(
        state.spec,
        state.channel_state.values,
        state.checkpoint_id,
        state.job.ns,
        step,
        step + limit + 1,
    )


def _count_input_steps(saved: CheckpointTuple) -> int:
    """Return the number of super-steps in which the run only stored and applied its input.

    Return 0 if other super-steps have followed, or if a task has stored writes. The super-steps for
    the input count towards the recursion limit of a call with an input, but not towards the limit
    of a call that resumes a run.
    """
    source = saved.metadata.get("source")
    if saved.pending_writes or source not in ("input", "loop"):
        return 0
    if source == "input":
        return 1
    # The start task has applied the input if no other task has seen a later version.
    seen = saved.checkpoint["versions_seen"]
    began = seen.get(START, {}).get(START)
    others = (seen[name] for name in seen if name not in (START, INPUT, INTERRUPT))
    is_last = began is not None and all(v < began for each in others for v in each.values())
    return 2 if is_last else 0


def _decide_opening(state: LoopState) -> Effects:
    """Determine the outcome of a run that has no task to run."""
    state.outcome = find_outcome(state, ())
    if state.outcome is not None and state.saver is not None:
        yield from stop_run(state)
    if not state.records:  # Recorded chunks were emitted when they were stored.
        yield from emit_step(state)
