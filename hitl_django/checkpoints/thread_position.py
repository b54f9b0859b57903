"""The newest checkpoint of a thread, and the nodes that have run or failed.

Reading this data takes a few queries, regardless of the size of the thread, and reads no values of
the state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hitl_django.engine import ids
from hitl_django.engine.constants import CONTROL_SLOTS, ERROR, PULL, PUSH
from hitl_django.models import ChannelBlob, Checkpoint, PendingWrite

from . import inline_values, version_deltas
from .checkpoint_reader import read_bases
from .codec import codec
from .encrypted_rows import decrypt_column
from .inline_writes import UNIT, unpack_tasks, verify_payloads
from .queries import PAYLOAD_COLUMNS

#: The maximum number of super-steps to read.
MAX_STEPS = 1000
#: The maximum number of nodes in subgraphs to read.
MAX_SUBGRAPH_NODES = 500
#: The beginning of the path of a task that is not a Send. The name of the node follows.
PULL_PREFIX = f"~{PULL}, "
#: The path of a Send's task, with the number of the Send.
_SENT_PATH = re.compile(f"~{PUSH}, ([0-9]+), False")


@dataclass(frozen=True, slots=True)
class ThreadHead:
    """The newest checkpoint of a thread's root graph, and its nearest ancestors.

    Attributes:
        step: the number of the checkpoint's super-step.
        line: the ids of the checkpoint and its ancestors, newest first, up to a maximum number.
        ran_on: the ids in ``line`` without checkpoints that ``update_state`` has updated. Tasks of
            an updated checkpoint belong to another branch.
        oldest: the id of the oldest checkpoint that was read.
        versions: the versions of the channels.
        seen: the channel versions that each node has read. Nodes that ran long ago may be missing,
            except for nodes that ran for a Send.
        scalars: the channels whose values are in the checkpoint's row.
    """

    checkpoint_id: str
    step: int
    line: tuple[str, ...]
    ran_on: tuple[str, ...]
    oldest: str
    versions: dict[str, Any]
    seen: dict[str, dict[str, Any]]
    scalars: frozenset[str]


@dataclass(frozen=True, slots=True)
class Lineage:
    """The newest checkpoint of a thread and its ancestors, up to a maximum number."""

    checkpoints: frozenset[str]
    oldest: str

    def contains(self, checkpoint_id: str) -> bool:
        """Return whether a checkpoint is the thread's newest checkpoint or one of its ancestors.

        Only a limited number of checkpoints was read. A checkpoint that is older than all of them
        counts as an ancestor.
        """
        return checkpoint_id in self.checkpoints or checkpoint_id < self.oldest


def read_lineage(using: str, thread: int) -> Lineage:
    """Read a thread's newest checkpoint and its ancestors, up to the maximum number."""
    parents = _read_parents(using, thread)
    if not parents:
        return Lineage(frozenset(), "")
    return Lineage(frozenset(_trace_line(max(parents), parents)), min(parents))


def _read_parents(using: str, thread: int) -> dict[str, Any]:
    """Read the parent and the source of the newest checkpoints of a thread, by checkpoint id."""
    rows = Checkpoint.objects.using(using).filter(thread=thread, ns="").order_by("-checkpoint_id")
    found = rows.values_list("checkpoint_id", "parent_id", "source", named=True)[:MAX_STEPS]
    return {row.checkpoint_id: row for row in found}


def read_head(using: str, thread: int) -> ThreadHead | None:
    """Read the newest checkpoint of a thread's root graph. Return None if there is none.

    This takes two or three queries.
    """
    rows = Checkpoint.objects.using(using).filter(thread=thread, ns="").order_by("-checkpoint_id")
    row: Any = rows.values_list("checkpoint_id", "step", *PAYLOAD_COLUMNS, named=True).first()
    if row is None:
        return None
    payloads = verify_payloads(row, row.checkpoint_id)
    record = codec.decode(payloads.data)
    named = {key} if (key := version_deltas.base_key(record)) is not None else set()
    head = version_deltas.restore_head(record, read_bases(using, thread, "", named))
    parents = _read_parents(using, thread)
    line = _trace_line(row.checkpoint_id, parents)
    updated = {parents[one].parent_id for one in line if parents[one].source == "update"}
    scalars, _ = inline_values.unpack(payloads.scalars)
    return ThreadHead(
        row.checkpoint_id,
        row.step,
        line,
        tuple(one for one in line if one not in updated),
        min(parents),
        head["channel_versions"],
        head["versions_seen"],
        frozenset(scalars),
    )


def _trace_line(newest: str, parents: dict[str, Any]) -> tuple[str, ...]:
    line = [newest]
    while (above := parents[line[-1]].parent_id) in parents:
        line.append(above)
    return tuple(line)


def read_finished_nodes(using: str, thread: int, head: ThreadHead) -> set[str]:
    """Return the nodes of the root graph that finished before the thread's newest checkpoint."""
    rows = _writes_of_nodes(using, thread).filter(ns="", checkpoint_id__in=head.ran_on)
    found = set(rows.values_list("task_path", flat=True).distinct())
    steps = _rows_with_writes(using, thread).filter(ns="", checkpoint_id__in=head.line)
    for led_here in steps.values_list("writes", flat=True).iterator():
        found |= {task.path for task in unpack_tasks(decrypt_column(bytes(led_here)))}
    return set(head.seen) | _node_names(found)


def read_finished_in_subgraphs(using: str, thread: int, head: ThreadHead) -> set[tuple[str, str]]:
    """Return the nodes that have finished in subgraphs, as pairs of namespace and node name."""
    rows = _writes_of_nodes(using, thread).filter(checkpoint_id__gte=head.oldest).exclude(ns="")
    found = set(rows.values_list("ns", "task_path").distinct()[:MAX_SUBGRAPH_NODES])
    steps = _rows_with_writes(using, thread).filter(checkpoint_id__gte=head.oldest).exclude(ns="")
    for ns, led_here in steps.values_list("ns", "writes")[:MAX_STEPS].iterator():
        found |= {
            (ns, task.path)
            for task in unpack_tasks(decrypt_column(bytes(led_here)))
            if task.path.startswith(PULL_PREFIX)
        }
    return {(ns, path.removeprefix(PULL_PREFIX)) for ns, path in found}


def read_failed_nodes(using: str, thread: int, head: ThreadHead, nodes: Iterable[str]) -> set[str]:
    """Return the nodes with a task that failed after the thread's newest checkpoint.

    A failed task of a Send is found if its node is in ``nodes``.
    """
    rows = PendingWrite.objects.using(using).filter(
        thread=thread, ns="", checkpoint_id=head.checkpoint_id, slot=CONTROL_SLOTS[ERROR]
    )
    names = tuple(nodes)
    found = {
        find_node(path, task_id, head.checkpoint_id, head.step + 1, names)
        for task_id, path in rows.values_list("task_id", "task_path")
    }
    return found - {""}


def find_node(path: str, task_id: str, checkpoint_id: str, step: int, nodes: Iterable[str]) -> str:
    """Return the node of a task of a root graph, or an empty string if the node isn't found.

    The task ran in the super-step with the number ``step``, which started from the checkpoint. The
    path of a Send's task contains no node name. The node of a Send is therefore the one in
    ``nodes`` from whose name the task's id was computed.
    """
    if path.startswith(PULL_PREFIX):
        return path.removeprefix(PULL_PREFIX)
    sent = _SENT_PATH.fullmatch(path)
    if sent is None:
        return ""
    origin, index = ids.encode_checkpoint_id(checkpoint_id), str(int(sent[1]))
    for name in nodes:
        if ids.make_task_id(origin, name, str(step), name, PUSH, index) == task_id:
            return name
    return ""


def read_stored_channels(
    using: str, thread: int, head: ThreadHead, names: Iterable[str]
) -> set[str]:
    """Return the channels in ``names`` that have a value. The values are not read."""
    names = set(names)
    held = names & head.scalars
    wanted = {(name, head.versions[name]) for name in names - held if name in head.versions}
    if not wanted:
        return held
    rows = ChannelBlob.objects.using(using).filter(
        thread=thread, ns="", version__in={version for _, version in wanted}
    )
    return held | {name for name, _ in wanted.intersection(rows.values_list("channel", "version"))}


def _rows_with_writes(using: str, thread: int) -> Any:
    return Checkpoint.objects.using(using).filter(thread=thread).exclude(writes=b"").order_by()


def _writes_of_nodes(using: str, thread: int) -> Any:
    rows = PendingWrite.objects.using(using).filter(thread=thread, slot=UNIT)
    return rows.filter(task_path__startswith=PULL_PREFIX)


def _node_names(paths: Iterable[str]) -> set[str]:
    return {path.removeprefix(PULL_PREFIX) for path in paths if path.startswith(PULL_PREFIX)}
