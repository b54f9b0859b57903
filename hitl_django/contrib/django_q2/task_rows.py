"""django-q2's table as we write to it: its rows, by a statement that is made once."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from django_q.conf import Conf
from django_q.models import OrmQ

from hitl_django.db.bulk_insert import BulkInsert
from hitl_django.db.write_batch import WriteBatch

_MESSAGE = BulkInsert(OrmQ, ["key", "payload", "lock"], fresh=True)


class Queue:
    """The ORM broker, for whoever only adds to the queue: a start and a decision each do.

    A message is one of the things that the caller writes.
    """

    def __init__(self, batch: WriteBatch) -> None:
        self.list_key: Any = Conf.CLUSTER_NAME
        self._writing = batch

    def enqueue(self, task: str) -> None:
        """Adds a message, signed and packed by django-q2."""
        self._writing.insert(_MESSAGE, [[self.list_key, task, timezone.now()]])
