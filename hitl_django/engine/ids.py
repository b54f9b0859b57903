"""Ids of checkpoints, tasks and interrupts.

Checkpoint ids sort by creation time. The id of a task or an interrupt is a hash of its position in
the thread.
"""

from __future__ import annotations

import json
import threading
import time
from random import getrandbits
from typing import Any
from uuid import UUID

from xxhash import xxh3_64_hexdigest, xxh3_128_hexdigest

from .constants import NS_SEP, PULL, PUSH

# 100-nanosecond intervals between 1582-10-15, where UUID time starts, and 1970-01-01.
_GREGORIAN = 0x01B21DD213814000
_lock = threading.Lock()
_last = 0

_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def new_uuid6() -> str:
    """Return a new version-6 UUID as text. It sorts after all earlier ids of this process."""
    text = f"{_new_number():032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _new_number() -> int:
    global _last
    now = time.time_ns() // 100 + _GREGORIAN
    with _lock:
        # Ids must sort by creation even if they are created in one clock tick or after the clock
        # was set back.
        if now <= _last:
            now = _last + 1
        _last = now
    timed = (now >> 12) << 16 | 0x6000 | now & 0xFFF
    return timed << 64 | 0x8000000000000000 | getrandbits(62)


def new_id() -> UUID:
    """Return a new id for a row. The id sorts after all earlier ids of this process."""
    return UUID(int=_new_number())


def sort_ids_after(checkpoint_id: str) -> None:
    """Let later ids of this process sort after an id that another process created."""
    global _last
    made = read_time(checkpoint_id)
    with _lock:
        _last = max(_last, made)


def read_time(checkpoint_id: str) -> int:
    """Return the creation time in a checkpoint id, in units of 100 ns, or 0 for an invalid id."""
    try:
        return int(f"{checkpoint_id[:8]}{checkpoint_id[9:13]}{checkpoint_id[15:18]}", 16)
    except ValueError:
        return 0


def encode_checkpoint_id(checkpoint_id: str) -> bytes:
    """Return the 16 bytes of a checkpoint id."""
    return bytes.fromhex(checkpoint_id.replace("-", ""))


def make_task_id(checkpoint: bytes, *parts: str) -> str:
    """Return a task id: a hash of the checkpoint from which the task starts and of ``parts``."""
    digest = xxh3_128_hexdigest(checkpoint + "".join(parts).encode())
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"


def make_interrupt_id(ns: str, index: int) -> str:
    """Return the id of an interrupt from its position among the interrupts of a task.

    ``ns`` is the namespace of the task. The positions start at 0.
    """
    return xxh3_128_hexdigest((f"{ns}{NS_SEP}{index}" if index else ns).encode())


def make_keyed_id(ns: str, key: str) -> str:
    """Return the id of an interrupt with a key. ``ns`` is the namespace of the interrupt's task."""
    return xxh3_128_hexdigest(f"{ns}{NS_SEP}#{key}".encode())


def hash_json(value: Any) -> str:
    """Return a hash of a value's canonical JSON.

    The hash identifies an interrupt or a graph structure.
    """
    return xxh3_64_hexdigest(_canonical(value).encode())


def make_triggered_path_key(name: str) -> str:
    """Return the path key of the task that runs the node ``name`` after a channel triggered it."""
    return f"~{PULL}, {name}"


def make_sent_path_key(index: int) -> str:
    """Return the path key of the task for the Send number ``index`` of a super-step."""
    return f"~{PUSH}, {index:010d}, False"


def make_path_key(path: str | int | tuple[Any, ...]) -> str:
    """Return a task's path as a text key. The keys sort in the same order as the paths."""
    if isinstance(path, tuple):
        return f"~{', '.join([p if type(p) is str else make_path_key(p) for p in path])}"
    return f"{path:010d}" if isinstance(path, int) else str(path)
