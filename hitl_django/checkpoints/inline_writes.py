"""Pending writes of tasks that ended with a super-step: what led from a checkpoint to the next.

Unless they are many bytes, which would be read with it each time, they are stored in the row of
the checkpoint that came of them. They are read as what was written on top of its parent. A
checkpoint's child is nearly always the one that was stored next; where a thread was forked it may
be any that was stored later.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Protocol

from . import queries
from .codec import codec, verify

UNIT = 0  # the slot of a task's channel writes
MAX_BYTES = 4096  # bytes of what tasks wrote that a checkpoint's row takes

EndedTask = tuple[str, str, bytes]  # a task's id, its path, and what it wrote


class CheckpointStep(Protocol):
    """A checkpoint: ``led_here`` are the writes in its own row, ``ended`` those on top of it."""

    thread: int
    ns: str
    checkpoint_id: str
    parent_id: str | None
    led_here: bytes
    ended: bytes


def pack_tasks(ended: Sequence[EndedTask]) -> bytes:
    """Returns what tasks wrote as a checkpoint's column."""
    return codec.encode_record([[*task] for task in ended])


def verify_payloads(row: Sequence[Any], checkpoint_id: str) -> list[bytes]:
    """Returns a checkpoint's columns of bytes; CorruptPayloadError if the digest isn't theirs."""
    parts = [bytes(part) for part in row[:-1]]
    verify(b"".join(parts), row[-1], f"checkpoint {checkpoint_id}")
    return parts


def fill_ended(group: Sequence[CheckpointStep], using: str, *, has_newest: bool) -> None:
    """Finds what led on from checkpoints of one thread and namespace, which stand newest first.

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
        for parent, *row in queries.FOLLOWING.run(
            using, **where, checkpoint_id=first.checkpoint_id
        ):
            if parent == first.checkpoint_id:
                first.ended = _writes_after(row, first)
            else:
                unmatched.append(first)
    if not unmatched:
        return
    by_id = {one.checkpoint_id: one for one in unmatched}
    for parent, *row in queries.CHILDREN.run(using, **where, parents=[*by_id]):
        # What a task wrote stands as first written.
        by_id[parent].ended = by_id[parent].ended or _writes_after(row, by_id[parent])


def _writes_after(row: Sequence[Any], parent: CheckpointStep) -> bytes:
    return verify_payloads(row, f"after {parent.checkpoint_id}")[-1]


def unpack_tasks(led_here: Any) -> Sequence[EndedTask]:
    """Returns the tasks that led to a checkpoint, by its column."""
    return [(task, path, data) for task, path, data in codec.decode(led_here)] if led_here else ()


def decode_writes(
    checkpoint_id: str, ended: bytes
) -> list[tuple[str, str, str, int, list[tuple[str, Any]]]]:
    """Returns the writes as the rows of tasks that are still under way have them."""
    return [
        (checkpoint_id, path, task_id, UNIT, codec.decode(data))
        for task_id, path, data in unpack_tasks(ended)
    ]
