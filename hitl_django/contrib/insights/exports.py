"""Export of the decisions of a period, row by row.

Each page of rows is read by a query that starts after the previous page. No cursor stays open while
a client downloads, and the memory used doesn't depend on the length of the period.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F, Q

from hitl_django.permissions import get_policy
from hitl_django.services.reviews.audit_export import refuse_export_unless
from hitl_django.services.reviews.periods import (
    Period,
    match_reviewer,
    may_view_reviewer_reports,
    select_decided,
)

#: Number of decisions that one query reads.
PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedDecision:
    """A decision with its interrupt.

    ``by`` is empty if the user may not see reviewers.
    """

    id: UUID
    decided_at: datetime
    type: str
    by: str
    via: str
    reason: str
    approvals: int
    quorum: int
    changed: bool
    interrupt_id: UUID
    title: str
    graph: str
    node: str
    requested_at: datetime
    due_at: datetime | None
    run_id: UUID
    thread_id: str
    payload_digest: str

    @property
    def seconds(self) -> float:
        """The number of seconds from the creation of the interrupt to the decision."""
        return (self.decided_at - self.requested_at).total_seconds()


#: Names of the decision's columns in exports.
_COLUMNS = {
    "id": F("pk"),
    "decided_at": F("created_at"),
    "interrupt_id": F("interrupt_id"),
    "title": F("interrupt__title"),
    "graph": F("interrupt__graph"),
    "node": F("interrupt__node"),
    "requested_at": F("interrupt__created_at"),
    "due_at": F("interrupt__due_at"),
    "run_id": F("interrupt__run_id"),
    "thread_id": F("interrupt__thread__thread_id"),
}
_OWN = ("type", "by_label", "via", "reason", "approvals", "quorum", "payload_digest")


def export_decisions(
    user: Any, period: Period, *, graph: str | None = None, reviewer: Any = None
) -> Iterator[ExportedDecision]:
    """Yield people's decisions that closed an interrupt in a period, oldest first.

    ``graph`` and ``reviewer`` narrow the decisions as in ``review_report``. Without a user,
    permissions are not checked.

    Raises:
        NotAllowedError: before the first row, if the user has no permission.
    """
    refuse_export_unless(user, get_policy().may_export)
    return _read_decisions(user, period, graph, reviewer)


def _read_decisions(
    user: Any, period: Period, graph: str | None, reviewer: Any
) -> Iterator[ExportedDecision]:
    named = may_view_reviewer_reports(user)
    made = select_decided(user, period, graph=graph).filter(match_reviewer(reviewer))
    rows = made.order_by("created_at", "id")
    outside = {f"out_{name}": column for name, column in _COLUMNS.items()}
    after = Q()
    while True:
        page = list(rows.filter(after).annotate(**outside).values(*_OWN, *outside, "patch")[:PAGE])
        for row in page:
            found = {name: row[f"out_{name}"] for name in _COLUMNS}
            found |= {name: row[name] for name in _OWN if name != "by_label"}
            changed, by = row["patch"] is not None, row["by_label"] if named else ""
            yield ExportedDecision(**found, by=by, changed=changed)
        if len(page) < PAGE:
            return
        at, last = page[-1]["out_decided_at"], page[-1]["out_id"]
        # Combine a lower bound with a further condition, because the database can't use an index
        # for a condition with OR.
        after = Q(created_at__gte=at) & (Q(created_at__gt=at) | Q(pk__gt=last))
