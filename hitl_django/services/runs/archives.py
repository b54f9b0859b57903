"""Services for threads in the archives of optional apps."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.db.models import Model

from hitl_django.db.alias import write_alias
from hitl_django.db.prepared_query import Parameter, PreparedSelect
from hitl_django.extensions import iterate_archives
from hitl_django.models import Thread


def is_archived(thread_id: str) -> bool:
    """Return whether a thread is in an archive."""
    return any(_is_in(model, thread_id=thread_id) for model, _ in iterate_archives())


def restore_archived(**columns: Any) -> Thread | None:
    """Restore the archived thread with these column values, and return it.

    Returns None if no archived thread matches.
    """
    for model, archive in iterate_archives():
        # Usually no archived thread matches. This check needs no lock.
        if _is_in(model, **columns):
            rows = model._default_manager.using(write_alias()).order_by().filter(**columns)
            restored: Thread | None = archive.restore(rows)
            if restored is not None:
                return restored
    return None


def _is_in(model: type[Model], **columns: Any) -> bool:
    return bool(_prepare_find(model, *columns).run(write_alias(), **columns))


@cache
def _prepare_find(model: type[Model], *names: str) -> PreparedSelect:
    fields = {field.attname: field for field in model._meta.concrete_fields}
    values = {name: Parameter(name, fields[name]) for name in names}
    # Without an order, because PostgreSQL might otherwise read a partitioned table in that order
    # to find the row.
    return PreparedSelect(
        lambda: model._default_manager.order_by().filter(**values).values_list("pk")[:1]
    )
