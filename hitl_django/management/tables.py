"""Size and growth of this app's tables, measured without reading whole tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from hitl_django.extensions import list_models
from hitl_django.models import Run
from hitl_django.models.functions import Now

#: Period of the growth in days, and maximum number of runs that are counted.
DAYS = 7
MOST = 100_000
LARGEST = 3


@dataclass(frozen=True, slots=True)
class Size:
    """Number of stored runs, and size of all tables in bytes.

    ``recent`` is the number of runs that were started in the last DAYS days. On SQLite, ``bytes``
    is the size of the whole file, and the sizes of single tables are unknown.
    """

    runs: int
    recent: int
    bytes: int
    largest: Sequence[tuple[str, int]] = ()

    @property
    def bytes_a_day(self) -> float:
        """Return the growth in bytes per day, assuming that new runs have the average size."""
        return self.bytes / max(self.runs, 1) * self.recent / DAYS


def measure_tables(using: str) -> Size:
    """Return the number of runs and the sizes of the tables.

    On PostgreSQL, the sizes are read from the database's catalogue. If there are more than MOST
    runs, the number of runs is an estimate by PostgreSQL.
    """
    runs = Run.objects.using(using).order_by()
    recent = runs.filter(created_at__gte=Now() - timedelta(days=DAYS))[:MOST].count()
    connection = connections[using]
    if connection.vendor != "postgresql":
        return Size(runs.count(), recent, _measure_file(connection))
    some = runs[:MOST].count()
    tables = _read_relations(connection)
    planned, _ = tables[Run._meta.db_table]
    largest = sorted(((name, size) for name, (_, size) in tables.items()), key=lambda it: -it[1])
    return Size(
        some if some < MOST else max(some, planned),
        recent,
        sum(size for _, size in tables.values()),
        [(_shorten_name(name), size) for name, size in largest[:LARGEST]],
    )


def _shorten_name(table: str) -> str:
    return table.removeprefix("hitl_django_").removeprefix("hitl_")


def _read_relations(connection: BaseDatabaseWrapper) -> dict[str, tuple[int, int]]:
    """Return each table's number of rows as estimated by PostgreSQL, and its size in bytes."""
    names = [model._meta.db_table for model in list_models()]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, greatest(reltuples, 0)::bigint, coalesce("
            "(SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree(oid)), "
            "pg_total_relation_size(oid)) FROM pg_class "
            "WHERE oid = ANY(SELECT to_regclass(quote_ident(one)) FROM unnest(%s::text[]) AS one)",
            [names],
        )
        return {name: (int(rows), int(size)) for name, rows, size in cursor.fetchall()}


def _measure_file(connection: BaseDatabaseWrapper) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        (size,) = cursor.fetchone()
    return int(size)
