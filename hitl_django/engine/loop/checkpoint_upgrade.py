"""Conversion of checkpoints that LangGraph stored in a layout before version 4.

In older layouts, the channels that trigger nodes have other names. Versions 1 and 2 have one
channel per edge: ``start:b`` for the input, ``a`` for an edge from node ``a``, and
``branch:a:condition:b`` for a conditional edge. Since version 3, these channels are named
``branch:to:b``. Up to version 3, Sends are stored separately as ``pending_sends``. Since version 4,
Sends are in a channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..channels import MISSING, BaseChannel
from ..constants import BRANCH_TO, INTERRUPT, START, TASKS
from ..savers.checkpoint import Checkpoint, Version
from ..task.nodes import Node

LAYOUT = 4  # the current layout, and the only layout written


def upgrade_checkpoint(
    checkpoint: Checkpoint, nodes: Mapping[str, Node], channels: Mapping[str, BaseChannel]
) -> Checkpoint:
    """Return a checkpoint converted to the current layout. The given checkpoint is not changed.

    The pending nodes remain the same. A node is pending if the version of one of its triggers is
    newer than the version of this trigger that the node has seen.
    """
    versions = dict(checkpoint["channel_versions"])
    values = dict(checkpoint["channel_values"])
    seen = {name: dict(read) for name, read in checkpoint["versions_seen"].items()}
    clock = max(versions.values(), default=None)
    found: Any = {
        **checkpoint,
        "v": LAYOUT,
        "channel_values": values,
        "channel_versions": versions,
        "versions_seen": seen,
        # These are names of the old layout. Without ``updated_channels``, all nodes are checked.
        "updated_channels": None,
        "clock": clock,
    }
    sends = found.pop("pending_sends", None)
    if sends and clock is not None:
        values[TASKS], versions[TASKS] = list(sends), clock
    if checkpoint["v"] < 3:
        for old, started in _starters(versions, nodes, channels).items():
            version, value = versions.pop(old), values.pop(old, MISSING)
            for name in started:
                if value is not MISSING and _is_new(version, seen.get(name, {}).get(old)):
                    key = BRANCH_TO + name
                    values[key], versions[key] = channels[key].fold(MISSING, [value]), version
                seen.get(name, {}).pop(old, None)
        _pass_breakpoint(seen)
    return found  # type: ignore[no-any-return]


def _starters(
    versions: Mapping[str, Version], nodes: Mapping[str, Node], channels: Mapping[str, BaseChannel]
) -> dict[str, list[str]]:
    """Return the nodes that each channel of the old layout triggers."""
    starters: dict[str, list[str]] = {}
    for old in versions:
        kind, _, rest = old.partition(":")
        name = rest.rpartition(":")[2]
        if old in nodes and old != START and old not in channels:
            starters[old] = _followers(nodes[old])
        elif name in nodes and (
            (kind == "start" and rest == name) or (kind == "branch" and old.count(":") == 3)
        ):
            starters[old] = [name]
    return starters


def _followers(node: Node) -> list[str]:
    return [
        target.removeprefix(BRANCH_TO)
        for writer in node.writers
        for target, _ in getattr(writer, "static", ())
        if target.startswith(BRANCH_TO)
    ]


def _is_new(version: Version, last: Version | None) -> bool:
    return last is None or version > last


def _pass_breakpoint(seen: dict[str, dict[str, Version]]) -> None:
    """Convert the entry of ``seen`` for the last passed breakpoint to the current layout.

    Older layouts store the version of each channel at the breakpoint. The current layout stores
    only the newest of these versions. ``seen`` is changed in place.
    """
    passed = seen.pop(INTERRUPT, None)
    if passed:
        seen[INTERRUPT] = {INTERRUPT: max(passed.values())}
