"""The last wake-up, and whether a worker has begun it.

A wake-up is a task that makes a worker execute due runs. The pusher is the process of a django-q2
cluster that passes tasks to the workers.

The pusher and the workers share one byte of memory, because they are forks of the same process. If
they aren't forks, the pusher can't see that a worker has begun a wake-up, and waits until the
wake-up expires.
"""

from __future__ import annotations

import mmap
import time

#: Seconds after which another wake-up is sent, because a worker may have died with the last one.
EXPIRY = 1.0

_sent = mmap.mmap(-1, 1)


class _Pusher:
    """State of the process that sends wake-ups, i.e. tasks that let a worker execute due runs."""

    expires = -float("inf")


def is_outstanding() -> bool:
    """Return whether the last wake-up has not expired, and no worker has begun it."""
    return bool(_sent[0]) and time.monotonic() < _Pusher.expires


def note_sent() -> None:
    """Record that the pusher (the process that sends wake-ups) sends a wake-up."""
    _sent[0], _Pusher.expires = 1, time.monotonic() + EXPIRY


def note_begun() -> None:
    """Record that a worker begins a wake-up, before the worker looks for runs."""
    _sent[0] = 0
