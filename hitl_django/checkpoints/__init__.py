"""DjangoSaver: the checkpoint saver of the engine, based on Django's ORM.

Each super-step is one transaction and usually writes one row. The row contains a checkpoint with
its ids and versions, the small values of its channels, and the writes of the tasks that led to the
checkpoint. Larger values have separate rows, one for each version of a channel, so a super-step
stores only its changes. The state codec (``engine.serde``) encodes each payload. The payload's
digest is checked when the payload is read.
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
