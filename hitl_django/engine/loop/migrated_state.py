"""Replacement of a thread's stored state after a migration to a newer graph version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from ..channels import MISSING, BinaryOperatorAggregate, DeltaChannel
from ..constants import BRANCH_TO, INTERRUPT, JOIN, RESERVED_KEYS, START
from ..task.graph_spec import GraphSpec
from ..types import Overwrite
from .apply import NextVersion
from .channel_state import ChannelState

#: Channels with a reducer, which would combine writes with the initial value.
REDUCING = (BinaryOperatorAggregate, DeltaChannel)


def read_values(spec: GraphSpec, state: ChannelState) -> dict[str, Any]:
    """Return a copy of the stored state, including keys that the graph no longer has.

    If the input of the run isn't applied to the state yet, return the input instead.
    """
    values = {}
    for name in _iterate_keys(state):
        stored, channel = state.values[name], spec.channels.get(name)
        value = stored if channel is None else channel.read(stored)
        if value is not MISSING:
            values[name] = value
    if not values and isinstance(state.values.get(START), dict):
        values = state.values[START]
    return deepcopy(values)


def replace_values(
    spec: GraphSpec, state: ChannelState, values: Mapping[str, Any], next_version: NextVersion
) -> None:
    """Replace the stored state with ``values``. Keys that aren't in ``values`` become empty.

    Pending tasks remain pending. A breakpoint that the run has already passed doesn't stop it
    again.
    """
    before = read_values(spec, state)
    keys = list(_iterate_keys(state))
    version = next_version(state.clock, None)
    moved: dict[str, Any] = {}
    if not keys and isinstance(state.values.get(START), dict):
        if _differ(before, values):
            moved[START] = dict(values)
    else:
        for name in keys:
            if name not in values:
                state.values.pop(name)
                state.versions.pop(name, None)
                state.touched.discard(name)
        for name, value in values.items():
            if name not in before or _differ(before[name], value):
                channel = spec.channels[name]
                given = Overwrite(value) if isinstance(channel, REDUCING) else value
                moved[name] = channel.fold(MISSING, [given])
    for name, new_value in moved.items():
        was = state.versions.get(name)
        state.values[name], state.versions[name] = new_value, version
        state.touched.add(name)
        _replace_seen_version(state, name, was, version)
    if moved:
        _replace_seen_version(state, INTERRUPT, state.clock, version)
        state.clock = version


def _iterate_keys(state: ChannelState) -> Iterator[str]:
    for name in state.values:
        is_state = name not in RESERVED_KEYS and not name.startswith((BRANCH_TO, JOIN))
        if is_state and name in state.versions:
            yield name


def _differ(before: Any, after: Any) -> bool:
    try:
        return type(before) is not type(after) or bool(before != after)
    except Exception:
        return True  # The values can't be compared.


def _replace_seen_version(state: ChannelState, channel: str, was: Any, version: Any) -> None:
    """Mark version ``version`` of a channel as seen by the nodes that have seen version ``was``."""
    for node, seen in state.seen.items():
        if channel in seen and seen[channel] == was:
            state.seen[node] = {**seen, channel: version}
