"""What a super-step's writes make of the state: a function of the state and the writes.

The outcome depends on the tasks' paths, never on the order in which they finished.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from . import ids
from .channels import MISSING, SAME
from .checkpoint import Version
from .constants import CONTROL_WRITES, PULL, PUSH
from .nodes import Write
from .plan import Blueprint, State

logger = logging.getLogger("hitl_django")

NextVersion = Callable[[Version | None, None], Version]


class Writer(Protocol):
    """Whoever wrote: a task, or the input (without triggers)."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> tuple[Any, ...]: ...
    @property
    def triggers(self) -> Sequence[str]: ...
    @property
    def writes(self) -> Sequence[Write] | None: ...


class InputWrites:
    """The writes of a caller: applied like a task's, but no super-step of its own."""

    __slots__ = ("name", "path", "triggers", "writes")

    def __init__(self, name: str, writes: Sequence[Write]) -> None:
        self.name, self.writes = name, writes
        self.path: tuple[Any, ...] = ()
        self.triggers: tuple[str, ...] = ()


def count_version(current: Version | None, channel: None) -> int:
    """Counts versions of a run that isn't saved."""
    return 1 if current is None else current + 1


def apply(
    blueprint: Blueprint,
    state: State,
    writers: Sequence[Writer],
    next_version: NextVersion,
) -> None:
    """Folds the writes of one super-step into ``state``.

    Changes ``state`` and nothing else; ``state.updated`` becomes the set of channels that were
    updated and hold a value, which is what may trigger the next tasks.
    """
    if len(writers) > 1 and not _are_sends_in_order(writers):
        writers = sorted(writers, key=lambda writer: ids.path_key(writer.path[:3]))
    version = next_version(state.clock, None)
    step = _Step(blueprint, state, version)
    is_step = starts = False
    for writer in writers:
        if writer.triggers:
            if not is_step:
                is_step = True
                # In the order of paths what was triggered comes before what was sent or updated,
                # which alone says nothing of the nodes that ran last.
                starts = writer.path[0] == PULL
                if starts:
                    _forget_passed(state)
            _mark_seen(state, writer)
            if blueprint.consumable:
                step.consume(writer.triggers)
    step.fold(_by_channel(blueprint, writers))
    if is_step:
        step.expire()
        if starts:
            state.passed = [w.name for w in writers if blueprint.spent.issuperset(w.triggers)]
        if blueprint.finishing and blueprint.trigger_to_nodes.keys().isdisjoint(step.updated):
            step.finish()
    state.updated = step.updated


def _are_sends_in_order(writers: Sequence[Writer]) -> bool:
    """Tells whether these are the tasks of one step's Sends, as planned: the widest steps are."""
    return all(
        writer.path[:1] == (PUSH,) and writer.path[1] == index
        for index, writer in enumerate(writers)
    )


def _forget_passed(state: State) -> None:
    """Drops what the step before the newest kept to say which nodes ran last."""
    for name in state.passed:
        state.seen.pop(name, None)


def _mark_seen(state: State, writer: Writer) -> None:
    versions = state.versions
    read = {name: versions[name] for name in writer.triggers if name in versions}
    before = state.seen.get(writer.name)
    state.seen[writer.name] = {**before, **read} if before else read


def _by_channel(blueprint: Blueprint, writers: Iterable[Writer]) -> dict[str, list[Any]]:
    channels = blueprint.channels
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


class _Step:
    """One application: the version that everything it touches gets."""

    __slots__ = ("blueprint", "state", "updated", "version")

    def __init__(self, blueprint: Blueprint, state: State, version: Version) -> None:
        self.blueprint, self.state, self.version = blueprint, state, version
        self.updated: set[str] = set()

    def _hold(self, name: str, held: Any) -> bool:
        """Stores what a channel holds now; tells whether it can be read."""
        state, channel = self.state, self.blueprint.channels[name]
        state.versions[name] = state.clock = self.version
        state.touched.add(name)
        if held is MISSING:
            state.values.pop(name, None)
            state.live.discard(name)
            return False
        state.values[name] = held
        if channel.expires:
            state.live.add(name)
        return channel.plain or channel.is_held(held)

    def consume(self, triggers: Sequence[str]) -> None:
        for name in triggers:
            if name in self.blueprint.consumable:
                held = self.blueprint.channels[name].consume(self.state.values.get(name, MISSING))
                if held is not SAME:
                    self._hold(name, held)

    def fold(self, grouped: dict[str, list[Any]]) -> None:
        channels, state = self.blueprint.channels, self.state
        values, versions = state.values, state.versions
        for name, written in grouped.items():
            channel = channels[name]
            held = channel.fold(values.get(name, MISSING), written)
            if held is SAME:
                continue
            if held is not MISSING and channel.plain and not channel.expires:
                # What _hold does, for the channels that nearly all writes go to.
                values[name] = held
                versions[name] = state.clock = self.version
                state.touched.add(name)
                self.updated.add(name)
            elif self._hold(name, held):
                self.updated.add(name)

    def expire(self) -> None:
        """Tells the channels that nobody wrote to that a super-step has passed."""
        channels, values = self.blueprint.channels, self.state.values
        for name in self.state.live - self.updated:
            held = channels[name].expire(values.get(name, MISSING))
            if held is MISSING and name in self.blueprint.spent:
                self._spend(name)
            elif held is not SAME and self._hold(name, held):
                self.updated.add(name)

    def _spend(self, name: str) -> None:
        """Forgets a channel that has started its node."""
        state = self.state
        state.clock = self.version
        state.values.pop(name, None)
        state.versions.pop(name, None)
        state.live.discard(name)
        state.touched.discard(name)

    def finish(self) -> None:
        """Opens the channels that wait until nothing else would run."""
        channels, values = self.blueprint.channels, self.state.values
        for name in self.blueprint.finishing:
            held = channels[name].finish(values.get(name, MISSING))
            if held is not SAME and self._hold(name, held):
                self.updated.add(name)
