"""Translation of checkpoints that were stored before nodes or channels were renamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..channels import NamedBarrierValue
from ..constants import BRANCH_TO, JOIN, START, TASKS
from ..savers.checkpoint import Checkpoint, CheckpointTuple, PendingWrite
from ..task.graph_spec import GraphSpec
from ..task.renames import FormerNames, Renames
from ..types import Send


def rename_checkpoint(spec: GraphSpec, saved: CheckpointTuple | None) -> CheckpointTuple | None:
    """Return a stored checkpoint and its pending writes with the graph's current names.

    The given checkpoint is not changed. If it is None, return None. A checkpoint may contain former
    and current names if workers of different versions wrote to it.
    """
    renames = spec.renames
    if saved is None or not renames:
        return saved
    checkpoint = saved.checkpoint
    names, channels = renames.nodes, renames.rename_channel
    versions = _rename_keys(checkpoint["channel_versions"], channels)
    renamed: Any = {
        **checkpoint,
        "channel_values": {
            name: _rename_value(spec, name, stored_value)
            for name, stored_value in _rename_keys(checkpoint["channel_values"], channels).items()
        },
        "channel_versions": versions,
        "versions_seen": {
            node: _rename_keys(seen, channels)
            for node, seen in _rename_keys(
                checkpoint["versions_seen"], lambda node: names.get(node, node)
            ).items()
        },
        "former_names": _find_former_names(renames, checkpoint),
        "new_channels": versions.keys() - checkpoint["channel_versions"].keys(),
    }
    if checkpoint["updated_channels"] is not None:
        renamed["updated_channels"] = sorted(set(map(channels, checkpoint["updated_channels"])))
    pending = [_rename_write(spec, write) for write in saved.pending_writes or ()]
    return saved._replace(checkpoint=renamed, pending_writes=pending)


def _rename_keys(stored: Mapping[str, Any], rename: Any) -> dict[str, Any]:
    """Return a copy of a mapping in which ``rename`` has renamed the keys.

    If the mapping also has the new key, the value of the new key is kept.
    """
    found = {rename(name): value for name, value in stored.items()}
    for name in found.keys() & stored.keys():
        found[name] = stored[name]
    return found


def _rename_value(spec: GraphSpec, name: str, stored_value: Any) -> Any:
    renames = spec.renames
    if name == TASKS:
        return [_rename_send(renames, sent) for sent in stored_value or ()]
    if name == START:
        return renames.rename_keys(stored_value)
    if isinstance(spec.channels.get(name), NamedBarrierValue):
        if isinstance(stored_value, tuple):
            return (set(map(renames.rename_node, stored_value[0])), stored_value[1])
        return set(map(renames.rename_node, stored_value))
    return stored_value


def _rename_send(renames: Renames, sent: Any) -> Any:
    if not isinstance(sent, Send):
        return sent
    arg = renames.rename_keys(sent.arg)
    return Send(renames.rename_node(sent.node), arg, timeout=sent.timeout)


def _rename_write(spec: GraphSpec, write: PendingWrite) -> PendingWrite:
    task, channel, value = write
    channel = spec.renames.rename_channel(channel)
    if channel == TASKS:
        value = _rename_send(spec.renames, value)
    elif channel == START:
        value = spec.renames.rename_keys(value)
    elif isinstance(spec.channels.get(channel), NamedBarrierValue) and isinstance(value, str):
        value = spec.renames.rename_node(value)
    return task, channel, value


def _find_former_names(renames: Renames, checkpoint: Checkpoint) -> FormerNames | None:
    """Return the names of nodes and channels from which a checkpoint's task ids were computed.

    Return None if these are the current names. A checkpoint lists the renames known when it was
    stored. If a checkpoint has no such list, the former names are derived from the names of nodes
    and channels in the checkpoint.
    """
    noted = set(checkpoint.get("renamed") or ())
    nodes = {old: new for old, new in renames.nodes.items() if old not in noted}
    channels = {old: new for old, new in renames.channels.items() if old not in noted}
    of_nodes = _choose_former(nodes, set(_iterate_node_names(checkpoint)))
    of_channels = _choose_former(channels, set(checkpoint["channel_versions"]))
    return FormerNames(of_nodes, of_channels) if of_nodes or of_channels else None


def _choose_former(renamed: Mapping[str, str], mentioned: set[str]) -> dict[str, str]:
    """Return the former names used by a checkpoint, as a dict by current name.

    ``mentioned`` are the names that the checkpoint contains.
    """
    found: dict[str, str] = {}
    is_newer = not mentioned.isdisjoint(renamed.values()) and mentioned.isdisjoint(renamed)
    for old, new in renamed.items():
        if old in mentioned:
            found[new] = old
        elif new not in mentioned and not is_newer:
            found.setdefault(new, old)
    return found


def _iterate_node_names(checkpoint: Checkpoint) -> Iterator[str]:
    yield from checkpoint["versions_seen"]
    for channel in checkpoint["channel_versions"]:
        if channel.startswith(BRANCH_TO):
            yield channel.removeprefix(BRANCH_TO)
        elif channel.startswith(JOIN):
            starts, _, end = channel.removeprefix(JOIN).rpartition(":")
            yield from (*starts.split("+"), end)
    for sent in checkpoint["channel_values"].get(TASKS) or ():
        if isinstance(sent, Send):
            yield sent.node
