"""Invariants of every thread after any crash, checked on the rows through the ORM.

I1 to I4, I6 to I11, I13 and I14 hold between any two transactions. I5 and I12 hold once no work is
left.

I1  each namespace has one chain of checkpoints, so one head
I2  a task's writes of one kind are stored once, on an existing checkpoint
I3  a decided interrupt has one decision and one stored response: all three or none
I4  a run that ended, waits or is parked has no lease; an ended run has no pending interrupt, and a
    thread has ended when its runs have
I5  no run is due and unprocessed for longer than a bound
I6  epochs never decrease along a chain, and none exceeds its thread's
I7  conservation: the sum that tasks added equals the number of tasks
I8  the audit chain verifies
I9  no run has more attempts than allowed
I10 every completed task has left its effect
I11 stored values decode, and encode to their digest again
I12 no message names a missing run
I13 a run's events are numbered without a gap, their last state is the run's, and each completed
    task has one event
I14 a run waiting for earlier runs has its input, a started run has none, and its thread says
    whether runs wait
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db.models import Model, Q
from django.db.models.functions import Now
from django_q.models import OrmQ

from hitl_django.checkpoints import inline_values
from hitl_django.checkpoints.codec import codec
from hitl_django.checkpoints.encrypted_rows import decrypt_column, decrypt_row, is_encrypted
from hitl_django.conf import hitl
from hitl_django.engine.constants import CONTROL_SLOTS, KEYED, NULL_TASK_ID, RESUME
from hitl_django.engine.serde import digest
from hitl_django.engine.task.task_status import MissingResume
from hitl_django.models import (
    ChannelBlob,
    Checkpoint,
    Decision,
    Interrupt,
    PendingWrite,
    Run,
    RunEvent,
    Thread,
)
from hitl_django.task_queue import dispatcher

from . import audit_chain
from .graphs import Effects

ENDED = (Run.State.SUCCEEDED, Run.State.FAILED, Run.State.CANCELLED)
#: Maximum number of threads whose rows one query reads.
PAGE = 200


@dataclass
class Record:
    """All stored rows of one thread."""

    thread: Thread
    runs: list[Run] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    blobs: list[ChannelBlob] = field(default_factory=list)
    writes: list[PendingWrite] = field(default_factory=list)
    interrupts: list[Interrupt] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    events: list[RunEvent] = field(default_factory=list)


def records(pks: Iterable[int] | None = None) -> Iterator[Record]:
    """Yield the records of these threads, by default of all threads."""
    wanted = list(Thread.objects.values_list("pk", flat=True) if pks is None else pks)
    for start in range(0, len(wanted), PAGE):
        page = wanted[start : start + PAGE]
        found = {thread.pk: Record(thread) for thread in Thread.objects.filter(pk__in=page)}
        for name, rows in (
            ("runs", Run.objects.filter(thread__in=page)),
            ("checkpoints", Checkpoint.objects.filter(thread__in=page)),
            ("blobs", ChannelBlob.objects.filter(thread__in=page)),
            ("writes", PendingWrite.objects.filter(thread__in=page)),
            ("interrupts", Interrupt.objects.filter(thread__in=page)),
        ):
            for row in rows:
                getattr(found[row.thread_id], name).append(row)
        for decision in Decision.objects.filter(interrupt__thread__in=page).select_related(
            "interrupt"
        ):
            found[decision.interrupt.thread_id].decisions.append(decision)
        for event in RunEvent.objects.filter(run__thread__in=page).select_related("run"):
            found[event.run.thread_id].events.append(event)
        yield from found.values()


def faults(pks: Iterable[int] | None = None, effects: Effects | None = None) -> list[str]:
    return [
        f"{record.thread.thread_id}: {fault}"
        for record in records(pks)
        for fault in faults_of(record, effects)
    ]


def faults_of(record: Record, effects: Effects | None = None) -> Iterator[str]:
    """Yield the violated invariants of one thread."""
    held = (chains, writes, answers, rest, epochs, conservation, history, attempts, digests)
    for check in (*held, check_events, turns):
        for fault in check(record):
            yield f"{check.__name__}: {fault}"
    if effects is not None:
        for fault in marks(record, effects):
            yield f"marks: {fault}"


def unfinished(bound: timedelta = timedelta(0)) -> list[str]:
    """Return the runs that have been due for longer than ``bound`` (I5)."""
    left = Q(state=Run.State.QUEUED, last_message_at__lt=Now() - bound) | Q(
        Q(thread__lease_until__isnull=True) | Q(thread__lease_until__lt=Now() - bound),
        state=Run.State.RUNNING,
    )
    left |= Q(
        state=Run.State.WAITING, last_message_at__lt=Now() - bound, thread__ended_at__isnull=False
    )
    return [f"run {run.pk} is {run.state} and left alone" for run in Run.objects.filter(left)]


def astray() -> list[str]:
    """Return the messages that refer to no run (I12)."""
    found = []
    for row in OrmQ.objects.all():
        task = row.task
        if task["func"] == dispatcher.ADVANCE:
            (run,) = task["args"]
            if not Run.objects.filter(pk=run).exists():
                found.append(f"message {row.pk} is about {run}, which isn't there")
    return found


# Each of the following functions checks one thread.


def chains(record: Record) -> Iterator[str]:
    """Check I1."""
    for ns, rows in by(record.checkpoints, "ns").items():
        ids = {row.checkpoint_id for row in rows}
        parents = [row.parent_id for row in rows]
        for parent, count in Counter(parents).items():
            if count > 1:
                yield f"{count} checkpoints of {ns!r} follow {parent}"
        if (heads := len(ids.difference(parents))) != 1:
            yield f"{heads} heads in {ns!r}"
        for parent in parents:
            if parent is not None and parent not in ids:
                yield f"a checkpoint of {ns!r} follows {parent}, which isn't there"


def writes(record: Record) -> Iterator[str]:
    """Check I2."""
    there = {(row.ns, row.checkpoint_id) for row in record.checkpoints}
    keys = Counter((row.ns, row.checkpoint_id, row.task_id, row.slot) for row in record.writes)
    for row in record.checkpoints:
        keys.update((row.ns, row.parent_id or "", task, 0) for task in ended_with(row))
    for key, count in keys.items():
        if count > 1:
            yield f"{key} was written {count} times"
        if key[:2] not in there:
            yield f"{key} was written on no checkpoint"


def answers(record: Record) -> Iterator[str]:
    """Check I3."""
    decided = {row.pk: row for row in record.interrupts if row.is_answered}
    # Decisions without effect stay in the history and don't count.
    standing = [made for made in record.decisions if made.effective and not made.refusal]
    given = Counter(decision.interrupt_id for decision in standing)
    for pk in decided.keys() | given.keys():
        if (pk in decided, given[pk]) != (True, 1):
            yield f"question {pk}: decided {pk in decided}, {given[pk]} decisions"
    stored = stored_answers(record)
    for decision in standing:
        place = _place(decision.interrupt)
        if place not in stored:
            yield f"question {decision.interrupt_id}: its answer isn't stored"
        elif stored.pop(place) != decision.value:
            yield f"question {decision.interrupt_id}: another answer is stored"
    for place in stored:
        yield f"an answer at {place} that nobody gave"
    for row in record.interrupts:
        votes = [made for made in record.decisions if made.interrupt_id == row.pk]
        yield from _miscounted(row, votes)


def _miscounted(row: Interrupt, decisions: list[Decision]) -> Iterator[str]:
    """Yield faults of an interrupt's number of approvals: one per person who approved the
    version.
    """
    version = row.version if row.status == Interrupt.Status.PENDING else row.version - 1
    made = [decision for decision in decisions if decision.version == version]
    votes = [decision for decision in made if decision.effective is None]
    if row.approvals != len(votes):
        yield f"question {row.pk}: {row.approvals} approvals, {len(votes)} votes"
    agreed = [one for one in made if one.type not in ("reject", "expire")]
    if len({(one.by_id, one.by_label) for one in agreed}) < len(agreed):
        yield f"question {row.pk}: somebody counts twice"
    if row.status == Interrupt.Status.DECIDED and made and agreed and len(agreed) != row.quorum:
        rejected = any(one.type == "reject" for one in made)
        if not rejected:
            yield f"question {row.pk}: decided by {len(agreed)} of {row.quorum}"


def _place(row: Interrupt) -> tuple[Any, ...]:
    if row.kind == Interrupt.Kind.BREAKPOINT:
        return row.checkpoint_ns, row.checkpoint_id, NULL_TASK_ID, 0
    where = row.index if row.key is None else row.key
    return row.checkpoint_ns, row.checkpoint_id, row.task_id, where


def stored_answers(record: Record) -> dict[tuple[Any, ...], Any]:
    """Return the responses among the writes, by interrupt."""
    found = {}
    for row in record.writes:
        place = (row.ns, row.checkpoint_id, row.task_id)
        if row.slot == CONTROL_SLOTS[RESUME]:
            [[_, value]] = codec.decode(plain(row)[0])
            several = enumerate(value) if row.task_id != NULL_TASK_ID else [(0, value)]
        elif row.slot == CONTROL_SLOTS[KEYED]:
            [[_, value]] = codec.decode(plain(row)[0])
            several = value.items()
        else:
            continue
        found.update({(*place, at): one for at, one in several if one != MissingResume()})
    return found


def rest(record: Record) -> Iterator[str]:
    """Check I4."""
    live = [run for run in record.runs if run.state in Run.ACTIVE]
    if len(live) > 1:
        yield f"{len(live)} live runs"
    if (record.thread.ended_at is not None) != (bool(record.runs) and not live):
        yield f"the thread ended at {record.thread.ended_at}, and {len(live)} runs are live"
    leased = record.thread.lease_until is not None or record.thread.lease_owner != ""
    if leased and not [run for run in live if run.state == Run.State.RUNNING]:
        yield "a lease, and no active run"
    if [run for run in live if run.state == Run.State.RUNNING] and not leased:
        yield "a active run without a lease"
    waiting = by([row for row in record.interrupts if row.status == "pending"], "run_id")
    for run in record.runs:
        if run.state in ENDED and waiting.get(run.pk):
            yield f"run {run.pk} is {run.state} and still asks"
        if run.state == Run.State.INTERRUPTED and run.is_at_rest and not waiting.get(run.pk):
            yield f"run {run.pk} waits for nobody"
        if (run.finished_at is not None) != (run.state in ENDED):
            yield f"run {run.pk} is {run.state} and finished at {run.finished_at}"


def epochs(record: Record) -> Iterator[str]:
    """Check I6."""
    at = {(row.ns, row.checkpoint_id): row.epoch for row in record.checkpoints}
    for row in record.checkpoints:
        if row.epoch > record.thread.epoch:
            yield f"checkpoint {row.checkpoint_id} is of epoch {row.epoch}, ahead of its thread"
        if row.parent_id and at.get((row.ns, row.parent_id), 0) > row.epoch:
            yield f"checkpoint {row.checkpoint_id} is of an earlier epoch than what it follows"
    for write in record.writes:
        if write.epoch > record.thread.epoch:
            yield f"a write is of epoch {write.epoch}, ahead of its thread"
        if write.epoch < at.get((write.ns, write.checkpoint_id), 0):
            yield "a write is of an earlier epoch than its checkpoint"


def conservation(record: Record) -> Iterator[str]:
    """Check I7 along the whole chain of a graph of this module."""
    for row in by(record.checkpoints, "ns").get("", []):
        state = values_of(record, row)
        if "tasks" not in state and "total" not in state:
            continue
        tasks, total = state.get("tasks", []), state.get("total", 0)
        if len(set(tasks)) != len(tasks):
            yield f"step {row.step}: a task counts twice"
        if total != len(tasks):
            yield f"step {row.step}: {len(tasks)} tasks add up to {total}"


def history(record: Record) -> Iterator[str]:
    yield from audit_chain.faults(record.thread.pk)


def attempts(record: Record) -> Iterator[str]:
    if record.thread.attempts > hitl.MAX_ATTEMPTS:
        yield f"{record.thread.attempts} attempts"


def marks(record: Record, effects: Effects) -> Iterator[str]:
    done = Counter(effects.done())
    for task in tasks_of(record):
        if not done[task]:
            yield f"task {task} counts and never ran"


def digests(record: Record) -> Iterator[str]:
    """Check I11."""
    stored: Sequence[Model] = [*record.blobs, *record.writes]
    for row in stored:
        data, its_digest = plain(row)
        if digest(codec.encode(codec.decode(data))) != its_digest:
            yield f"{row._meta.model_name} {row.pk} isn't what its digest says"
    for row in record.checkpoints:
        again = codec.encode_record(codec.decode(bytes(row.data)))
        again += codec.encode(codec.decode(bytes(row.metadata)))
        few, ended = bytes(row.scalars), bytes(row.writes)
        if is_encrypted(few) or is_encrypted(ended):
            again += few + ended
        else:
            again += codec.encode(codec.decode(few)) if few else b""
            tasks = codec.decode(ended) if ended else []
            wrote = [[*task, codec.encode(codec.decode(data))] for *task, data in tasks]
            again += codec.encode_record(wrote) if wrote else b""
        if digest(again) != row.digest:
            yield f"checkpoint {row.checkpoint_id} isn't what its digest says"


def check_events(record: Record) -> Iterator[str]:
    events = by(sorted(record.events, key=lambda event: event.seq), "run_id")
    for run in record.runs:
        found = events.get(run.pk, [])
        if [event.seq for event in found] != list(range(1, len(found) + 1)):
            yield f"events {[event.seq for event in found]}"
        states = [event.kind for event in found if event.kind in Run.State.values]
        if found and states[-1] != (run.state if run.state != "running" else "queued"):
            yield f"run {run.pk} is {run.state} and told {states}"
        if run.state not in ("queued", "running") and run.last_event != len(found):
            yield f"run {run.pk} counts {run.last_event} of {len(found)} events"
    tasks = Counter(event.data["task"] for event in record.events if event.kind == "custom")
    written = {write.task_id for write in record.writes if write.slot == 0}
    written.update(task for row in record.checkpoints for task in ended_with(row))
    # A run that is stored at its exit stores only the result of the preceding steps.
    for rows in by(record.checkpoints, "ns").values():
        head = max(rows, key=lambda row: row.checkpoint_id)
        written.update(values_of(record, head).get("tasks", ()))
    for task, count in tasks.items():
        if count > 1 or task not in written:
            yield f"task {task} is told of {count} times, written {task in written}"
    recorded = any("custom" in run.events for run in record.runs)
    counted = tasks_of(record) if record.checkpoints and recorded else []
    for task in set(counted).difference(tasks):
        yield f"task {task} counts and isn't told of"


def turns(record: Record) -> Iterator[str]:
    """Check I14."""
    waiting = [run.pk for run in record.runs if run.state == Run.State.WAITING]
    if record.thread.has_waiting != bool(waiting):
        yield f"the thread has_waiting {record.thread.has_waiting}, and {len(waiting)} runs wait"
    for run in record.runs:
        if run.state == Run.State.WAITING and run.input is None:
            yield f"run {run.pk} waits without an input"
        if run.state in (*Run.ACTIVE, Run.State.SUCCEEDED) and run.input is not None:
            yield f"run {run.pk} is {run.state}, and its input waits"


# Contents of a thread.


def plain(row: Any) -> tuple[bytes, str]:
    return decrypt_row(bytes(row.data), row.digest, 0, row._meta.model_name)


def values_of(record: Record, checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the channel values of a checkpoint, as stored."""
    versions = codec.decode(bytes(checkpoint.data))["channel_versions"]
    few, _ = inline_values.unpack(decrypt_column(bytes(checkpoint.scalars)))
    return few | {
        blob.channel: codec.decode(plain(blob)[0])
        for blob in record.blobs
        if blob.ns == checkpoint.ns and versions.get(blob.channel) == blob.version
    }


def ended_with(checkpoint: Checkpoint) -> list[str]:
    ended = decrypt_column(bytes(checkpoint.writes))
    return [task for task, _, _ in codec.decode(ended)] if ended else []


def finished_in(threads: Q) -> list[str]:
    alone = PendingWrite.objects.filter(slot=0, thread__in=Thread.objects.filter(threads))
    found = list(alone.values_list("task_id", flat=True))
    for row in Checkpoint.objects.filter(thread__in=Thread.objects.filter(threads)).only("writes"):
        found += ended_with(row)
    return found


def head_of(record: Record) -> Checkpoint:
    root: list[Checkpoint] = by(record.checkpoints, "ns")[""]
    return max(root, key=lambda row: row.checkpoint_id)


def tasks_of(record: Record) -> list[str]:
    tasks: list[str] = values_of(record, head_of(record)).get("tasks", [])
    return tasks


def by(rows: Iterable[Any], name: str) -> dict[Any, list[Any]]:
    found = defaultdict(list)
    for row in rows:
        found[getattr(row, name)].append(row)
    return found
