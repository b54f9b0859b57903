"""Planning of the next super-step's tasks, based only on the channel state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..channels import MISSING
from ..constants import INTERRUPT, PULL, PUSH, TASKS
from ..errors import annotate
from ..task.graph_spec import GraphSpec
from ..task.nodes import Node
from ..task.task import StepOrigin, Task
from ..types import All, Send
from .channel_state import ChannelState


def plan_tasks(spec: GraphSpec, state: ChannelState, origin: StepOrigin) -> list[Task]:
    """Return the tasks of the next super-step: first those of Sends, then of triggered nodes."""
    origin.former_names = state.former_names
    tasks: list[Task] = []
    sends = state.values.get(TASKS)
    if sends:
        for index, send in enumerate(sends):
            task = _sent_task(spec, send, index, origin)
            if task is not None:
                tasks.append(task)
    for name in _candidates(spec, state):
        node = spec.nodes[name]
        if _is_triggered(spec, state, name, node):
            task = _triggered_task(spec, state, name, node, origin)
            if task is not None:
                tasks.append(task)
    return tasks


def _sent_task(spec: GraphSpec, send: Any, index: int, origin: StepOrigin) -> Task | None:
    if not isinstance(send, Send) or send.node not in spec.nodes:
        return None
    node = spec.nodes[send.node]
    if send.timeout is not None:
        node = replace(node, timeout=send.timeout)
    return Task(send.node, node, (PUSH, index, False), (PUSH,), send.arg, origin)


def _triggered_task(
    spec: GraphSpec, state: ChannelState, name: str, node: Node, origin: StepOrigin
) -> Task | None:
    task = Task(
        name, node, (PULL, origin.get_former_name(name)), node.sorted_triggers, None, origin
    )
    try:
        task.input = read_input(spec, state, node, origin)
    except Exception as error:
        # The state doesn't fit the node's input schema. This task fails, but the previous step is
        # complete.
        annotate(error, f"Before task with name '{name}' and path '{task.path}'")
        task.error = error
    return None if task.input is MISSING else task


def _candidates(spec: GraphSpec, state: ChannelState) -> Iterable[str]:
    mapping, names = spec.trigger_to_nodes, []
    # Without updates, each channel with a value may trigger a node that has not run yet.
    for channel in state.updated or (state.values if state.versions else ()):
        if channel in mapping:
            names += mapping[channel]
    if len(names) < 2:
        return names
    found = set(names)
    return sorted(found) if state.updated else [name for name in spec.nodes if name in found]


def _is_triggered(spec: GraphSpec, state: ChannelState, name: str, node: Node) -> bool:
    values, versions = state.values, state.versions
    seen = state.seen.get(name)
    for trigger in node.triggers:
        stored_value = values.get(trigger, MISSING)
        if stored_value is MISSING:
            continue
        if trigger in spec.mixed and not spec.channels[trigger].is_set(stored_value):
            continue
        if seen is None:
            return True
        version = versions.get(trigger)
        if version is not None:
            last = seen.get(trigger)
            if last is None or version > last:
                return True
    return False


def read_input(spec: GraphSpec, state: ChannelState, node: Node, origin: StepOrigin) -> Any:
    """Return the input of a node, or MISSING if the node reads a single channel that is empty."""
    if isinstance(node.keys, str):
        stored_value = state.values.get(node.keys, MISSING)
        value = (
            stored_value if stored_value is MISSING else spec.channels[node.keys].read(stored_value)
        )
        if value is MISSING:
            return MISSING
        return value if node.coercion is None else node.coercion(value)
    # isdisjoint iterates over the smaller set, so this check is fast even if the state has many
    # keys.
    if spec.mixed.isdisjoint(node.key_set):
        stored, values = state.values, {}
        for key in node.keys:
            if key in stored:
                values[key] = stored[key]
    else:
        values = read_state(spec, state.values, node.keys)
    if spec.managed:
        for key in node.keys:
            if key in spec.managed:
                values[key] = spec.managed[key].compute(origin.step, origin.stop)
    return values if node.coercion is None else node.coercion(values)


def read_state(spec: GraphSpec, values: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return the values that nodes read from the channels ``keys``. Empty channels are left out."""
    if spec.mixed.isdisjoint(keys):
        return {key: values[key] for key in keys if key in values}
    state = {}
    for key in keys:
        stored_value = values.get(key, MISSING)
        if stored_value is not MISSING:
            value = spec.channels[key].read(stored_value)
            if value is not MISSING:
                state[key] = value
    return state


def find_breakpoints(
    state: ChannelState, names: All | Sequence[str], tasks: Iterable[Task]
) -> list[Task]:
    """Return the tasks that must not run yet, because their nodes have a breakpoint.

    ``names`` are the nodes with breakpoints. The list is empty if no channel has changed since the
    run last passed a breakpoint.
    """
    if not names:
        return []
    hits = [
        task for task in tasks if (not task.node.hidden if names == "*" else task.name in names)
    ]
    if not hits:
        return []
    passed_at = state.seen.get(INTERRUPT, {}).get(INTERRUPT)
    moved = state.clock is not None and (passed_at is None or state.clock > passed_at)
    return hits if moved else []
