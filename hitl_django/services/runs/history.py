"""History of a thread: its steps with their changes and decisions.

Pages are read newest first, with a fixed number of queries. The writes of a step are shortened, and
values of secret keys are masked. Values that are too large are not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F, Q
from django.db.models.functions import Length

from hitl_django.checkpoints.codec import codec, unpack
from hitl_django.checkpoints.inline_writes import UNIT, unpack_tasks, verify_payloads
from hitl_django.checkpoints.queries import PAYLOAD_COLUMNS
from hitl_django.checkpoints.thread_position import find_node, read_lineage
from hitl_django.db.alias import write_alias
from hitl_django.engine.constants import BRANCH_TO, CONTROL_WRITES, JOIN, RESERVED_KEYS, START
from hitl_django.engine.errors import PayloadError
from hitl_django.errors import UnknownGraphError
from hitl_django.graph_registry import registry
from hitl_django.models import Checkpoint, Decision, PendingWrite, Thread
from hitl_django.permissions import select_visible_through
from hitl_django.run_events.redaction import redact_value

from .state import find_graph_of_thread, find_thread, refuse_unless_may_view_state

STEPS, MAX_STEPS = 20, 100
#: Maximum number of tasks per page whose writes are shown, and maximum number of bytes read per
#: page and per task.
TASKS, READ, LARGEST = 300, 1_000_000, 64 * 1024
#: Maximum number of bytes shown per value, and per page.
SHOWN, PAGE = 500, 20_000
DECISIONS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """A value that a node wrote to a key of the state, as JSON text.

    ``cut`` is true if the text is shortened.
    """

    node: str
    key: str
    text: str
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDecision:
    """A decision made between two steps of a thread.

    The history shows the decision with the later step.
    """

    id: UUID
    interrupt_id: UUID
    title: str
    type: str
    by_label: str
    via: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A checkpoint of the root graph.

    Attributes:
        source: "input", "loop", "update" or "fork".
        nodes: the nodes that ran in the step.
        more: whether the step ran nodes that are not listed.
        left: whether the step no longer leads to the newest state, because the thread has since
            continued from an earlier checkpoint.
    """

    checkpoint_id: str
    step: int
    source: str
    run_id: str
    created_at: datetime
    nodes: tuple[str, ...]
    changes: tuple[StateChange, ...]
    decisions: tuple[StepDecision, ...]
    more: bool
    left: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A page of a thread's steps, newest first.

    ``before`` is the argument for the next page.
    """

    steps: tuple[Step, ...]
    before: str | None


def thread_history(
    thread_id: str, *, before: str | None = None, limit: int = STEPS, by: Any = None
) -> History:
    """Return the steps of a thread before the checkpoint ``before``, newest first.

    By default, the newest steps are returned.

    Raises:
        ThreadNotFound: if the user may not see the thread.
        NotAllowedError: if the user may not view the thread's state.
    """
    return read_steps(find_thread(thread_id, by), before=before, limit=limit, by=by)


def read_steps(thread: Thread, *, before: str | None, limit: int, by: Any) -> History:
    """Return the same as ``thread_history`` for a thread that the user may see."""
    refuse_unless_may_view_state(by, thread)
    return _Page(write_alias(), thread, by).read(before, max(1, min(limit, MAX_STEPS)))


class _Task(NamedTuple):
    """A task with its path, its id, its writes, and the epoch of the writes.

    If the writes are too large to read, the field for the writes contains their size.
    """

    path: str
    id: str
    epoch: int
    writes: Any


class _Page:
    def __init__(self, using: str, thread: Thread, by: Any) -> None:
        self.using, self.thread, self.by = using, thread, by
        self.remaining = PAGE
        self.redact = registry.get_redacted_keys(thread.graph)

    def read(self, before: str | None, limit: int) -> History:
        rows = Checkpoint.objects.using(self.using).filter(thread=self.thread, ns="")
        if before is not None:
            rows = rows.filter(checkpoint_id__lt=before)
        found = list(
            rows.order_by("-checkpoint_id").values_list(
                "checkpoint_id",
                "parent_id",
                "step",
                "source",
                "created_at",
                "epoch",
                *PAYLOAD_COLUMNS,
                named=True,
            )[: limit + 1]
        )
        page, more = found[:limit], len(found) > limit
        tasks, last = self._read_tasks([row.parent_id for row in page if row.parent_id is not None])
        line = read_lineage(self.using, self.thread.pk)
        # A decision belongs to the first step after it. The step of a newer decision doesn't exist
        # yet.
        decisions = self._read_decisions(page, found[-1] if more else None, newest=before is None)
        steps = []
        remaining = max(0, TASKS - sum(map(len, tasks.values())))
        for row in page:
            ended = _read_ended_tasks(row)
            cut, ended = len(ended) > remaining, ended[:remaining]
            remaining -= len(ended)
            own = _select_tasks(tasks.get(row.parent_id or "", []), row.source, row.epoch)
            ran = sorted([*own, *ended], key=attrgetter("path"))
            nodes, changes = self._describe_writes(row, ran)
            steps.append(
                Step(
                    checkpoint_id=row.checkpoint_id,
                    step=row.step,
                    source=row.source,
                    run_id=_read_run_id(row.metadata),
                    created_at=row.created_at,
                    nodes=nodes,
                    changes=changes,
                    decisions=decisions.get(row.checkpoint_id, ()),
                    more=cut or (row.parent_id is not None and row.parent_id <= last),
                    left=not line.contains(row.checkpoint_id),
                )
            )
        return History(steps=tuple(steps), before=page[-1].checkpoint_id if more else None)

    def _read_tasks(self, checkpoints: Sequence[str]) -> tuple[dict[str, list[_Task]], str]:
        """Return the tasks that started from these checkpoints and have separate rows of writes.

        The first value contains a list of tasks for each checkpoint id. At most TASKS tasks are
        read, those of the newest checkpoint first. If this limit is reached, the lists of older
        checkpoints are incomplete, and the second value is the id of the newest checkpoint whose
        list may be incomplete. Otherwise, the second value is an empty string. If the writes of a
        task are too large to read, the task contains the size of the writes instead.
        """
        writes = PendingWrite.objects.using(self.using).filter(
            thread=self.thread, ns="", checkpoint_id__in=checkpoints, slot=UNIT
        )
        sized = writes.annotate(size=Length("data")).order_by("-checkpoint_id", "task_path")
        columns = ("pk", "checkpoint_id", "task_path", "task_id", "epoch", "size")
        rows = list(sized.values_list(*columns, named=True)[:TASKS])
        left, wanted = READ, []
        for row in rows:
            if row.size <= min(LARGEST, left):
                wanted.append(row.pk)
                left -= row.size
        stored = writes.filter(pk__in=wanted).values_list("pk", "data", "digest", named=True)
        data = {row.pk: _unpack_writes(row.data, row.digest) for row in stored}
        found: dict[str, list[_Task]] = {}
        for row in rows:
            task = _Task(row.task_path, row.task_id, row.epoch, data.get(row.pk, row.size))
            found.setdefault(row.checkpoint_id, []).append(task)
        return found, rows[-1].checkpoint_id if len(rows) == TASKS else ""

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The current and former names of the graph's nodes."""
        try:
            registered = find_graph_of_thread(self.thread)
        except UnknownGraphError:
            return ()
        return (*registered.graph.nodes, *registered.renames.nodes)

    def _describe_writes(
        self, row: Any, tasks: Iterable[_Task]
    ) -> tuple[tuple[str, ...], tuple[StateChange, ...]]:
        nodes: dict[str, None] = {}
        changes: list[StateChange] = []
        for task in tasks:
            node = find_node(task.path, task.id, row.parent_id or "", row.step, self._names)
            if node and node != START:
                nodes[node] = None
            if isinstance(task.writes, int):
                changes.append(StateChange(node=node, key="", text=str(task.writes), cut=True))
                continue
            for key, value in task.writes:
                if _is_of_the_state(key):
                    changes.append(self._change(node, key, value))
        return tuple(nodes), tuple(changes)

    def _change(self, node: str, key: str, value: Any) -> StateChange:
        # Pass the value with its key, so that a secret is masked.
        view, cut = redact_value({key: value}, min(SHOWN, max(self.remaining, 0)), self.redact)
        text = json.dumps(next(iter(view.values()), "…"), ensure_ascii=False)
        if len(text) > SHOWN:
            text, cut = text[:SHOWN], True
        self.remaining -= len(text.encode())
        return StateChange(node="" if node == START else node, key=key, text=text, cut=cut)

    def _read_decisions(
        self, page: Sequence[Any], since: Any, *, newest: bool
    ) -> dict[str, tuple[StepDecision, ...]]:
        """Return the decisions made between the steps of a page, by the id of the later step.

        ``since`` is the step before the oldest step of the page, or None. If the page has the
        thread's newest step (``newest``), decisions after this step are also returned with it.
        """
        if not page:
            return {}
        rows = Decision.objects.using(self.using).filter(interrupt__thread=self.thread)
        rows = rows.filter(undone_at=None)  # An undone decision led to no step.
        if since is not None:
            rows = rows.filter(_match_after(since))
        if not newest:
            rows = rows.exclude(_match_after(page[0]))
        rows = select_visible_through(rows, "interrupt", self.by)
        found: dict[str, list[StepDecision]] = {}
        names = ("id", "interrupt_id", "type", "by_label", "via", "created_at")
        made = rows.order_by("-created_at", "-pk").values(
            *names, title=F("interrupt__title"), interrupted_at=F("interrupt__checkpoint_id")
        )
        for columns in made[:DECISIONS]:
            interrupted_at = columns.pop("interrupted_at")
            taken = StepDecision(**columns)
            after = [
                row
                for row in page
                if row.created_at >= taken.created_at and row.checkpoint_id > interrupted_at
            ]
            # The page is ordered newest first, so the last of these steps is the first after the
            # decision.
            step = after[-1] if after else page[0]
            found.setdefault(step.checkpoint_id, []).append(taken)
        return {at: tuple(reversed(several)) for at, several in found.items()}


def _match_after(row: Any) -> Q:
    """Return a condition on decisions: the decision was made after a step.

    The decision and the step may have the same time, because SQLite's clock has a resolution of
    milliseconds. A decision on an interrupt of a checkpoint comes after that checkpoint.
    """
    return Q(created_at__gt=row.created_at) | Q(interrupt__checkpoint_id__gte=row.checkpoint_id)


def _select_tasks(tasks: Iterable[_Task], source: str, epoch: int) -> list[_Task]:
    """Return the tasks that led to a checkpoint, out of the tasks that started from its parent.

    ``source`` and ``epoch`` are those of the checkpoint. A parent can have several children. Writes
    of a state update, which have no path, belong to the checkpoint with the same epoch.
    """
    if source == "fork":  # The checkpoint is a copy. Its tasks belong to the original checkpoint.
        return []
    if source == "update":
        return [task for task in tasks if not task.path and task.epoch == epoch]
    return [task for task in tasks if task.path]


def _is_of_the_state(key: str) -> bool:
    return (
        key not in CONTROL_WRITES
        and key not in RESERVED_KEYS
        and not key.startswith((BRANCH_TO, JOIN))
    )


def _read_ended_tasks(row: Any) -> list[_Task]:
    """Return the tasks that led to a checkpoint and whose writes are stored in its row."""
    try:
        led_here = verify_payloads(row, row.checkpoint_id).writes
        return [
            _Task(task.path, task.task_id, row.epoch, codec.decode(task.data))
            for task in unpack_tasks(led_here)
        ]
    except PayloadError:
        return [_Task("", "", row.epoch, len(bytes(row.writes)))]


def _unpack_writes(data: Any, digest: str) -> Any:
    try:
        return unpack(data, digest, "writes of a task")
    except PayloadError:
        # The data is damaged, or has a type that this version of the code doesn't know. hitl doctor
        # reports it.
        return len(bytes(data))


def _read_run_id(about: Any) -> str:
    try:
        found = codec.decode(bytes(about)).get("run_id")
    except PayloadError:
        return ""
    return found if isinstance(found, str) else ""
