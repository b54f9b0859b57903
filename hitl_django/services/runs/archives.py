"""Services for threads in the archives of optional apps."""

from __future__ import annotations

from typing import Any

from hitl_django.db.alias import write_alias
from hitl_django.extensions import iterate_archives
from hitl_django.models import Thread


def is_archived(thread_id: str) -> bool:
    """Return whether a thread is in an archive."""
    return any(
        model._default_manager.using(write_alias()).order_by().filter(thread_id=thread_id).exists()
        for model, _ in iterate_archives()
    )


def restore_archived(**columns: Any) -> Thread | None:
    """Restore the archived thread with these column values, and return it.

    Returns None if no archived thread matches.
    """
    for model, archive in iterate_archives():
        # Without an order, because PostgreSQL might otherwise read a partitioned table in that
        # order to find the row.
        rows = model._default_manager.using(write_alias()).order_by().filter(**columns)
        # Usually no archived thread matches. This check needs no lock.
        if rows.exists():
            restored: Thread | None = archive.restore(rows)
            if restored is not None:
                return restored
    return None
