"""List and pages of runs, with their state, interrupts, decisions and errors."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from hitl_django import services
from hitl_django.admin.base import (
    NOTHING,
    PICK,
    GraphFilter,
    can_view_runs,
    format_entry,
    format_pill,
    format_tick,
    name_graph,
    name_run,
)
from hitl_django.admin.display.bulk_buttons import list_bulk_buttons
from hitl_django.admin.display.history_display import (
    describe_entry,
    get_reason,
    list_steps,
    visible_entries,
)
from hitl_django.admin.display.newest_search import NewestChangeList, RecentRowsSearch
from hitl_django.admin.display.payload_display import MAX_TEXT
from hitl_django.admin.display.run_status import NOBODY_WORKS
from hitl_django.admin.display.subject_links import link_subject
from hitl_django.forms.json_input import escape_hidden
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, ReviewItem, Run, Thread
from hitl_django.models.review import LARGE_COLUMNS
from hitl_django.page_urls import find_admin_page
from hitl_django.permissions import get_policy, select_visible
from hitl_django.services.runs.position import read_picture

from .bulk_run_actions import BulkRunPages
from .overview_page import OverviewPages
from .run_state import read_state
from .start_pages import StartPages
from .thread_admin import SEARCH_HELP, describe_subject, search_threads

MAX_INTERRUPTS = 200
MAX_ENTRIES = 200
#: Maximum length of an error text in the list.
ERROR_LENGTH = 160
STUCK = (Run.State.FAILED, Run.State.PARKED)
#: Seconds between the updates of an open page. Pages of runs in other states don't update.
UPDATE_SECONDS = {
    Run.State.QUEUED: 4,
    Run.State.RUNNING: 4,
    Run.State.WAITING: 10,
    Run.State.INTERRUPTED: 15,
}

EXPLAINED = {
    Run.State.WAITING: _("Starts when the earlier runs of this thread have ended."),
    Run.State.QUEUED: _("Waiting for a worker."),
    Run.State.RUNNING: _("Running on a worker."),
    Run.State.INTERRUPTED: _("Resumes when its requests are decided."),
    Run.State.SUCCEEDED: _("Finished successfully."),
    Run.State.FAILED: _("Failed with an error. Its saved state is kept."),
    Run.State.PARKED: _("Needs an operator: retry or cancel the run. Its saved state is kept."),
    Run.State.CANCELLED: _("Cancelled by a user."),
}


class RunChangeList(NewestChangeList):
    """Change list of runs.

    Errors are shown only to users who may view them.
    """

    #: Whether the user may operate at least one run of the page.
    may_operate = False

    def complete_rows(self, request: HttpRequest) -> None:
        super().complete_rows(request)
        policy = get_policy()
        for row in self.result_list:
            may = policy.may_operate(request.user, row)
            # As in the API, errors are hidden from other users because they may quote payloads.
            row.fault = row.error[:ERROR_LENGTH] if may else ""
            self.may_operate |= may

    def drop_columns(self, *names: str) -> None:
        # Checkboxes have no purpose if the user can't operate any run.
        super().drop_columns(*names, *(() if self.may_operate else (PICK,)))


class RunAdmin(RecentRowsSearch, OverviewPages, StartPages, BulkRunPages):
    """Admin of runs, newest first."""

    change_list_template = "hitl_django/admin/runs.html"
    list_display = (PICK, "run", "about", "state_badge", "where", "created_at", "starter")
    list_filter = ("state", GraphFilter)
    list_select_related = ("thread__subject_type",)
    empty_text = _("No runs yet. Runs appear here when they are started.")
    search_fields = ("key",)
    search_help_text = SEARCH_HELP

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return RunChangeList

    def search(self, rows: QuerySet[Any], newest: QuerySet[Any], text: str) -> QuerySet[Any]:
        columns = "thread__thread_id", "thread__subject_id", "key"
        return search_threads(rows, newest, "thread", text, *columns)

    def list_context(self, changes: ChangeList) -> dict[str, Any]:
        may_operate = isinstance(changes, RunChangeList) and changes.may_operate
        return {**super().list_context(changes), "may_operate": may_operate}

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return can_view_runs(request)

    def rows(self) -> QuerySet[Any]:
        return Run.objects.select_related("thread__subject_type")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        interrupts = Interrupt.objects.filter(run=OuterRef("pk"), status=Interrupt.Status.PENDING)
        interrupts = select_visible(interrupts, request.user).order_by("created_at", "id")
        rows = super().get_queryset(request).defer("traceback")
        return rows.annotate(waits_at=Subquery(interrupts.values("node")[:1]))

    @admin.display(description=_("select"))
    def pick(self, run: Run) -> str:
        return format_tick(run.pk, f"{name_graph(run.graph)} {name_run(run)}")

    @admin.display(description=_("run"), ordering="graph")
    def run(self, run: Any) -> str:
        fault = escape_hidden(run.fault) if run.state in STUCK else ""
        return format_entry(
            run,
            registry.get_title(run.graph),
            name_run(run),
            fault,
        )

    @admin.display(description=_("related object"))
    def about(self, run: Run) -> str:
        return describe_subject(run.thread)

    @admin.display(description=_("progress"))
    def where(self, run: Any) -> str:
        is_asking = run.state == Run.State.INTERRUPTED and run.waits_at
        node = escape_hidden(run.waits_at) if is_asking else ""
        # A run has no step before its first super-step.
        step = _("step %(step)s") % {"step": run.step} if run.step >= 0 else ""
        return " · ".join(filter(None, (node, str(step)))) or NOTHING

    @admin.display(description=_("state"), ordering="state")
    def state_badge(self, run: Run) -> str:
        return format_pill(run.state)

    @admin.display(description=_("started by"), ordering="started_by_label")
    def starter(self, run: Run) -> str:
        return escape_hidden(run.started_by_label)

    def show(self, request: HttpRequest, run: Run) -> HttpResponse:
        """Show a run with its interrupts, its error and its audit entries."""
        entries = visible_entries(request, run.thread_id).order_by("-seq")
        operations = self.operations(request, run)
        may_operate = operations["may_operate"]
        interrupts = self._interrupts(request, run)
        newer = self._newer(request, run)
        picture, position = read_picture(run.thread.thread_id)
        return self.page(
            request,
            run,
            "run.html",
            title=_("Run of %(graph)s") % {"graph": name_graph(run.graph)},
            explained=self._explained(run),
            interrupts=interrupts,
            together=list_bulk_buttons(request.user, interrupts),
            bulk_url=find_admin_page(ReviewItem, "bulk", request=request),
            error=run.error[:MAX_TEXT] if may_operate else "",
            # A traceback contains source code, and its last line may quote processed data.
            traceback=run.traceback[-MAX_TEXT:] if may_operate else "",
            entries=[
                {"entry": entry, "label": describe_entry(entry), "reason": get_reason(entry)}
                for entry in entries[:MAX_ENTRIES]
            ],
            newer=newer,
            pill=format_pill(run.state),
            failed_nodes=sorted(position.failed) if newer is None else [],
            update_seconds=UPDATE_SECONDS.get(Run.State(run.state)),
            runs_url=self.url("changelist", request),
            about=link_subject(run.thread, request),
            sees_thread=self._sees_thread(request, run),
            picture=picture,
            state=None if newer else read_state(request, run),
            history=list_steps(request, run.thread),
            **operations,
        )

    def _explained(self, run: Run) -> Any:
        if run.state == Run.State.QUEUED and services.worker_health().is_missing:
            return NOBODY_WORKS
        return EXPLAINED[Run.State(run.state)]

    def _newer(self, request: HttpRequest, run: Run) -> Run | None:
        runs = Run.objects.filter(thread=run.thread_id).only("pk", "state")
        newest = Run.select_newest(runs, besides=run).first()
        if newest is None or newest.pk == run.pk:
            return None
        return self.visible(request, runs.filter(pk=newest.pk)).first()

    def _sees_thread(self, request: HttpRequest, run: Run) -> bool:
        threads = Thread.objects.filter(pk=run.thread_id)
        return select_visible(threads, request.user).exists()

    def _interrupts(self, request: HttpRequest, run: Run) -> list[Interrupt]:
        interrupts = select_visible(Interrupt.objects.filter(run=run), request.user)
        interrupts = interrupts.defer(*LARGE_COLUMNS).order_by("created_at", "index", "id")
        return list(interrupts.prefetch_related("decisions")[:MAX_INTERRUPTS])
