"""Checkpoints of earlier layouts, as LangGraph stored them before version 4, in today's.

What starts a node had other names. Version 1 and 2 have a channel for each way to it: ``start:b``
from the input, ``a`` from the node of that name, ``branch:a:condition:b`` from a conditional edge.
Since version 3 all of them are ``branch:to:b``. Up to version 3, what was sent stands beside the
channels as ``pending_sends``; since version 4 it is a channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..channels import MISSING, BaseChannel
from ..constants import BRANCH_TO, INTERRUPT, START, TASKS
from ..savers.checkpoint import Checkpoint, Version
from ..task.nodes import Node

LAYOUT = 4  # the newest, and the only one that is written


def upgrade_checkpoint(
    checkpoint: Checkpoint, nodes: Mapping[str, Node], channels: Mapping[str, BaseChannel]
) -> Checkpoint:
    """Return a checkpoint of an earlier layout in today's; the given one stays as it is.

    A node is due afterwards where it was before: where one of its channels holds a value that is
    newer than what the node has seen.
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
        # The names in it were those of the layout; without them every node is looked at.
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
    """Return the channels of the layout that start nodes, and which."""
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
    """Return the nodes that a node's own edges lead to."""
    return [
        target.removeprefix(BRANCH_TO)
        for writer in node.writers
        for target, _ in getattr(writer, "static", ())
        if target.startswith(BRANCH_TO)
    ]


def _is_new(version: Version, last: Version | None) -> bool:
    return last is None or version > last


def _pass_breakpoint(seen: dict[str, dict[str, Version]]) -> None:
    """Note when a breakpoint was last passed; then, it was what each channel had come to."""
    passed = seen.pop(INTERRUPT, None)
    if passed:
        seen[INTERRUPT] = {INTERRUPT: max(passed.values())}
