"""Reading of checkpoint rows in pages, for ``DjangoSaver.list``."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from hitl_django import models
from hitl_django.engine.types import RunnableConfig

from . import queries
from .queries import CheckpointRow


def read_page(
    using: str,
    config: RunnableConfig | None,
    before: RunnableConfig | None,
    size: int,
    last: CheckpointRow | None,
) -> list[CheckpointRow]:
    """Read a page of at most ``size`` checkpoints, newest first.

    ``config`` and ``before`` select the checkpoints. ``last`` is the last row of the previous page,
    or None for the first page. The first page of a single namespace is the most frequent case, so
    it uses a prepared query.
    """
    given = (config or {}).get("configurable") or {}
    thread_id, ns = given.get("thread_id"), given.get("checkpoint_ns")
    plain = thread_id is not None and ns is not None and given.get("checkpoint_id") is None
    if last is None and plain:
        bound = ((before or {}).get("configurable") or {}).get("checkpoint_id")
        where = {"thread_id": str(thread_id), "ns": ns, "checkpoint_id": bound}
        return queries.page_query(size, bound is not None).run(using, **where)
    rows = _filter(queries.checkpoints().using(using), config, before)
    if last is not None:
        rows = _after(rows, last)
    return [CheckpointRow(*row) for row in rows.order_by("-checkpoint_id", "thread", "ns")[:size]]


def _filter(
    rows: QuerySet[models.Checkpoint, Any],
    config: RunnableConfig | None,
    before: RunnableConfig | None,
) -> QuerySet[models.Checkpoint, Any]:
    given = (config or {}).get("configurable") or {}
    if "thread_id" in given:
        rows = rows.filter(thread=queries.thread_key(str(given["thread_id"])))
    if given.get("checkpoint_ns") is not None:
        rows = rows.filter(ns=given["checkpoint_ns"])
    if given.get("checkpoint_id") is not None:
        rows = rows.filter(checkpoint_id=given["checkpoint_id"])
    bound = ((before or {}).get("configurable") or {}).get("checkpoint_id")
    return rows if bound is None else rows.filter(checkpoint_id__lt=bound)


def _after(
    rows: QuerySet[models.Checkpoint, Any], last: CheckpointRow
) -> QuerySet[models.Checkpoint, Any]:
    """Return the rows of the list that come after the row ``last``.

    Copies of a thread have the same checkpoint ids, so the id alone doesn't identify a row.
    """
    # The first condition can use the index. The second condition excludes rows with the same id
    # that have been read.
    return rows.filter(checkpoint_id__lte=last.checkpoint_id).filter(
        Q(checkpoint_id__lt=last.checkpoint_id)
        | Q(thread__gt=last.thread)
        | Q(thread=last.thread, ns__gt=last.ns)
    )
