"""Rules for pruning a thread's history, shared by all savers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ..constants import NS_END
from .checkpoint import CheckpointMetadata

KEEP_LATEST, DELETE = "keep_latest", "delete"
#: A namespace and a checkpoint id.
CheckpointKey = tuple[str, str]
#: The metadata key in which LangGraph lists the DeltaChannels that have no value in the checkpoint.
DELTA_COUNTERS = "counters_since_delta_snapshot"


def check_prune(thread_ids: Sequence[str], strategy: str) -> list[str]:
    """Return the thread ids given to ``prune``, without duplicates.

    Raises:
        TypeError: ``thread_ids`` is a str.
        ValueError: the strategy doesn't exist.
    """
    if isinstance(thread_ids, str):
        raise TypeError("thread_ids must be a sequence of thread ids, not a str.")
    if strategy not in (KEEP_LATEST, DELETE):
        raise ValueError(f"strategy must be {KEEP_LATEST!r} or {DELETE!r}, not {strategy!r}.")
    return list(dict.fromkeys(map(str, thread_ids)))


def find_latest(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the newest checkpoint id of each namespace.

    A pair is a namespace and a checkpoint id.
    """
    latest: dict[str, str] = {}
    for ns, checkpoint_id in pairs:
        if checkpoint_id > latest.get(ns, ""):
            latest[ns] = checkpoint_id
    return latest


def keep_latest(
    heads: Mapping[str, tuple[str, CheckpointMetadata]], roots: Collection[str]
) -> set[tuple[str, str]]:
    """Return the namespaces and ids of the checkpoints that pruning must not delete.

    ``heads`` maps each namespace to its newest checkpoint id and metadata. ``roots`` are the ids of
    the stored checkpoints of the root graph.

    The newest checkpoint of each namespace is kept, with one exception. The checkpoint of a
    subgraph that starts from the beginning on each call isn't kept after the call has ended,
    because no task reads this checkpoint again. The call has ended if the checkpoint from which the
    root graph made the call is stored and isn't the newest checkpoint of the root graph.
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
    """Return the checkpoints ``kept``, and the ancestors on which their values depend.

    If a checkpoint lacks the value of a LangGraph DeltaChannel, the value is computed from two
    things: the value in the newest ancestor that has one, and the writes to the channel after that
    ancestor. ``missing`` maps checkpoints to the channels whose values they lack. ``parents`` maps
    each checkpoint to its parent's id.
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
