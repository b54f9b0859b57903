"""Pending writes of tasks that ended with a super-step: what led from a checkpoint to the next.

Unless they are many bytes, which would be read with it each time, they are stored in the row of
the checkpoint that came of them. They are read as what was written on top of its parent. A
checkpoint's child is nearly always the one that was stored next; where a thread was forked it may
be any that was stored later.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from hitl_django.engine.errors import CorruptPayloadError

from . import queries
from .codec import codec, verify
from .encrypted_rows import decrypt_column, is_encrypted

UNIT = 0  # the slot of a task's channel writes
MAX_BYTES = 4096  # bytes of what tasks wrote that a checkpoint's row takes


class EndedTask(NamedTuple):
    """A task that ended with a super-step, and what it wrote."""

    task_id: str
    path: str
    data: bytes


class WriteKey(NamedTuple):
    """What tells one write of a namespace's tasks from another."""

    checkpoint_id: str
    task_path: str
    task_id: str
    slot: int


class CheckpointStep(Protocol):
    """A checkpoint: ``led_here`` are the writes in its own row, ``ended`` those on top of it."""

    thread: int
    ns: str
    checkpoint_id: str
    parent_id: str | None
    led_here: bytes
    ended: bytes


def pack_tasks(ended: Sequence[EndedTask]) -> bytes:
    """Return what tasks wrote as a checkpoint's column."""
    return codec.encode_record([[*task] for task in ended])


def verify_payloads(row: Any, checkpoint_id: str) -> queries.Payloads:
    """Return the columns of bytes of a checkpoint's row, decrypted; it has all PAYLOAD_COLUMNS.

    CorruptPayloadError if the digest isn't theirs.
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
    """Find what led on from checkpoints of one thread and namespace, which stand newest first.

    No query where each is the parent of the one before it and nothing is newer; one where the first
    has a child; one more where the thread was forked.
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
        # What a task wrote stands as first written.
        by_id[row.parent_id].ended = by_id[row.parent_id].ended or _writes_after(row)


def _writes_after(row: queries.ChildRow) -> bytes:
    return verify_payloads(row, f"after {row.parent_id}").writes


def unpack_tasks(led_here: Any) -> Sequence[EndedTask]:
    """Return the tasks that led to a checkpoint, by its column."""
    if not led_here:
        return ()
    try:
        return [EndedTask(*task) for task in codec.decode(led_here)]
    except TypeError as error:
        raise CorruptPayloadError("Stored task writes are corrupt.") from error


def decode_writes(checkpoint_id: str, ended: bytes) -> dict[WriteKey, list[tuple[str, Any]]]:
    """Return the writes under the keys that rows of tasks still under way have."""
    return {
        WriteKey(checkpoint_id, task.path, task.task_id, UNIT): codec.decode(task.data)
        for task in unpack_tasks(ended)
    }
