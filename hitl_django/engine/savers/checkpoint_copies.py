"""Functions for third-party savers that create and copy checkpoints and read configs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ..channels import MISSING, BaseChannel
from ..ids import new_uuid6
from ..types import RunnableConfig
from .checkpoint import COORDINATES, Checkpoint, CheckpointMetadata, without_nul

#: The current layout of checkpoints.
LATEST_VERSION = 4

#: Config keys that control a run and are excluded from metadata.
EXCLUDED_METADATA_KEYS = COORDINATES | {
    "langgraph_step",
    "langgraph_node",
    "langgraph_triggers",
    "langgraph_path",
    "langgraph_checkpoint_ns",
}


def empty_checkpoint() -> Checkpoint:
    """Return the checkpoint of a thread without data."""
    return {
        "v": LATEST_VERSION,
        "id": new_uuid6(),
        "ts": datetime.now(UTC).isoformat(),
        "channel_values": {},
        "channel_versions": {},
        "versions_seen": {},
        "updated_channels": None,
    }


def copy_checkpoint(checkpoint: Checkpoint) -> Checkpoint:
    """Return a copy of a checkpoint. The dicts are copied, their values are not."""
    copy: Any = {
        **checkpoint,
        "channel_values": dict(checkpoint["channel_values"]),
        "channel_versions": dict(checkpoint["channel_versions"]),
        "versions_seen": {name: dict(read) for name, read in checkpoint["versions_seen"].items()},
    }
    return copy  # type: ignore[no-any-return]


def create_checkpoint(
    checkpoint: Checkpoint,
    channels: Mapping[str, BaseChannel] | None,
    step: int,
    *,
    id: str | None = None,
) -> Checkpoint:
    """Return a new checkpoint that follows ``checkpoint``, with the values of ``channels``.

    Channels without a version in ``checkpoint`` are left out. If ``channels`` is None, the new
    checkpoint has the values of ``checkpoint``. If ``id`` is None, an id is generated. ``step`` is
    accepted for compatibility and ignored.
    """
    values = checkpoint["channel_values"]
    if channels is not None:
        kept = {
            name: channel.checkpoint()
            for name, channel in channels.items()
            if name in checkpoint["channel_versions"]
        }
        values = {name: value for name, value in kept.items() if value is not MISSING}
    created: Any = {
        **checkpoint,
        "v": LATEST_VERSION,
        "id": id or new_uuid6(),
        "ts": datetime.now(UTC).isoformat(),
        "channel_values": values,
        "updated_channels": None,
    }
    return created  # type: ignore[no-any-return]


def get_checkpoint_id(config: RunnableConfig) -> str | None:
    """Return the checkpoint id in a config, or None."""
    found: str | None = config["configurable"].get("checkpoint_id")
    return found


def get_checkpoint_metadata(
    config: RunnableConfig, metadata: CheckpointMetadata
) -> CheckpointMetadata:
    """Return a checkpoint's metadata together with metadata from the config.

    Texts and numbers in the config's ``metadata`` and ``configurable`` are added. Keys that control
    a run are left out. NUL characters are removed.
    """
    found: Any = {name: without_nul(value) for name, value in metadata.items()}
    for own in (config.get("metadata"), config.get("configurable")):
        for name, value in (own or {}).items():
            if name in found or name in EXCLUDED_METADATA_KEYS or name.startswith("__"):
                continue
            if isinstance(value, (str, int, float)):
                found[name] = without_nul(value)
    return found  # type: ignore[no-any-return]


def get_serializable_checkpoint_metadata(
    config: RunnableConfig, metadata: CheckpointMetadata
) -> CheckpointMetadata:
    """Return the result of get_checkpoint_metadata without the obsolete key ``writes``."""
    found: Any = get_checkpoint_metadata(config, metadata)
    found.pop("writes", None)
    return found  # type: ignore[no-any-return]


def writes_sort_key(task_path: str, task_id: str = "", idx: int = 0) -> tuple[str, str, int]:
    """Return the key that sorts pending writes in the order in which they are applied."""
    return task_path, task_id, idx
