"""Due runs, which the workers of a queue can find without messages.

A run is due if it is queued, its ``queued_at`` has passed, and no process has the lease on its
thread. The graphs take turns, so that many runs of one graph don't delay the runs of the other
graphs.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections, models
from django.db.models import OuterRef, Q, QuerySet, Subquery

from hitl_django.db.alias import write_alias
from hitl_django.db.prepared_query import Parameter, PreparedSelect
from hitl_django.models import Run, Thread
from hitl_django.models.functions import Now

#: The channel of PostgreSQL on which queued runs are announced.
CHANNEL = "hitl_django_runs"
#: The number of runs among which a worker chooses. Several workers then rarely choose the same run.
CHOICE = 8
#: The minimum seconds between two checks. A check takes less than a tenth of this time.
TICK = 0.01


class DueRun(NamedTuple):
    """The primary key of a due run, as the driver returns it, and the run's graph."""

    key: Any
    graph: str

    @property
    def id(self) -> UUID:
        """The id of the run."""
        found: UUID = _ID.to_python(self.key)
        return found


def select_due() -> QuerySet[Run]:
    """Return the due runs in the order of their graphs. For each graph, the oldest run is first."""
    # The thread isn't joined. PostgreSQL would read the whole table if the plan is from a time
    # without statistics.
    lease = Thread.objects.order_by().filter(pk=OuterRef("thread")).values("lease_until")[:1]
    return (
        Run.objects.using(write_alias())
        .annotate(leased_until=Subquery(lease))
        .filter(Q(leased_until__isnull=True) | Q(leased_until__lt=Now()))
        .filter(state=Run.State.QUEUED, queued_at__lte=Now())
        .order_by("graph", "queued_at")
    )


_GRAPH = Parameter("graph", models.TextField())
_DUE_AFTER = PreparedSelect(
    lambda: select_due().filter(graph__gt=_GRAPH).values_list("pk", "graph")[:CHOICE], DueRun
)
_ID: Any = Run._meta.pk


def find_due(graph: str) -> list[DueRun]:
    """Return the oldest due runs of the next graph that has due runs.

    The graphs are in the order of their names, and the last graph is followed by the first.
    ``graph`` is the name of the previous graph, or an empty string.
    """
    using = write_alias()
    rows = _DUE_AFTER.run(using, graph=graph)
    if not rows and graph:
        rows = _DUE_AFTER.run(using, graph="")
    return [run for run in rows if run.graph == rows[0].graph]


class RunWatch:
    """A watch on the table of runs, for a process that wakes workers.

    On PostgreSQL, the process is notified of queued runs. On SQLite, the process checks every TICK
    seconds whether the database has changed. If neither is possible, for example behind a pooler
    that assigns a session to each transaction, only the timeout ends a wait.
    """

    def __init__(self) -> None:
        self._watched: Any = None
        self._version: object = None

    def is_any_due(self) -> bool:
        """Return whether at least one run is due."""
        self._prepare()
        return bool(find_due(""))

    def wait(self, seconds: float) -> None:
        """Wait until runs may have become due since the last check, at most ``seconds``."""
        connection = connections[write_alias()]
        ends = time.monotonic() + seconds
        time.sleep(min(TICK, seconds))
        if connection.connection is None or connection.connection is not self._watched:
            time.sleep(max(0.0, ends - time.monotonic()))
        elif connection.vendor == "sqlite":
            while time.monotonic() < ends and self._read_version() == self._version:
                time.sleep(TICK)
        else:
            left = max(0.0, ends - time.monotonic())
            for _ in connection.connection.notifies(timeout=left, stop_after=1):
                pass

    def _prepare(self) -> None:
        """Note the state of the database before a check, so that no later change is missed."""
        connection = connections[write_alias()]
        connection.ensure_connection()
        raw: Any = connection.connection
        if connection.vendor == "sqlite":
            self._watched, self._version = raw, self._read_version()
        elif raw is not self._watched and callable(getattr(raw, "notifies", None)):
            # psycopg2 has a list instead of the method.
            with connection.cursor() as cursor:
                cursor.execute(f"LISTEN {CHANNEL}")
            self._watched = raw

    def _read_version(self) -> object:
        raw: Any = connections[write_alias()].connection
        return raw.execute("PRAGMA data_version").fetchone()
