"""django-q2 broker that keeps a packed task instead of sending it."""

from __future__ import annotations

from typing import Any

from django_q.conf import Conf

from . import named_cluster


class PackingBroker:
    """Broker for one task that ``async_task`` signs and packs."""

    def __init__(self) -> None:
        self.list_key: Any = named_cluster.get_name() or Conf.CLUSTER_NAME
        self.payload = ""

    def enqueue(self, task: str) -> None:
        self.payload = task
