"""A third-party saver with only the methods that the interface requires."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from hitl_django.engine.constants import CONTROL_SLOTS
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver, CheckpointTuple

Place = tuple[str, str, str]  # Thread, namespace and checkpoint.


class PlainSaver(BaseCheckpointSaver[Any]):
    """Saver that stores copies in dicts: checkpoints with all their values, and writes by slot."""

    def __init__(self) -> None:
        self._checkpoints: dict[Place, Any] = {}
        self._writes: dict[Place, dict[tuple[str, str, int], Any]] = {}

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        thread, ns, parent = self._place(config)
        place = (thread, ns, checkpoint["id"])
        self._checkpoints[place] = deepcopy((checkpoint, metadata, parent))
        return self._config(place)

    def put_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        stored = self._writes.setdefault(self._place(config), {})
        for position, (channel, value) in enumerate(writes):
            key = (task_path, task_id, CONTROL_SLOTS.get(channel, position))
            if channel in CONTROL_SLOTS or key not in stored:
                stored[key] = deepcopy((task_id, channel, value))

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        thread, ns, wanted = self._place(config)
        found = [at for at in self._checkpoints if at[:2] == (thread, ns) and wanted in ("", at[2])]
        return self._tuple(max(found)) if found else None

    def list(
        self,
        config: Any,
        *,
        filter: Any = None,  # noqa: A002 - the interface's
        before: Any = None,
        limit: Any = None,
    ) -> Iterator[CheckpointTuple]:
        thread, ns, wanted = self._place(config)
        last = self._place(before)[2] if before else ""
        places = [
            at
            for at in sorted(self._checkpoints, reverse=True)
            if at[:2] == (thread, ns) and wanted in ("", at[2]) and (not last or at[2] < last)
        ]
        fitting = [
            found
            for found in map(self._tuple, places)
            if all(found.metadata.get(key) == value for key, value in (filter or {}).items())
        ]
        yield from fitting[:limit]

    def delete_thread(self, thread_id: str) -> None:
        for kept in (self._checkpoints, self._writes):
            for place in [place for place in kept if place[0] == thread_id]:
                del kept[place]

    def _tuple(self, place: Place) -> CheckpointTuple:
        checkpoint, metadata, parent = deepcopy(self._checkpoints[place])
        writes = deepcopy(self._writes.get(place, {}))
        return CheckpointTuple(
            self._config(place),
            checkpoint,
            metadata,
            self._config((*place[:2], parent)) if parent else None,
            [writes[key] for key in sorted(writes)],
        )

    def _place(self, config: Any) -> Place:
        ref = config["configurable"]
        return ref["thread_id"], ref.get("checkpoint_ns", ""), ref.get("checkpoint_id", "")

    def _config(self, place: Place) -> Any:
        keys = ("thread_id", "checkpoint_ns", "checkpoint_id")
        return {"configurable": dict(zip(keys, place, strict=True))}
