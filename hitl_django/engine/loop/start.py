"""How a run begins: with new input, an answer, from an older checkpoint, or where it stopped."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..constants import ATTEMPTS, INPUT, INTERRUPT, KEYED, NULL_TASK_ID, PULL, RESUME, START, TASKS
from ..errors import (
    EmptyInputError,
    GraphChangedError,
    OpenQuestionsError,
    PayloadError,
    ThreadNotFound,
)
from ..savers.checkpoint import CheckpointTuple
from ..task.callbacks import GraphResumeEvent
from ..task.nodes import Write
from ..task.run_context import Replay
from ..task.task_runner import passes_on
from ..types import Command, Interrupt, Send, Unanswered
from .apply import InputWrites, apply
from .effects import Effect, Effects, List, Load, Notify
from .error_handlers import restored
from .orphaned_triggers import forget_left_over, left_over
from .plan import Origin, Task, plan
from .resume import open_ids, refuse_command, take_command
from .task_status import TaskStatus, answers_for, own_questions, read_task_statuses

if TYPE_CHECKING:
    from .loop import Loop


def open_run(loop: Loop) -> Iterable[Effect]:
    """Brings the loop to the first tasks it has to run."""
    return _begin(loop) if loop.saver is None else _take_up(loop)


def _begin(loop: Loop) -> Iterable[Effect]:
    """Opens a run of which nothing is stored."""
    loop.restore(None)
    if isinstance(loop.job.input, Command):
        refuse_command(loop, loop.job.input, None)
    _refuse_advance(loop)
    loop.run.resuming = False
    return _take_input(loop, ())


def _take_up(loop: Loop) -> Effects:
    """Opens a run of which there may be something stored."""
    saved, superseded = yield from _load(loop)
    if saved is None:
        yield from _begin(loop)
        return
    loop.restore(saved)
    command = loop.job.input if isinstance(loop.job.input, Command) else None
    if command is not None:
        refuse_command(loop, command, saved)
    resumes = command is not None and command.resume is not None
    travels = loop.job.addressed and (loop.job.nested or not resumes)
    if travels and not loop.job.nested:
        loop.run.replay = Replay(_replay_bound(saved))
    pending = saved.pending_writes or []
    if travels:
        # Seen from an older checkpoint, what was answered and tried later never was.
        pending = [write for write in pending if write[1] not in (RESUME, KEYED, ATTEMPTS)]
    loop.statuses = read_task_statuses(pending)
    null_writes = [(name, value) for task, name, value in pending if task == NULL_TASK_ID]
    if not _goes_on(loop, command, saved):
        loop.run.resuming = False
        yield from _take_input(loop, null_writes)
        return

    _refuse_removed(loop)
    if command is not None:
        null_writes = take_command(loop, command, null_writes, superseded)
    _apply_null(loop, null_writes)
    loop.run.resuming = True
    if loop.run.passes_breakpoints or any(name == RESUME for name, _ in null_writes):
        # Passing the breakpoint it stands at is what going on means; a worker that picks up a
        # run which nobody answered must not.
        loop.state.seen[INTERRUPT] = {INTERRUPT: loop.state.clock}
    if loop.run.callbacks:
        yield Notify(
            GraphResumeEvent(
                loop.run.config.get("run_id"), "pending", loop.origin.checkpoint_id, loop.ns
            )
        )
    if not loop.records:
        yield from loop.emit_values(None)
    source = loop.metadata.get("source")
    if travels and (superseded or source not in ("update", "fork")):
        # What runs again gets a checkpoint of its own, so that this branch and the one that was
        # there don't mix their writes.
        loop.statuses = {}
        loop.ledger.unsaved = []
        yield from loop.commit_checkpoint("fork")
        return
    loop.begin_step(loop.origin.step)
    if not travels and not superseded:
        _reapply(loop)
        if not loop.run.reruns_unanswered:
            _keep_waiting(loop)
    elif superseded:
        _keep_answered(loop)
    yield from loop.decide_opening()


def _load(loop: Loop) -> Generator[Any, Any, tuple[CheckpointTuple | None, bool]]:
    """Reads the checkpoint to start from, and whether the thread has moved past it."""
    config, replay = loop.ledger.config_for(loop.job.checkpoint_id), loop.run.replay
    if replay is not None and not loop.job.addressed:
        # The graph below a replay takes its input again.
        loop.run.resuming = False
        if replay.visits_first(loop.job.ns):
            before = loop.ledger.config_for(replay.bound)
            earlier: list[CheckpointTuple] = yield List(config, before=before, limit=1)
            return (earlier[0] if earlier else None), False
    found: CheckpointTuple | None = yield Load(config)
    if not loop.job.addressed:
        return found, False
    if found is None:
        raise ThreadNotFound(
            f"Thread {loop.run.thread_id!r} has no checkpoint {loop.job.checkpoint_id!r}.",
            thread_id=loop.run.thread_id,
            checkpoint_id=loop.job.checkpoint_id,
        )
    newest: CheckpointTuple | None = yield Load(loop.ledger.config_for(None))
    return found, newest is not None and newest.checkpoint["id"] != found.checkpoint["id"]


def _replay_bound(saved: CheckpointTuple) -> str:
    """Returns the checkpoint id before which a replay looks for what graphs below had stored.

    An update or a fork was made after the graphs below had run, so it is the checkpoint above it.
    """
    if saved.metadata.get("source") in ("update", "fork") and saved.parent_config is not None:
        bound: str = saved.parent_config["configurable"]["checkpoint_id"]
        return bound
    return saved.checkpoint["id"]


def _refuse_advance(loop: Loop) -> None:
    """Raises ThreadNotFound where a run is to go on from a checkpoint that isn't there."""
    if loop.job.kind == "advance":
        raise ThreadNotFound(
            f"Thread {loop.run.thread_id!r} has no checkpoint to go on from.",
            thread_id=loop.run.thread_id,
        )


def _goes_on(loop: Loop, command: Command[Any] | None, saved: CheckpointTuple) -> bool:
    """Tells whether the run continues what is stored rather than take new input."""
    job = loop.job
    if not saved.checkpoint["channel_versions"]:
        _refuse_advance(loop)
        return False
    if job.kind == "advance":
        return True
    if job.nested:
        return loop.run.resuming or job.addressed
    if job.kind == "submit":
        return False
    if job.input is None or command is not None:
        return True
    run_id = (loop.run.config.get("metadata") or {}).get("run_id")
    return run_id is not None and run_id == saved.metadata.get("run_id")


def _refuse_removed(loop: Loop) -> None:
    """Raises GraphChangedError where a node is due that the graph doesn't have any more."""
    blueprint, state = loop.blueprint, loop.state
    due = [
        node
        for name, node in left_over(blueprint, state).items()
        if state.updated is None or name in state.updated
    ]
    due += [
        sent.node
        for sent in state.values.get(TASKS) or ()
        if isinstance(sent, Send) and sent.node not in blueprint.nodes
    ]
    if due:
        gone = ", ".join(f"'{node}'" for node in sorted(set(due)))
        nodes = ", ".join(name for name in blueprint.nodes if name != START)
        raise GraphChangedError(
            f"Thread {loop.run.thread_id!r} stopped before {gone}, which the graph doesn't start "
            f"any more. Nodes: {nodes}. Nothing was stored. Go on with a graph that does, or "
            "clear what is due with update_state(config, None, as_node=END).",
            [f"node '{node}' is gone" if node not in blueprint.nodes
             else f"node '{node}' is started by other edges now" for node in sorted(set(due))],
            thread_id=loop.run.thread_id,
        )  # fmt: skip


# New input.


def _take_input(loop: Loop, null_writes: Sequence[Write]) -> Iterable[Effect]:
    job = loop.job
    asked = open_ids(loop)
    if asked and not job.discard_pending and not job.nested:
        raise OpenQuestionsError(
            f"Thread {loop.run.thread_id!r} waits for answers ({', '.join(asked)}); new input "
            "would lose them. Answer them first, or set the config key `discard_pending`.",
            asked,
            thread_id=loop.run.thread_id,
        )
    writes = loop.graph.input_writes(job.input)
    if job.kind == "submit" and START in loop.graph.nodes:
        # What the first node would refuse is refused before it is stored.
        for _, value in writes:
            loop.graph.nodes[START].collect(value)
    if not writes:
        raise EmptyInputError(f"Received no input for {loop.graph.input_keys}")
    if loop.is_silent and (first := _first(loop, writes)):
        # Nobody can look at the input before it has been handed on.
        loop.origin, loop.tasks = first.origin, [first]
        return loop.commit_step()
    return _commit_input(loop, writes, null_writes)


def _commit_input(loop: Loop, writes: Sequence[Write], null_writes: Sequence[Write]) -> Effects:
    """Makes the input a checkpoint of its own."""
    job, state = loop.job, loop.state
    _apply_null(loop, null_writes)
    forget_left_over(loop.blueprint, state)
    # What the thread would have run next is marked as seen, so that it doesn't run after all.
    dropped = plan(loop.blueprint, state, loop.origin) if state.versions else []
    loop.statuses = {}
    apply(loop.blueprint, state, [*dropped, InputWrites(INPUT, writes)], loop.next_version)
    yield from loop.commit_checkpoint("input")
    if job.kind == "submit" and not (loop.graph.interrupt_before or loop.graph.interrupt_after):
        yield from _hand_on(loop)


def _hand_on(loop: Loop) -> Effects:
    """Takes the step in which the input becomes state, where that is all it does.

    A graph that chooses where to begin does so when it runs. What goes wrong here is left to the
    run as well, which meets it again and can be told of it.
    """
    tasks, before = loop.tasks, loop.state
    if len(tasks) != 1 or tasks[0].name != START or not passes_on(tasks[0]):
        return
    loop.state = before.copy()
    try:
        apply(loop.blueprint, loop.state, tasks, loop.next_version)
    except Exception:
        loop.state = before
        return
    loop.ledger.note(tasks[0])
    if loop.run.modes:
        yield from loop.emit_values(tasks)
    try:
        yield from loop.commit_checkpoint("loop")
    except PayloadError:
        return


def _first(loop: Loop, writes: Sequence[Write]) -> Task | None:
    """Returns the hidden first task, ended, where it only hands on the input."""
    node = loop.graph.nodes.get(START)
    if node is None or len(writes) != 1 or writes[0][0] != START:
        return None
    origin = Origin(loop.blueprint, loop.state.values, None, loop.job.ns, 0, loop.origin.stop)
    task = Task(START, node, (PULL, START), node.sorted_triggers, writes[0][1], origin)
    return task if passes_on(task) else None


# What is stored beside the checkpoint.


def _apply_null(loop: Loop, writes: Sequence[Write]) -> None:
    if any(name != RESUME for name, _ in writes):
        updated = loop.state.updated
        apply(loop.blueprint, loop.state, [InputWrites(INPUT, writes)], loop.next_version)
        # What was due stays due; None stands for whatever the nodes have not seen yet.
        if updated is None or loop.state.updated is None:
            loop.state.updated = None
        else:
            loop.state.updated |= updated


def _reapply(loop: Loop) -> None:
    """Gives finished tasks their stored writes back, so that they don't run again.

    A task whose failure went to a handler has ended too; its handler runs, or has run.
    """
    handlers = restored(loop.blueprint, loop.tasks, loop.statuses)
    for handler in handlers:
        handler.failed.writes = ()
    loop.tasks += handlers
    for task in loop.tasks:
        status = loop.statuses.get(task.id)
        if status is not None and status.finished:
            task.writes = status.output


def _keep_answered(loop: Loop) -> None:
    """Leaves tasks their results that others' answers are given beside, where all else runs again.

    They were answered on the branch that is left; asked again here, they would stop a run that
    nobody finds, as the thread's newest checkpoint is another one.
    """
    for task in loop.tasks:
        status = loop.statuses.get(task.id)
        if status is None or not status.finished or not status.interrupts:
            continue
        if loop.run.answers.keys().isdisjoint(asked.id for asked in status.interrupts):
            task.writes = status.output


def _keep_waiting(loop: Loop) -> None:
    """Leaves alone what waits for an answer that isn't there: running it would only ask again."""
    for task in loop.tasks:
        status = loop.statuses.get(task.id)
        if status is None or status.finished or not status.interrupts:
            continue
        own = own_questions(task.ns, status)
        answers = answers_for(task.ns, status, loop.run.answers)
        waits = [
            slot is not None and not _is_answered(slot, status, answers, interrupt, loop)
            for interrupt, slot in own
        ]
        if all(waits):
            task.questions = tuple(
                task.question(interrupt, slot if isinstance(slot, int) else 0,
                              slot if isinstance(slot, str) else None)
                for interrupt, slot in own
            )  # fmt: skip


def _is_answered(
    slot: int | str, status: TaskStatus, answers: Sequence[Any], interrupt: Interrupt, loop: Loop
) -> bool:
    if isinstance(slot, str):
        return slot in status.keyed or interrupt.id in loop.run.answers
    return slot < len(answers) and answers[slot] != Unanswered()
