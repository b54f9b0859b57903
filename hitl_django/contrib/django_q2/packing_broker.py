"""django-q2 broker that stores a packed task instead of sending it."""

from __future__ import annotations

from typing import Any

from django_q.conf import Conf

from . import named_cluster


class PackingBroker:
    """Broker that stores one task, after ``async_task`` has signed and packed it."""

    def __init__(self) -> None:
        self.list_key: Any = named_cluster.get_name() or Conf.CLUSTER_NAME
        self.payload = ""

    def enqueue(self, task: str) -> None:
        self.payload = task
