"""A saver that reads the newest checkpoints of several threads together."""

from __future__ import annotations

from collections.abc import Sequence

from hitl_django.engine.savers.checkpoint import CheckpointTuple
from hitl_django.engine.types import RunnableConfig

from .checkpoint_reader import read_newest
from .coordinates import CheckpointRef
from .django_saver import DjangoSaver


class NewestStatesSaver(DjangoSaver):
    """A saver that has already read the newest checkpoints of some threads' root graphs.

    All other checkpoints are read from the database.
    """

    def __init__(self, threads: Sequence[int]) -> None:
        super().__init__()
        self._found = read_newest(self.using, threads)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        ref = CheckpointRef.from_config(config)
        is_newest = not ref.ns and ref.checkpoint_id is None
        found = self._found.get(ref.thread_id) if is_newest else None
        return super().get_tuple(config) if found is None else found
