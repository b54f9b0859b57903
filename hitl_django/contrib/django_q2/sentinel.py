"""django-q2's sentinel with locks that are released when their process is killed."""

from __future__ import annotations

from multiprocessing.sharedctypes import Value
from typing import Any
from uuid import uuid4

from django_q.cluster import Sentinel, worker

from .process_lock import ProcessLocks, SharedFlag


class LockingSentinel(Sentinel):
    """The sentinel of a cluster whose processes can be killed at any time.

    If a process is killed, the other processes continue, and the sentinel replaces the killed
    process. ``stop`` and ``start`` are the events of django-q2's sentinel.
    """

    def __init__(self, stop: Any, start: Any) -> None:
        super().__init__(stop, start, uuid4(), start=False)
        self._locks = ProcessLocks()
        queues: list[Any] = [self.task_queue, self.result_queue]
        for queue in queues:
            queue._rlock, queue._wlock = self._locks.create(), self._locks.create()
            queue.size.count = self._create_value("i", 0)
        self.event_out = SharedFlag()

    def spawn_worker(self) -> None:
        timer = self._create_value("f", -1)
        self.spawn_process(worker, self.task_queue, self.result_queue, timer, self.timeout)

    def _create_value(self, kind: str, value: float) -> Any:
        lock: Any = self._locks.create()
        return Value(kind, value, lock=lock)
