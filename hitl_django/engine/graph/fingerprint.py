"""The graph structure: the parts of a graph that stored threads depend on.

A graph structure is plain JSON: nodes with their triggers and targets, channels with their classes,
types and reducers, and the structures of subgraphs. It doesn't contain the code of nodes. Two
functions of the same name count as the same reducer, because code may move to another module.
Therefore, all lambdas count as the same reducer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from .. import ids
from ..channels import MISSING, BaseChannel, BinaryOperatorAggregate, DeltaChannel
from ..constants import (
    BRANCH_TO,
    JOIN,
    NS_END,
    NS_SEP,
    PULL,
    PUSH,
    RESERVED_KEYS,
    START,
    TASKS,
)
from ..loop.compiled_graph import CompiledGraph
from ..loop.renamed_checkpoint import rename_checkpoint
from ..savers.checkpoint import CheckpointTuple
from ..task.nodes import Node
from ..task.renames import Renames
from ..types import Send
from .run_options import list_former_ns, strip_task_ids

GraphStructure = dict[str, Any]
#: A function that reads the newest checkpoint of a namespace.
Load = Callable[[str], CheckpointTuple | None]

#: A placeholder for a value that exists but isn't available.
UNKNOWN = object()

#: The kinds of channels with a reducer, which can read each other's stored values.
_REDUCING = {BinaryOperatorAggregate.__name__, DeltaChannel.__name__}

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def describe_structure(graph: CompiledGraph, _above: tuple[int, ...] = ()) -> GraphStructure:
    """Return the graph structure of a compiled graph."""
    above = (*_above, id(graph))
    return {
        "nodes": {
            name: _describe_node(graph, name, node, above) for name, node in graph.nodes.items()
        },
        "channels": {name: _describe_channel(channel) for name, channel in graph.channels.items()},
        "keeps_history": graph.checkpointer is True,
    }


def hash_structure(structure: GraphStructure) -> str:
    """Return the hash of a graph structure, its fingerprint."""
    return ids.hash_json(structure)


def _describe_node(
    graph: CompiledGraph, name: str, node: Node, above: tuple[int, ...]
) -> GraphStructure:
    leads = {channel for writer in node.writers for channel, _ in getattr(writer, "static", ())}
    for branch in node.branches:
        leads |= set((branch.ends or {}).values())
    structure: GraphStructure = {
        "triggers": list(node.sorted_triggers),
        "leads": sorted(map(str, leads)),
    }
    called = graph.subgraph_of(name)
    if called is not None and id(called) not in above:
        structure["calls"] = describe_structure(called, above)
    return structure


def _describe_channel(channel: BaseChannel) -> GraphStructure:
    structure: GraphStructure = {
        "kind": type(channel).__name__,
        "type": _ADDRESS.sub("", getattr(channel.typ, "__qualname__", None) or repr(channel.typ)),
    }
    reducer = getattr(channel, "operator", None)
    if reducer is not None:
        structure["reducer"] = getattr(reducer, "__name__", type(reducer).__name__)
    if hasattr(channel, "names"):
        structure["names"] = sorted(channel.names)
    if hasattr(channel, "accumulate"):
        structure["accumulates"] = bool(channel.accumulate)
    return structure


def list_changes(
    before: GraphStructure,
    graph: CompiledGraph,
    load: Load,
    ns: str = "",
    *,
    new_input: bool = False,
    migrates: bool = False,
) -> list[str]:
    """Return descriptions of the changes that prevent a stored thread from resuming with the graph.

    ``before`` is the graph structure under which the thread was stored. ``load`` returns the
    thread's newest checkpoint in a namespace. ``ns`` is the namespace of the graph. The list is
    empty if the thread can resume.

    Only parts that stored state depends on are compared. Other parts may change: nodes and edges
    without pending tasks, empty channels, and the code of nodes. With ``new_input``, pending tasks
    are ignored, because new input discards them. With ``migrates``, the values of the graph's state
    channels are ignored, because a migration converts them.
    """
    saved = rename_checkpoint(graph.spec, load(ns))
    if saved is None:
        return []
    merged = _list_merged_names(before, graph.spec.renames)
    if merged:
        return merged
    before = _rename_structure(before, graph.spec.renames)
    after = describe_structure(graph)
    where = f" in '{NS_SEP.join(_list_node_names(ns))}'" if ns else ""
    found = [
        change
        for name, task_ns in ([] if new_input else _list_next_tasks(before, saved, ns))
        for change in _node_changes(before, after, graph, load, name, task_ns, where)
    ]
    for name, stored_value in saved.checkpoint["channel_values"].items():
        if migrates and _is_state(name):
            continue
        change = _channel_change(before, after, graph, name, stored_value)
        if change:
            found.append(f"{change}{where}")
    return list(dict.fromkeys(found))


def _is_state(channel: str) -> bool:
    return channel not in RESERVED_KEYS and not channel.startswith((BRANCH_TO, JOIN))


def _list_merged_names(before: GraphStructure, renames: Renames) -> list[str]:
    found = []
    kinds = (("node", "nodes", renames.nodes), ("channel", "channels", renames.channels))
    for what, part, renamed in kinds:
        olds: dict[str, list[str]] = {}
        for old, new in renamed.items():
            if old in before[part]:
                olds.setdefault(new, [new] if new in before[part] else []).append(old)
        found += [
            f"{what}s {', '.join(map(repr, names))} were renamed to the same name, '{new}'"
            for new, names in olds.items()
            if len(names) > 1
        ]
    return found


def _rename_structure(structure: GraphStructure, renames: Renames) -> GraphStructure:
    if not renames:
        return structure
    channel, node = renames.rename_channel, renames.rename_node
    nodes = {
        node(name): {
            **one,
            "triggers": sorted(map(channel, one["triggers"])),
            "leads": sorted(map(channel, one["leads"])),
        }
        for name, one in structure["nodes"].items()
    }
    channels = {
        channel(name): {**one, "names": sorted(map(node, one["names"]))} if "names" in one else one
        for name, one in structure["channels"].items()
    }
    return {**structure, "nodes": nodes, "channels": channels}


def _list_next_tasks(
    before: GraphStructure, saved: CheckpointTuple, ns: str
) -> Iterator[tuple[str, str]]:
    """Yield the node and the namespace of each task that would run next under the old structure."""
    checkpoint, step = saved.checkpoint, saved.metadata.get("step", -1) + 1
    stored_values, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
    origin = ids.encode_checkpoint_id(checkpoint["id"])

    former = checkpoint.get("former_names")

    def locate(name: str, *parts: str) -> tuple[str, str]:
        known = name if former is None else former.nodes.get(name, name)
        node_ns = f"{ns}{NS_SEP}{known}" if ns else known
        task = ids.make_task_id(origin, node_ns, str(step), known, *parts)
        return name, f"{node_ns}{NS_END}{task}"

    for index, send in enumerate(stored_values.get(TASKS) or ()):
        if isinstance(send, Send):
            yield locate(send.node, PUSH, str(index))
    for name, node in before["nodes"].items():
        seen = checkpoint["versions_seen"].get(name, {})
        for trigger in node["triggers"]:
            last, version = seen.get(trigger), versions.get(trigger)
            moved = version is not None and (last is None or version > last)
            if moved and _is_triggering(
                before["channels"].get(trigger, {}), stored_values.get(trigger, MISSING)
            ):
                starts = node["triggers"]
                starts = starts if former is None else former.get_triggers(starts)
                yield locate(name, PULL, *starts)
                break


def _is_triggering(channel: GraphStructure, stored_value: Any) -> bool:
    kind = channel.get("kind", "")
    if stored_value is MISSING:
        return False
    if kind.endswith("AfterFinish"):
        stored_value, finished = stored_value
        if not finished:
            return False
    return "names" not in channel or sorted(stored_value) == channel["names"]


def _node_changes(
    before: GraphStructure,
    after: GraphStructure,
    graph: CompiledGraph,
    load: Load,
    name: str,
    task_ns: str,
    where: str,
) -> list[str]:
    old, new = before["nodes"].get(name), after["nodes"].get(name)
    if new is None:
        return [f"node '{name}'{where} was removed"]
    if old is None:
        return []
    if old["triggers"] != new["triggers"]:
        return [f"node '{name}'{where} is triggered by different edges"]
    below = old.get("calls")
    if below is None:
        return []
    places: tuple[str, ...] = (task_ns,)
    if below["keeps_history"]:
        stateful = strip_task_ids(task_ns)
        places = stateful, *list_former_ns(stateful, name, graph.spec.renames)
    child_ns = next((place for place in places if load(place) is not None), None)
    if child_ns is None:
        return []
    called = graph.subgraph_of(name)
    if called is None:
        return [f"node '{name}'{where} no longer calls the subgraph it is waiting in"]
    if below["keeps_history"] != (called.checkpointer is True):
        return [f"node '{name}'{where} stores its subgraph's history in a different namespace"]
    return list_changes(below, called, load, child_ns)


def _channel_change(
    before: GraphStructure,
    after: GraphStructure,
    graph: CompiledGraph,
    name: str,
    stored_value: Any,
) -> str:
    old, new = before["channels"].get(name), after["channels"].get(name)
    if old is None or name in (START, TASKS):
        return ""
    if "names" in old:
        return _barrier_change(before, after, name, stored_value)
    node = name.removeprefix(BRANCH_TO)
    if node != name:
        # A removed node has a separate message.
        changed = new is not None and old["kind"] != new["kind"]
        return f"node '{node}' has a different trigger condition" if changed else ""
    if new is None:
        return f"channel '{name}', which has a value, was removed"
    is_other_kind = old["kind"] != new["kind"]
    if is_other_kind and not {old["kind"], new["kind"]} <= _REDUCING:
        return f"channel '{name}', which has a value, changed from {old['kind']} to {new['kind']}"
    if not is_other_kind and old.get("reducer") != new.get("reducer"):
        return (
            f"channel '{name}', which has a value, changed its reducer from "
            f"{old.get('reducer')} to {new.get('reducer')}"
        )
    if old.get("accumulates") != new.get("accumulates"):
        return f"channel '{name}', which has a value, accumulates differently"
    if old["type"] != new["type"] and stored_value is UNKNOWN:
        return (
            f"channel '{name}' changed from {old['type']} to {new['type']}; its value "
            "isn't in the export"
        )
    if old["type"] != new["type"] and not _fits(graph.channels[name], stored_value):
        return (
            f"channel '{name}' changed from {old['type']}, and its value is not a "
            f"valid {new['type']}"
        )
    return ""


def _barrier_change(
    before: GraphStructure, after: GraphStructure, name: str, stored_value: Any
) -> str:
    old, new = before["channels"][name], after["channels"].get(name)
    reached = stored_value[0] if old["kind"].endswith("AfterFinish") else stored_value
    waiting = [
        node
        for node, structure in before["nodes"].items()
        if name in structure["triggers"] and node in after["nodes"]
    ]
    if not reached or not waiting or old == new:
        return ""
    return f"node '{waiting[0]}' no longer waits for {', '.join(old['names'])}"


def list_misfits(graph: CompiledGraph, values: Mapping[str, Any]) -> list[str]:
    """Return the reasons why ``values`` is not a valid state of the graph.

    The list is empty for a valid state.
    """
    keys = [name for name in graph.channels if _is_state(name)]
    found = [f"'{name}' is not a key of the state" for name in values if name not in keys]
    for name in keys:
        if name in values and not _is_of_type(graph.channels[name], values[name]):
            typ = _describe_channel(graph.channels[name])["type"]
            found.append(f"the new value of '{name}' is not a valid {typ}")
    return found


def _fits(channel: BaseChannel, stored_value: Any) -> bool:
    return _is_of_type(channel, channel.read(stored_value))


def _is_of_type(channel: BaseChannel, value: Any) -> bool:
    try:
        TypeAdapter(channel.typ).validate_python(value, strict=True)
    except ValidationError:
        return False
    except Exception:
        return True  # Pydantic can't validate the type.
    return True


def _list_node_names(ns: str) -> list[str]:
    return [part.partition(NS_END)[0] for part in ns.split(NS_SEP)]
