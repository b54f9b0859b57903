"""Monthly partitions of the archive on PostgreSQL. A partition is created when it is needed.

An operator may detach or drop a partition, because no other rows refer to its rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from django.db import connections, transaction

from hitl_django.db.retry import retry_on_conflict

from .models import ArchivedThread

TABLE = ArchivedThread._meta.db_table


def make_partitions(using: str, moments: Iterable[datetime]) -> None:
    """Create the missing partitions for the months of ``moments``.

    On databases without partitions, nothing happens. Creating a partition takes a separate
    transaction, which briefly locks the whole archive.
    """
    if connections[using].vendor != "postgresql":
        return
    months = {at.astimezone(UTC).strftime("%Y-%m") for at in moments}
    missing = months - _find_months(using)
    for month in sorted(missing):
        _make_partition(using, month)


def get_partition_name(month: str) -> str:
    """Return the table name of the partition for a month such as "2026-08"."""
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
        # Without the lock, two processes could both find that the partition is missing.
        cursor.execute(f"LOCK TABLE {quote(TABLE)} IN SHARE UPDATE EXCLUSIVE MODE")
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {quote(get_partition_name(month))} "
            f"PARTITION OF {quote(TABLE)} "
            f"FOR VALUES FROM ('{month}-01 00:00+00') TO ('{after}-01 00:00+00') "
            # Keep a document in its row as long as the row fits on a page.
            "WITH (toast_tuple_target = 8160)"
        )
