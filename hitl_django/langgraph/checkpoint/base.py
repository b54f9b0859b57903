"""The interface of checkpointers."""

from __future__ import annotations

from hitl_django.engine.constants import WRITES_IDX_MAP
from hitl_django.engine.savers.checkpoint import (
    BaseCheckpointSaver,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

__all__ = [
    "WRITES_IDX_MAP",
    "BaseCheckpointSaver",
    "Checkpoint",
    "CheckpointMetadata",
    "CheckpointTuple",
]
