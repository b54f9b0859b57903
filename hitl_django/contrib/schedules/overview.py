"""Table of the next scheduled runs on the Overview page of the admin."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from hitl_django.extensions import OverviewRow, OverviewTable
from hitl_django.graph_registry import registry
from hitl_django.models import Run
from hitl_django.permissions import select_visible

from .due_times import select_schedules
from .models import Schedule

#: Maximum number of schedules with an error, and of other schedules.
MOST = 5
#: Meaning of the state of a schedule's last run. Other states have none.
TONES: dict[str, Any] = {
    Run.State.SUCCEEDED: "ok",
    Run.State.INTERRUPTED: "warn",
    Run.State.FAILED: "bad",
    Run.State.PARKED: "bad",
}


def list_next_runs(user: Any) -> OverviewTable | None:
    """Return a table of active schedules: schedules with an error, and those that are due next.

    Return None if there are no such schedules.
    """
    schedules = select_visible(select_schedules().filter(is_active=True), user)
    schedules = schedules.defer("input", "context", "configurable")
    found = {row.pk: row for row in schedules.exclude(last_error="")[:MOST]}
    due = schedules.filter(next_at__isnull=False).order_by("next_at")
    found |= {row.pk: row for row in due[:MOST]}
    if not found:
        return None
    runs = Run.objects.filter(pk__in=[row.last_run_id for row in found.values()])
    states: dict[Any, str] = dict(select_visible(runs, user).values_list("pk", "state"))
    return OverviewTable(
        title=_("Schedules"),
        model=Schedule,
        columns=[_("Schedule"), _("Next run"), _("Last run")],
        rows=[_describe(row, states.get(row.last_run_id, "")) for row in found.values()],
    )


def _describe(row: Schedule, state: str) -> OverviewRow:
    name = row.description or registry.get_title(row.graph)
    note = f"{row.expression} · {row.timezone}"
    next_at: Any = row.next_at or "–"
    if row.last_error:
        return OverviewRow([name, next_at, _("not started")], row.pk, row.last_error, "bad")
    words = Run.State(state).label if state else "–"
    return OverviewRow([name, next_at, words], row.pk, note, TONES.get(state, ""))
