"""Interface of checkpointers, and the types for implementing it."""

from __future__ import annotations

from hitl_django.engine.channels import EmptyChannelError
from hitl_django.engine.constants import ERROR, INTERRUPT, RESUME, SCHEDULED, WRITES_IDX_MAP
from hitl_django.engine.savers.checkpoint import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
)
from hitl_django.engine.savers.checkpoint_copies import (
    EXCLUDED_METADATA_KEYS,
    LATEST_VERSION,
    copy_checkpoint,
    create_checkpoint,
    empty_checkpoint,
    get_checkpoint_id,
    get_checkpoint_metadata,
    get_serializable_checkpoint_metadata,
    writes_sort_key,
)
from hitl_django.engine.serde import (
    EncryptedSerializer,
    JsonPlusSerializer,
    SerializerProtocol,
    maybe_add_typed_methods,
)

from .id import uuid6

__all__ = [
    "ERROR",
    "EXCLUDED_METADATA_KEYS",
    "INTERRUPT",
    "LATEST_VERSION",
    "RESUME",
    "SCHEDULED",
    "WRITES_IDX_MAP",
    "BaseCheckpointSaver",
    "ChannelVersions",
    "Checkpoint",
    "CheckpointMetadata",
    "CheckpointTuple",
    "EmptyChannelError",
    "EncryptedSerializer",
    "JsonPlusSerializer",
    "PendingWrite",
    "SerializerProtocol",
    "copy_checkpoint",
    "create_checkpoint",
    "empty_checkpoint",
    "get_checkpoint_id",
    "get_checkpoint_metadata",
    "get_serializable_checkpoint_metadata",
    "maybe_add_typed_methods",
    "uuid6",
    "writes_sort_key",
]
