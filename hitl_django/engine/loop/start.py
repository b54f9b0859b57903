"""Starts a run: with new input, an answer, from an older checkpoint, or where it stopped."""

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
from .commit import commit_checkpoint, commit_step, plan_step, stop_run
from .effects import CallStorage, Effect, Effects, List, Load, Notify
from .error_handlers import restore_handlers
from .migrated_state import replace_values
from .orphaned_triggers import drop_orphaned_triggers, find_orphaned_triggers
from .plan import plan_tasks
from .renamed_checkpoint import rename_checkpoint
from .resume import list_interrupt_ids, list_open_ids, refuse_command, take_command
from .state import LoopState
from .stop import find_outcome


def open_run(state: LoopState) -> Iterable[Effect]:
    """Bring the state to the first tasks it has to run."""
    return _begin(state) if state.saver is None else _take_up(state)


def _begin(state: LoopState) -> Iterable[Effect]:
    """Open a run of which nothing is stored."""
    _restore(state, None)
    if isinstance(state.job.input, Command):
        refuse_command(state, state.job.input, None)
    _refuse_advance(state)
    state.run.resuming = False
    return _take_input(state, ())


def _take_up(state: LoopState) -> Effects:
    """Open a run of which there may be something stored."""
    if not state.job.nested:
        yield from _lease_thread(state)
    saved, superseded = yield from _load(state)
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
    travels = state.job.addressed and not _is_answered_by(state, command)
    if travels and not state.job.nested:
        state.run.replay = Replay(_replay_bound(saved))
    pending = saved.pending_writes or []
    if travels:
        # Seen from an older checkpoint, what was answered and tried later never was.
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
        # Passing the breakpoint it stands at is what going on means; a worker that picks up a
        # run which nobody answered must not.
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
    if travels and (superseded or source not in ("update", "fork")):
        # What runs again gets a checkpoint of its own, so that this branch and the one that was
        # there don't mix their writes.
        state.statuses = {}
        state.commits.unsaved = []
        yield from commit_checkpoint(state, "fork")
        return
    plan_step(state, state.origin.step)
    if not travels and not superseded:
        _reapply(state)
        if not state.run.reruns_unanswered:
            _keep_waiting(state)
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
    """Return whether the caller answers what is asked, here or in a graph above."""
    if state.job.nested:
        return bool(state.run.answers or state.run.wildcard)
    return command is not None and command.resume is not None


def _load(state: LoopState) -> Generator[Any, Any, tuple[CheckpointTuple | None, bool]]:
    """Read the checkpoint to start from, and whether the thread has moved past it."""
    config, replay = state.commits.config_for(state.job.checkpoint_id), state.run.replay
    if replay is not None and not state.job.addressed:
        # The graph below a replay takes its input again.
        state.run.resuming = False
        if replay.visits_first(state.job.ns):
            before = state.commits.config_for(replay.bound)
            earlier: list[CheckpointTuple] = yield List(config, before=before, limit=1)
            return (earlier[0] if earlier else None), False
    found: CheckpointTuple | None = yield Load(config)
    if not state.job.addressed:
        for ns in state.job.former_ns if found is None else ():
            found = yield Load({"configurable": {**config["configurable"], "checkpoint_ns": ns}})
            if found is not None:
                # Its history stays where it is: what is stored there refers to itself.
                state.job.ns = state.commits.ns = ns
                break
        return found, False
    if found is None:
        raise ThreadNotFound(
            f"Thread {state.run.thread_id!r} has no checkpoint {state.job.checkpoint_id!r}.",
            thread_id=state.run.thread_id,
            checkpoint_id=state.job.checkpoint_id,
        )
    newest: CheckpointTuple | None = yield Load(state.commits.config_for(None))
    return found, newest is not None and newest.checkpoint["id"] != found.checkpoint["id"]


def _list_ids_below(state: LoopState) -> Generator[Any, Any, Sequence[str] | None]:
    """Return the ids of what a graph further down asks, or None where the caller named none."""
    ns = state.job.answers_ns
    checkpoint_id = state.run.checkpoint_map.get(ns)
    if not ns or checkpoint_id is None:
        return None
    place = {"thread_id": state.run.thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
    found: CheckpointTuple | None = yield Load({"configurable": place})
    if found is None:
        raise ThreadNotFound(
            f"Thread {state.run.thread_id!r} has no checkpoint {checkpoint_id!r} in "
            f"namespace {ns!r}.",
            thread_id=state.run.thread_id,
            checkpoint_id=checkpoint_id,
        )
    return list_interrupt_ids(read_task_statuses(found.pending_writes or []))


def _replay_bound(saved: CheckpointTuple) -> str:
    """Return the checkpoint id before which a replay looks for what graphs below had stored.

    An update or a fork was made after the graphs below had run, so it is the checkpoint above it.
    """
    if saved.metadata.get("source") in ("update", "fork") and saved.parent_config is not None:
        bound: str = saved.parent_config["configurable"]["checkpoint_id"]
        return bound
    return saved.checkpoint["id"]


def _refuse_advance(state: LoopState) -> None:
    """Raise ThreadNotFound where a run is to go on from a checkpoint that isn't there."""
    if state.job.kind == "advance":
        raise ThreadNotFound(
            f"Thread {state.run.thread_id!r} has no checkpoint to resume from.",
            thread_id=state.run.thread_id,
        )


def _continues(state: LoopState, command: Command[Any] | None, saved: CheckpointTuple) -> bool:
    """Return whether the run continues what is stored rather than take new input."""
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
    """Raise GraphChangedError where a node is due that the graph doesn't have any more."""
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
        gone = ", ".join(f"'{node}'" for node in sorted(set(due)))
        nodes = ", ".join(name for name in spec.nodes if name != START)
        raise GraphChangedError(
            f"Thread {state.run.thread_id!r} stopped before {gone}, which the graph no longer "
            f"contains or triggers. Nodes: {nodes}. Nothing was stored. Resume with a graph that "
            "does, or clear the pending node with update_state(config, None, as_node=END).",
            [f"node '{node}' was removed" if node not in spec.nodes
             else f"node '{node}' is triggered by different edges" for node in sorted(set(due))],
            thread_id=state.run.thread_id,
        )  # fmt: skip


# New input.


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
        # What the first node would refuse is refused before it is stored.
        for _, value in writes:
            state.graph.nodes[START].collect(value)
    if not writes:
        raise EmptyInputError(f"Received no input for {state.graph.input_keys}")
    if state.is_silent and (first := _first(state, writes)):
        # Nobody can look at the input before it has been handed on.
        state.origin, state.tasks = first.origin, [first]
        return commit_step(state)
    return _commit_input(state, writes, null_writes)


def _commit_input(
    state: LoopState, writes: Sequence[Write], null_writes: Sequence[Write]
) -> Effects:
    """Make the input a checkpoint of its own."""
    job, channels = state.job, state.channel_state
    _apply_null(state, null_writes)
    drop_orphaned_triggers(state.spec, channels)
    # What the thread would have run next is marked as seen, so that it doesn't run after all.
    dropped = plan_tasks(state.spec, channels, state.origin) if channels.versions else []
    state.statuses = {}
    apply_writes(state.spec, channels, [*dropped, InputWrites(INPUT, writes)], state.next_version)
    yield from commit_checkpoint(state, "input")
    if job.kind == "submit" and not (state.graph.interrupt_before or state.graph.interrupt_after):
        yield from _hand_on(state)


def _hand_on(state: LoopState) -> Effects:
    """Take the step in which the input becomes state, where that is all it does.

    A graph that chooses where to begin does so when it runs. What goes wrong here is left to the
    run as well, which meets it again and can report it.
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


def _first(state: LoopState, writes: Sequence[Write]) -> Task | None:
    """Return the hidden first task, ended, where it only hands on the input."""
    node = state.graph.nodes.get(START)
    if node is None or len(writes) != 1 or writes[0][0] != START:
        return None
    origin = StepOrigin(
        state.spec, state.channel_state.values, None, state.job.ns, 0, state.origin.stop
    )
    task = Task(START, node, (PULL, START), node.sorted_triggers, writes[0][1], origin)
    return task if pass_input_on(task) else None


# What is stored beside the checkpoint.


def _apply_null(state: LoopState, writes: Sequence[Write]) -> None:
    if any(name != RESUME for name, _ in writes):
        updated = state.channel_state.updated
        apply_writes(
            state.spec, state.channel_state, [InputWrites(INPUT, writes)], state.next_version
        )
        # What was due stays due; None stands for whatever the nodes have not seen yet.
        if updated is None or state.channel_state.updated is None:
            state.channel_state.updated = None
        else:
            state.channel_state.updated |= updated


def _reapply(state: LoopState) -> None:
    """Give finished tasks their stored writes back, so that they don't run again.

    A task whose failure went to a handler has ended too; its handler runs, or has run.
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
    """Leave tasks their results that others' answers are given beside, where all else runs again.

    They were answered on the branch that is left; asked again here, they would stop a run that
    nobody finds, as the thread's newest checkpoint is another one.
    """
    for task in state.tasks:
        status = state.statuses.get(task.id)
        if status is None or not status.finished or not status.interrupts:
            continue
        if state.run.answers.keys().isdisjoint(each.id for each in status.interrupts):
            task.writes = status.output


def _keep_waiting(state: LoopState) -> None:
    """Leave alone what waits for an answer that isn't there: running it would only ask again."""
    for task in state.tasks:
        status = state.statuses.get(task.id)
        if status is None or status.finished or not status.interrupts:
            continue
        own = list_own_interrupts(task.ns, status)
        answers = collect_answers(task.ns, status, state.run.answers)
        waits = [
            slot is not None and not _is_answered(slot, status, answers, interrupt, state)
            for interrupt, slot in own
        ]
        if all(waits):
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
    """Take up a stored checkpoint, or begins before the first."""
    step = saved.metadata.get("step", -1) + 1 if saved else -1
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
        step + state.job.recursion_limit + 1,
    )


def _decide_opening(state: LoopState) -> Effects:
    """Settle whether a run that starts from a stored checkpoint goes on at all."""
    state.outcome = find_outcome(state, ())
    if state.outcome is not None and state.saver is not None:
        yield from stop_run(state)
    if not state.records:  # else that was emitted when it was stored
        yield from emit_step(state)
