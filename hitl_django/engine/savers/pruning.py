"""Pruning of a thread's history: rules that every saver shares."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ..constants import NS_END
from .checkpoint import CheckpointMetadata

KEEP_LATEST, DELETE = "keep_latest", "delete"
#: A namespace and the id of a checkpoint.
CheckpointKey = tuple[str, str]
#: The metadata by which LangGraph says which of its DeltaChannels a checkpoint has no value of.
DELTA_COUNTERS = "counters_since_delta_snapshot"


def check_prune(thread_ids: Sequence[str], strategy: str) -> list[str]:
    """Return the thread ids of a call to ``prune``, each once, or refuses the call."""
    if isinstance(thread_ids, str):
        raise TypeError("thread_ids must be a sequence of thread ids, not a str.")
    if strategy not in (KEEP_LATEST, DELETE):
        raise ValueError(f"strategy must be {KEEP_LATEST!r} or {DELETE!r}, not {strategy!r}.")
    return list(dict.fromkeys(map(str, thread_ids)))


def find_latest(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return of (namespace, checkpoint id) pairs the newest id of each namespace."""
    latest: dict[str, str] = {}
    for ns, checkpoint_id in pairs:
        if checkpoint_id > latest.get(ns, ""):
            latest[ns] = checkpoint_id
    return latest


def keep_latest(
    heads: Mapping[str, tuple[str, CheckpointMetadata]], roots: Collection[str]
) -> set[tuple[str, str]]:
    """Return the (namespace, checkpoint id) pairs that stay.

    ``heads`` are the newest checkpoint of each namespace and its metadata, ``roots`` the root
    graph's checkpoints that are stored. A subgraph that was called anew each time (its namespace
    holds a task id) goes with the root checkpoint its call started from: no task reads it again.
    One with a history of its own keeps its newest.
    """
    newest_root = heads[""][0] if "" in heads else None
    kept = set()
    for ns, (checkpoint_id, metadata) in heads.items():
        called_from = (metadata.get("parents") or {}).get("") if NS_END in ns else None
        if called_from is None or called_from == newest_root or called_from not in roots:
            kept.add((ns, checkpoint_id))
    return kept


def add_ancestors(
    kept: Collection[CheckpointKey],
    parents: Mapping[CheckpointKey, str | None],
    missing: Mapping[CheckpointKey, Collection[str]],
) -> set[CheckpointKey]:
    """Return checkpoints to keep with those that their values are made of.

    The value of a DeltaChannel of LangGraph is that of the newest ancestor that has one, and what
    was written since. ``missing`` are the channels that checkpoints have no value of, ``parents``
    the ids of the checkpoints before.
    """
    found = set(kept)
    for key in kept:
        wanted = set(missing.get(key, ()))
        while wanted and (parent := parents.get(key)) is not None:
            key = key[0], parent
            if key not in parents:
                break
            found.add(key)
            wanted.intersection_update(missing.get(key, ()))
    return found
