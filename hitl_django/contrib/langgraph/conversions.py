"""Conversion of values between LangGraph's classes and the engine's."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command as ForeignCommand
from langgraph.types import Interrupt as ForeignInterrupt
from langgraph.types import Send as ForeignSend
from langgraph.types import TimeoutPolicy as ForeignTimeout

from hitl_django.engine.constants import (
    ASKED,
    ATTEMPTS,
    CHANGED,
    ERROR,
    INTERRUPT,
    KEYED,
    ONCE,
    TASKS,
)
from hitl_django.engine.savers.pruning import DELTA_COUNTERS
from hitl_django.engine.types import Command, Interrupt, Send, TimeoutPolicy

#: Writes that store a task's memory. LangGraph doesn't know them and would consider them output.
MEMORY = frozenset((ASKED, ATTEMPTS, CHANGED, KEYED, ONCE))


def convert_checkpoint(checkpoint: Any, convert: Callable[[str, Any], Any]) -> Any:
    """Return a checkpoint with converted Sends, and without snapshots of DeltaChannels.

    ``convert`` is ``convert_to_ours`` or ``convert_to_theirs``. LangGraph wraps the value of a
    DeltaChannel in a snapshot object. The returned checkpoint contains the value itself.
    """
    values = checkpoint["channel_values"]
    changed = {name: value.value for name, value in values.items() if type(value) is _DeltaSnapshot}
    if TASKS in values:
        changed[TASKS] = [convert(TASKS, one) for one in values[TASKS]]
    return {**checkpoint, "channel_values": {**values, **changed}} if changed else checkpoint


def drop_snapshot_counters(metadata: Any, values: Collection[str]) -> Any:
    """Return metadata without LangGraph's counters for the DeltaChannels in ``values``.

    ``values`` are the channels whose values the checkpoint contains. The counters of other channels
    are kept, because the values of these channels depend on earlier checkpoints.
    """
    counters = metadata.get(DELTA_COUNTERS)
    if counters is None:
        return metadata
    left = {name: count for name, count in counters.items() if name not in values}
    others = {key: value for key, value in metadata.items() if key != DELTA_COUNTERS}
    return {**others, DELTA_COUNTERS: left} if left else others


def convert_to_ours(name: str, value: Any) -> Any:
    """Convert a write of LangGraph to the engine's classes. ``name`` is the channel."""
    if name == INTERRUPT and isinstance(value, list | tuple):
        return tuple(_convert_interrupt(asked, Interrupt) for asked in value)
    if name == ERROR and isinstance(value, BaseException):
        return repr(value)
    if isinstance(value, ForeignSend):
        return Send(value.node, value.arg, timeout=_convert_timeout(value, TimeoutPolicy))
    return value


def convert_to_theirs(name: str, value: Any) -> Any:
    """Convert a write of the engine to LangGraph's classes. ``name`` is the channel."""
    if name == INTERRUPT and isinstance(value, list | tuple):
        return tuple(_convert_interrupt(asked, ForeignInterrupt) for asked in value)
    if isinstance(value, Send):
        return ForeignSend(value.node, value.arg, timeout=_convert_timeout(value, ForeignTimeout))
    return value


def convert_command(command: Command[Any], ns: str | None = None) -> ForeignCommand[Any]:
    """Convert a Command of the engine to LangGraph's Command.

    ``ns`` is the namespace of a node. The Command then applies to the graph that contains this
    node. Without ``ns``, the Command applies to the graph whose node returns the Command.
    """
    goto = command.goto if isinstance(command.goto, list | tuple) else (command.goto,)
    return ForeignCommand(
        graph=ns,
        update=command.update,
        goto=[convert_to_theirs(TASKS, target) for target in goto],
    )


def _convert_interrupt(asked: Any, kind: Callable[..., Any]) -> Any:
    return kind(asked.value, asked.id, response_schema=asked.response_schema)


def _convert_timeout(sent: Any, policy: Callable[..., Any]) -> Any:
    found = sent.timeout
    if found is None:
        return None
    return policy(
        run_timeout=found.run_timeout,
        idle_timeout=found.idle_timeout,
        refresh_on=found.refresh_on,
    )
