"""Partitions of the archive by month, on PostgreSQL: made when the first thread of one comes.

An operator may detach a partition, or drop it; nothing else refers to what is in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from django.db import connections, transaction

from hitl_django.db.retry import retry_on_conflict

from .models import ArchivedThread

TABLE = ArchivedThread._meta.db_table


def make_partitions(using: str, moments: Iterable[datetime]) -> None:
    """Make the partitions that rows of these moments need, where the database has partitions.

    In a transaction of its own, which holds for a moment the lock of the whole archive.
    """
    if connections[using].vendor != "postgresql":
        return
    months = {at.astimezone(UTC).strftime("%Y-%m") for at in moments}
    missing = months - _find_months(using)
    for month in sorted(missing):
        _make_partition(using, month)


def get_partition_name(month: str) -> str:
    """Return the name of the table with the threads that ended in a month, such as "2026-08"."""
    return f"{TABLE}_{month.replace('-', '_')}"


def _find_months(using: str) -> set[str]:
    with connections[using].cursor() as cursor:
        cursor.execute(
            "SELECT right(inhrelid::regclass::text, 7) FROM pg_inherits "
            "WHERE inhparent = %s::regclass",
            [TABLE],
        )
        return {name.replace("_", "-") for (name,) in cursor.fetchall()}


@retry_on_conflict
def _make_partition(using: str, month: str) -> None:
    connection = connections[using]
    quote = connection.ops.quote_name
    year, number = map(int, month.split("-"))
    after = f"{year + number // 12}-{number % 12 + 1:02}"
    with transaction.atomic(using=using), connection.cursor() as cursor:
        # Two at once would both find that there is none.
        cursor.execute(f"LOCK TABLE {quote(TABLE)} IN SHARE UPDATE EXCLUSIVE MODE")
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {quote(get_partition_name(month))} "
            f"PARTITION OF {quote(TABLE)} "
            f"FOR VALUES FROM ('{month}-01 00:00+00') TO ('{after}-01 00:00+00') "
            # A document is in its row, as long as a page has room for it.
            "WITH (toast_tuple_target = 8160)"
        )
