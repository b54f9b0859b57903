"""Makes and copies checkpoints, and reads configs: what savers of other authors call."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ..channels import MISSING, BaseChannel
from ..ids import new_uuid6
from ..types import RunnableConfig
from .checkpoint import COORDINATES, Checkpoint, CheckpointMetadata, without_nul

#: The layout of checkpoints that are made today.
LATEST_VERSION = 4

#: What of a config says where and how to run, and is left out of metadata.
EXCLUDED_METADATA_KEYS = COORDINATES | {
    "langgraph_step",
    "langgraph_node",
    "langgraph_triggers",
    "langgraph_path",
    "langgraph_checkpoint_ns",
}


def empty_checkpoint() -> Checkpoint:
    """Return a checkpoint of a thread in which nothing has happened."""
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
    """Return a checkpoint whose dicts are its own; the values in them are shared."""
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
    """Return the checkpoint that follows one, with what the channels keep, or the same values.

    ``step`` isn't needed here: ids sort by the time they were made.
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
    """Return the id of the checkpoint that a config addresses; None for the newest."""
    found: str | None = config["configurable"].get("checkpoint_id")
    return found


def get_checkpoint_metadata(
    config: RunnableConfig, metadata: CheckpointMetadata
) -> CheckpointMetadata:
    """Return a checkpoint's metadata with the caller's own: plain values without NUL characters.

    These are the config's metadata and configurable keys, less those that say where to run.
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
    """Like get_checkpoint_metadata, less what the step wrote, as older checkpoints have it."""
    found: Any = get_checkpoint_metadata(config, metadata)
    found.pop("writes", None)
    return found  # type: ignore[no-any-return]


def writes_sort_key(task_path: str, task_id: str = "", idx: int = 0) -> tuple[str, str, int]:
    """Return what the writes on top of a checkpoint are sorted by: as a step applies them."""
    return task_path, task_id, idx
