"""The state of one graph between two super-steps: channel values and their versions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from typing import Any

from ..channels.reducer import get_overwrite
from ..constants import TASKS
from ..savers.checkpoint import AddedEntries, Checkpoint, Version
from ..task.graph_spec import GraphSpec
from ..task.renames import FormerNames
from ..types import Send
from .checkpoint_upgrade import LAYOUT, upgrade_checkpoint


class ChannelState:
    """The state of one graph between two super-steps, as plain values.

    - ``values``: the stored value of each channel (see ``channels.channel``)
    - ``versions``: the version of each channel's last change
    - ``seen``: for each node, the channel versions with which the node last ran
    - ``clock``: the newest version

    The dicts inside ``seen`` are replaced and never changed, so a copy of the outer dict is a
    snapshot.
    """

    __slots__ = (
        "added", "clock", "former_names", "live", "passed", "seen", "touched", "updated", "values",
        "versions",
    )  # fmt: skip

    def __init__(
        self,
        values: dict[str, Any],
        versions: dict[str, Version],
        seen: dict[str, dict[str, Version]],
        updated: Iterable[str] | None = None,
        clock: Version | None = None,
    ) -> None:
        self.values, self.versions, self.seen = values, versions, seen
        self.clock = max(versions.values()) if clock is None and versions else clock
        self.updated: set[str] | None = None if updated is None else set(updated)
        #: Channels whose value changes in a step without a write.
        self.live: set[str] = set()
        #: Nodes that are in ``seen`` only because they ran in the newest step.
        self.passed: Sequence[str] = ()
        #: The names used in the ids of the checkpoint's tasks, if nodes or channels were renamed
        #: since.
        self.former_names: FormerNames | None = None
        #: Channels changed since the last checkpoint.
        self.touched: set[str] = set()
        #: The added items of changed channels whose list or dict has only grown, by channel.
        self.added: dict[str, AddedEntries] = {}

    def copy(self) -> ChannelState:
        twin = ChannelState.__new__(ChannelState)
        twin.values, twin.versions = self.values.copy(), self.versions.copy()
        twin.seen = self.seen.copy()
        twin.clock, twin.live, twin.touched = self.clock, set(self.live), set(self.touched)
        twin.passed, twin.added = self.passed, {}
        twin.former_names = self.former_names
        twin.updated = None if self.updated is None else set(self.updated)
        return twin

    def note_growth(
        self, name: str, old_value: Any, writes: Sequence[Any], grown: Any, *, is_sum: bool
    ) -> None:
        """Record the items that a reducer has added to a channel's list or dict.

        The reducer was called with ``old_value`` and ``writes``, and has returned ``grown``. If the
        reducer changed or removed an existing item, the recorded items of the channel are deleted,
        and no further items of the channel are recorded until the next checkpoint. ``is_sum`` is
        true if the reducer is ``operator.add``.
        """
        before = self.added.get(name)
        if before is None and (name in self.touched or name not in self.versions):
            return
        entries = _find_added(old_value, writes, grown, is_sum=is_sum)
        if entries is None:
            self.added.pop(name, None)
        elif before is None:
            self.added[name] = AddedEntries(self.versions[name], entries)
        elif isinstance(before.entries, dict):
            self.added[name] = AddedEntries(before.version, {**before.entries, **entries})
        else:
            self.added[name] = AddedEntries(before.version, [*before.entries, *entries])


def _find_added(old_value: Any, writes: Sequence[Any], grown: Any, *, is_sum: bool) -> Any:
    """Return the items that a reducer has added to a list or dict.

    The arguments are as for ``note_growth``. Return None if an existing item was changed or
    removed, or if the value is neither a list nor a dict.
    """
    cls = type(old_value)
    if type(grown) is not cls:
        return None
    written = 0
    for write in writes:
        if get_overwrite(write)[0]:
            return None
        written += len(write) if type(write) is list else 1
    if cls is dict:
        return _find_added_keys(old_value, writes, grown)
    if cls is not list:
        return None
    length = len(old_value)
    if len(grown) != length + written:
        return None
    # A sum of lists begins with the items of the first list. Other reducers may change them. The
    # comparison takes time for each existing item, although it doesn't compare the contents of
    # identical objects.
    is_certain = is_sum and {list}.issuperset(map(type, writes))
    if not is_certain and grown[:length] != old_value:
        return None
    items = grown[length:]
    if len(writes) == 1 and type(writes[0]) is list and all(map(is_, items, writes[0])):
        return writes[0]  # The same object is returned, so that it is encoded once.
    return items


def _find_added_keys(old_value: Any, writes: Sequence[Any], grown: Any) -> Any:
    if not {dict}.issuperset(map(type, writes)):
        return None
    if len(grown) != len(old_value) + sum(map(len, writes)):
        return None
    return writes[0] if len(writes) == 1 else {key: at[key] for at in writes for key in at}


def restore_channels(spec: GraphSpec, checkpoint: Checkpoint | None) -> ChannelState:
    """Return the state in a checkpoint. Without a checkpoint, return the state before any input."""
    if checkpoint is None:
        state = ChannelState({}, {}, {})
    else:
        stored = checkpoint
        if checkpoint["v"] < LAYOUT:
            checkpoint = upgrade_checkpoint(checkpoint, spec.nodes, spec.channels)
        state = ChannelState(
            dict(checkpoint["channel_values"]),
            dict(checkpoint["channel_versions"]),
            dict(checkpoint["versions_seen"]),
            checkpoint.get("updated_channels"),
            checkpoint.get("clock"),
        )
        if checkpoint is not stored:
            # Values under names of the current checkpoint layout are not stored yet.
            state.touched = state.values.keys() - stored["channel_values"].keys()
        # Values under the new names of renamed channels are not stored yet either.
        state.touched |= checkpoint.get("new_channels", state.touched)
        state.former_names = checkpoint.get("former_names")
        state.live = {name for name in state.values if name in spec.expiring}
        state.passed = [name for name, read in state.seen.items() if spec.spent.issuperset(read)]
    for name in spec.defaults:
        if name not in state.values:
            state.values[name] = spec.channels[name].initial()
    return state


def list_durable_values(spec: GraphSpec, state: ChannelState) -> dict[str, Any]:
    """Return the values of the channels that are stored in checkpoints."""
    if not spec.defaults and not spec.undurable:
        return state.values.copy()
    kept = {
        name: value
        for name, value in state.values.items()
        if name in state.versions and name not in spec.undurable
    }
    if spec.undurable and kept.get(TASKS):
        kept[TASKS] = [strip_send(sent, spec.undurable) for sent in kept[TASKS]]
    return kept


def strip_send(sent: Any, undurable: frozenset[str]) -> Any:
    """Return the Send ``sent`` without the values of the channels ``undurable`` in its input.

    These channels are never stored. If ``sent`` isn't a Send, it is returned unchanged.
    """
    if not isinstance(sent, Send) or type(sent.arg) is not dict or undurable.isdisjoint(sent.arg):
        return sent
    stripped = {key: value for key, value in sent.arg.items() if key not in undurable}
    return Send(sent.node, stripped, timeout=sent.timeout)
