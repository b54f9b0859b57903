"""django-q2's table as we write to it: its rows, by a statement that is made once."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.utils import timezone
from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.models import OrmQ

from hitl_django.saver.inserting import Insert

_MESSAGE = Insert(OrmQ, ["key", "payload", "lock"], fresh=True)


class Queue(ORM):
    """The ORM broker, for whoever only adds to the queue: a start and a decision each do."""

    @staticmethod
    def get_connection(list_key: str | None = None) -> None:
        """Looks after no connection: a message is part of the caller's transaction."""

    def enqueue(self, task: str) -> None:
        """Adds a message, signed and packed by django-q2."""
        _MESSAGE.run(Conf.ORM, [[self.list_key or Conf.CLUSTER_NAME, task, timezone.now()]])


@cache
def queue_named(name: Any) -> Queue:
    """Returns the queue of a cluster."""
    return Queue(name)
