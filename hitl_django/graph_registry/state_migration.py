"""Migration of a thread's state to the current version of its graph (``migrate_state``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from hitl_django.db.alias import write_alias
from hitl_django.engine.errors import GraphChangedError
from hitl_django.engine.graph.fingerprint import list_misfits
from hitl_django.engine.loop.channel_state import restore_channels
from hitl_django.engine.loop.migrated_state import read_values
from hitl_django.engine.loop.renamed_checkpoint import rename_checkpoint
from hitl_django.engine.savers.checkpoint import CheckpointTuple
from hitl_django.models import Run

from .registry import RegisteredGraph

#: The metadata key for the version that stored a checkpoint.
VERSION = "graph_version"


def build_metadata(registered: RegisteredGraph, run_id: UUID, began_with: str) -> dict[str, Any]:
    """Return the metadata of a run's checkpoints.

    The metadata contain the run's id. ``began_with`` is the version with which the run started. If
    the graph has another version, the metadata also contain the graph's version.
    """
    metadata = {"run_id": str(run_id)}
    if began_with != registered.version:
        metadata[VERSION] = registered.version
    return metadata


def find_version(saved: CheckpointTuple) -> str | None:
    """Return the graph version that stored a checkpoint, or None if no run stored it."""
    metadata: Mapping[str, Any] = saved.metadata
    if VERSION in metadata:
        return str(metadata[VERSION])
    try:
        run_id = UUID(str(metadata.get("run_id")))
    except ValueError:
        return None
    rows = Run.objects.using(write_alias()).filter(pk=run_id)
    return rows.values_list("graph_version", flat=True).first()


def needs_migration(registered: RegisteredGraph, saved: CheckpointTuple | None) -> bool:
    """Return whether a checkpoint's state must be migrated.

    The result is True if another version of the graph has stored the checkpoint, and the graph has
    a migration function.
    """
    if registered.migrate_state is None or saved is None:
        return False
    return find_version(saved) not in (None, registered.version)


def migrate_state(registered: RegisteredGraph, saved: CheckpointTuple | None) -> RegisteredGraph:
    """Migrate the state of a checkpoint. Return a copy of the graph with the migrated state.

    The copy continues from the checkpoint with this state instead of the stored state. If no
    migration is necessary, return ``registered`` unchanged. Nothing is stored.

    Raises:
        GraphChangedError: the migration function fails, or its result is not a state of the graph.
    """
    if saved is None or not needs_migration(registered, saved):
        return registered
    assert registered.migrate_state is not None
    version, graph = str(find_version(saved)), registered.graph
    renamed = rename_checkpoint(graph.spec, saved)
    assert renamed is not None
    stored = read_values(graph.spec, restore_channels(graph.spec, renamed.checkpoint))
    try:
        made = registered.migrate_state(stored, version)
    except Exception as error:  # The project's function may raise any error.
        raise _build_error(registered, version, f"{type(error).__name__}: {error}") from error
    if not isinstance(made, Mapping):
        raise _build_error(
            registered, version, f"it returned {type(made).__name__} instead of a dict"
        )
    if misfits := list_misfits(graph, made):
        raise _build_error(registered, version, "; ".join(misfits))
    return registered.with_graph(graph.with_migrated(dict(made)))


def _build_error(registered: RegisteredGraph, version: str, reason: str) -> GraphChangedError:
    change = (
        f"migrate_state failed from version '{version}' to version '{registered.version}': {reason}"
    )
    return GraphChangedError(f"The graph {registered.name!r}: {change}.", [change])
