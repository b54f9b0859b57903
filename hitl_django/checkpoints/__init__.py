"""DjangoSaver: the engine's saver over the ORM.

One transaction for each super-step, and mostly one row: a checkpoint with its ids and versions,
the small values of its channels and what the tasks wrote that led to it. Larger values stand in
rows of their own, one for each version of each channel, so that a step stores only what it
changed. Every payload is encoded by the state codec and carries a digest that is checked when it
is read.
"""

from __future__ import annotations

from hitl_django.leases import ThreadKey

from .codec import digest_value, pack_text, unpack_text
from .commit_writers import Fence
from .django_saver import DjangoSaver
from .newest_states import NewestStatesSaver

__all__ = [
    "DjangoSaver",
    "Fence",
    "NewestStatesSaver",
    "ThreadKey",
    "digest_value",
    "pack_text",
    "unpack_text",
]
