"""Writes of the tasks of a super-step, stored in the row of the checkpoint that follows.

Only large writes have separate rows. The writes in a checkpoint's row belong to the checkpoint's
parent. To read the writes of a checkpoint, its child is therefore needed. The child is nearly
always the checkpoint stored next. In a thread with forks, the child can be any later checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from hitl_django.engine.errors import CorruptPayloadError

from . import queries
from .codec import codec, verify
from .encrypted_rows import decrypt_column, is_encrypted

UNIT = 0  # The slot of a task's channel writes.
MAX_BYTES = 4096  # The maximum bytes of writes in a checkpoint's row.


class EndedTask(NamedTuple):
    """A task that ended with a super-step, and the encoded bytes of its writes."""

    task_id: str
    path: str
    data: bytes


class WriteKey(NamedTuple):
    """The key of a write: checkpoint, task and slot (a number for the kind of write)."""

    checkpoint_id: str
    task_path: str
    task_id: str
    slot: int


class CheckpointStep(Protocol):
    """A checkpoint, with the encoded writes of the super-steps before and after it.

    ``led_here`` are the writes of the tasks that led to the checkpoint, stored in the checkpoint's
    own row. ``ended`` are the writes of the tasks that ran after the checkpoint, stored in the row
    of the checkpoint's child.
    """

    thread: int
    ns: str
    checkpoint_id: str
    parent_id: str | None
    led_here: bytes
    ended: bytes


def pack_tasks(ended: Sequence[EndedTask]) -> bytes:
    """Encode the writes of a super-step's tasks, to store them in the next checkpoint's row."""
    return codec.encode_record([[*task] for task in ended])


def verify_payloads(row: Any, checkpoint_id: str) -> queries.Payloads:
    """Return the decrypted binary columns of a checkpoint's row.

    The row must contain all PAYLOAD_COLUMNS.

    Raises:
        CorruptPayloadError: the digest in the row doesn't match the columns.
    """
    found = queries.Payloads(
        bytes(row.data), bytes(row.metadata), bytes(row.scalars), bytes(row.writes)
    )
    verify(b"".join(found), row.digest, f"checkpoint {checkpoint_id}")
    if is_encrypted(found.scalars) or is_encrypted(found.writes):
        decrypted = decrypt_column(found.scalars), decrypt_column(found.writes)
        found = found._replace(scalars=decrypted[0], writes=decrypted[1])
    return found


def fill_ended(group: Sequence[CheckpointStep], using: str, *, has_newest: bool) -> None:
    """Set ``ended`` of each checkpoint to the writes stored in its child.

    The checkpoints are of one namespace, newest first. ``has_newest`` is true if the first
    checkpoint is the newest of the namespace. No query is needed if ``has_newest`` is true and each
    checkpoint is the parent of the checkpoint before it in ``group``. Otherwise, one query finds
    the child of the first checkpoint, and another query finds the children at forks.
    """
    unmatched: list[CheckpointStep] = []
    for newer, one in pairwise(group):
        if newer.parent_id == one.checkpoint_id:
            one.ended = newer.led_here
        else:
            unmatched.append(one)
    first = group[0]
    where = {"thread": first.thread, "ns": first.ns}
    if not has_newest:
        for row in queries.FOLLOWING.run(using, **where, checkpoint_id=first.checkpoint_id):
            if row.parent_id == first.checkpoint_id:
                first.ended = _writes_after(row)
            else:
                unmatched.append(first)
    if not unmatched:
        return
    by_id = {one.checkpoint_id: one for one in unmatched}
    for row in queries.CHILDREN.run(using, **where, parents=[*by_id]):
        # The first stored write of a task is kept.
        by_id[row.parent_id].ended = by_id[row.parent_id].ended or _writes_after(row)


def _writes_after(row: queries.ChildRow) -> bytes:
    return verify_payloads(row, f"after {row.parent_id}").writes


def unpack_tasks(led_here: Any) -> Sequence[EndedTask]:
    """Decode the ended tasks that a checkpoint's row contains."""
    if not led_here:
        return ()
    try:
        return [EndedTask(*task) for task in codec.decode(led_here)]
    except TypeError as error:
        raise CorruptPayloadError("Stored task writes are corrupt.") from error


def decode_writes(checkpoint_id: str, ended: bytes) -> dict[WriteKey, list[tuple[str, Any]]]:
    """Decode the writes of the tasks that ended after a checkpoint, by the key of the write."""
    return {
        WriteKey(checkpoint_id, task.path, task.task_id, UNIT): codec.decode(task.data)
        for task in unpack_tasks(ended)
    }
