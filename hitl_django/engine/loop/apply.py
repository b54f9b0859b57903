"""Application of a super-step's writes to the channel state.

The result depends on the paths of the tasks, not on the order in which they finished.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from .. import ids
from ..channels import MISSING, SAME
from ..constants import CONTROL_WRITES, PULL, PUSH
from ..savers.checkpoint import Version
from ..task.graph_spec import GraphSpec
from ..task.nodes import Write
from .channel_state import ChannelState

logger = logging.getLogger("hitl_django")

NextVersion = Callable[[Version | None, None], Version]


class Writer(Protocol):
    """A source of writes: a task, or the input of the run. The input has no triggers."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> tuple[Any, ...]: ...
    @property
    def triggers(self) -> Sequence[str]: ...
    @property
    def writes(self) -> Sequence[Write] | None: ...


class InputWrites:
    """Writes given by a caller instead of a task, for example the run's input."""

    __slots__ = ("name", "path", "triggers", "writes")

    def __init__(self, name: str, writes: Sequence[Write]) -> None:
        self.name, self.writes = name, writes
        self.path: tuple[Any, ...] = ()
        self.triggers: tuple[str, ...] = ()


def count_version(current: Version | None, channel: None) -> int:
    """Return the next channel version in a run without a saver. ``channel`` is ignored."""
    return 1 if current is None else current + 1


def apply_writes(
    spec: GraphSpec,
    state: ChannelState,
    writers: Sequence[Writer],
    next_version: NextVersion,
) -> None:
    """Apply the writes of one super-step to ``state``, which is changed in place.

    ``state.updated`` becomes the set of the updated channels that have a value. These channels may
    trigger the next tasks. If an error is raised and ``spec.is_atomic`` is true, no channel has
    changed.
    """
    if len(writers) > 1 and not _are_sends_in_order(writers):
        writers = sorted(writers, key=lambda writer: ids.make_path_key(writer.path[:3]))
    version = next_version(state.clock, None)
    grouped = _group_by_channel(spec, writers)
    # Reducers may raise an error, so they are called before the state changes.
    folded = _fold(spec, state, grouped) if spec.is_atomic else None
    updated: set[str] = set()
    is_step = starts = False
    passed: list[str] = []
    for writer in writers:
        if not (triggers := writer.triggers):
            continue
        if not is_step:
            is_step = True
            # The writers are sorted by path: triggered tasks precede Sends and updates, which don't
            # affect the order in which nodes ran.
            if starts := writer.path[0] == PULL:
                # These nodes are in ``seen`` only because they ran in the previous super-step.
                for name in state.passed:
                    state.seen.pop(name, None)
        _mark_seen(state, writer)
        if starts and spec.spent.issuperset(triggers):
            passed.append(writer.name)
        if spec.consumable:
            _consume(spec, state, triggers, version)
    if folded is None:
        folded = _fold(spec, state, grouped)
    _set_values(spec, state, folded, version, updated)
    if is_step:
        _expire(spec, state, version, updated)
        if starts:
            state.passed = passed
        if spec.finishing and spec.trigger_to_nodes.keys().isdisjoint(updated):
            _finish(spec, state, version, updated)
    state.updated = updated


def _are_sends_in_order(writers: Sequence[Writer]) -> bool:
    """Return whether all writers are tasks of Sends and are already sorted.

    Super-steps with many tasks usually consist of Sends, and sorting is then unnecessary.
    """
    for index, writer in enumerate(writers):
        path = writer.path
        if not path or path[0] != PUSH or path[1] != index:
            return False
    return True


def _mark_seen(state: ChannelState, writer: Writer) -> None:
    versions, read = state.versions, {}
    for trigger in writer.triggers:
        if trigger in versions:
            read[trigger] = versions[trigger]
    before = state.seen.get(writer.name)
    state.seen[writer.name] = {**before, **read} if before else read


def _group_by_channel(spec: GraphSpec, writers: Iterable[Writer]) -> dict[str, list[Any]]:
    channels = spec.channels
    grouped: dict[str, list[Any]] = {}
    for writer in writers:
        for name, value in writer.writes or ():
            if name in grouped:
                grouped[name].append(value)
            elif name in channels:
                grouped[name] = [value]
            elif name not in CONTROL_WRITES:
                logger.warning(
                    "Task %s wrote to unknown channel %s; the write is ignored", writer.name, name
                )
    return grouped


def _fold(
    spec: GraphSpec, state: ChannelState, grouped: dict[str, list[Any]]
) -> list[tuple[str, Any]]:
    """Return the changed channels with their new values.

    ``grouped`` contains the written values by channel.
    """
    folded: list[tuple[str, Any]] = []
    for name, written in grouped.items():
        if len(written) == 1 and name in spec.replacing:
            folded.append((name, written[0]))
            continue
        value = state.values.get(name, MISSING)
        new_value = spec.channels[name].fold(value, written)
        if new_value is SAME:
            continue
        if name in spec.growing:
            is_sum = name in spec.summing
            state.note_growth(name, value, written, new_value, is_sum=is_sum)
        folded.append((name, new_value))
    return folded


def _set_values(
    spec: GraphSpec,
    state: ChannelState,
    folded: Sequence[tuple[str, Any]],
    version: Version,
    updated: set[str],
) -> None:
    plain, values = spec.plain, state.values
    for name, new_value in folded:
        if new_value is not MISSING and name in plain:
            # This is the code of _set_value, inlined for the channels of nearly all writes.
            values[name] = new_value
            state.versions[name] = state.clock = version
            state.touched.add(name)
            updated.add(name)
            if name in spec.expiring:
                state.live.add(name)
        elif _set_value(spec, state, name, new_value, version):
            updated.add(name)


def _set_value(
    spec: GraphSpec, state: ChannelState, name: str, new_value: Any, version: Version
) -> bool:
    state.versions[name] = state.clock = version
    state.touched.add(name)
    if new_value is MISSING:
        state.values.pop(name, None)
        state.live.discard(name)
        return False
    state.values[name] = new_value
    if name in spec.expiring:
        state.live.add(name)
    return name in spec.plain or spec.channels[name].is_set(new_value)


def _consume(
    spec: GraphSpec, state: ChannelState, triggers: Sequence[str], version: Version
) -> None:
    """Reset the triggers that lose their value when they trigger a node."""
    for name in triggers:
        if name in spec.consumable:
            new_value = spec.channels[name].consume_value(state.values.get(name, MISSING))
            if new_value is not SAME:
                _set_value(spec, state, name, new_value, version)


def _expire(spec: GraphSpec, state: ChannelState, version: Version, updated: set[str]) -> None:
    """Update the channels that change if a super-step doesn't write to them.

    ``updated`` contains the written channels. Changed channels that have a value are added to it.
    """
    values = state.values
    for name in state.live - updated:
        if name in spec.spent:
            # The channel has triggered its node, so the channel's entries are removed.
            state.clock = version
            values.pop(name, None)
            state.versions.pop(name, None)
            state.live.discard(name)
            state.touched.discard(name)
            continue
        new_value = spec.channels[name].expire(values.get(name, MISSING))
        if new_value is not SAME and _set_value(spec, state, name, new_value, version):
            updated.add(name)


def _finish(spec: GraphSpec, state: ChannelState, version: Version, updated: set[str]) -> None:
    """Update the channels that become readable only when no node is left to run."""
    for name in spec.finishing:
        new_value = spec.channels[name].finish_value(state.values.get(name, MISSING))
        if new_value is not SAME and _set_value(spec, state, name, new_value, version):
            updated.add(name)
