"""A checkpointer that stores checkpoints in memory."""

from __future__ import annotations

from hitl_django.engine.savers.memory import InMemorySaver, MemorySaver
from hitl_django.engine.savers.persistent_dict import PersistentDict

from .base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    SerializerProtocol,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)

__all__ = [
    "WRITES_IDX_MAP",
    "BaseCheckpointSaver",
    "ChannelVersions",
    "Checkpoint",
    "CheckpointMetadata",
    "CheckpointTuple",
    "InMemorySaver",
    "MemorySaver",
    "PendingWrite",
    "PersistentDict",
    "SerializerProtocol",
    "get_checkpoint_id",
    "get_checkpoint_metadata",
    "writes_sort_key",
]
