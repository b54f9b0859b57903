"""Admin pages of archived threads."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from hitl_django.admin import add_pages
from hitl_django.admin.base import (
    NOTHING,
    ReadOnlyAdmin,
    format_entry,
    format_pill,
    name_graph,
)
from hitl_django.admin.display.payload_display import MAX_TEXT, DisplayedValue
from hitl_django.admin.runs.checkpoint_admin import DECODED, CappedPaginator
from hitl_django.engine.errors import PayloadError
from hitl_django.forms.json_input import escape_hidden
from hitl_django.graph_registry import registry
from hitl_django.models import Run
from hitl_django.run_events.redaction import redact_value

from .models import ArchivedThread
from .services import archived_thread


class EndedStateFilter(admin.SimpleListFilter):
    """Filter by the state of the thread's last run."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state.value, str(state.label)) for state in Run.State if state in Run.ENDED]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(state=self.value()) if self.value() else queryset


class ArchivedThreadAdmin(ReadOnlyAdmin):
    """Archived threads, most recently ended first."""

    list_display = ("thread", "state_badge", "interrupts", "ended_at")
    list_filter = (EndedStateFilter,)
    paginator = CappedPaginator
    empty_text = _("No archived threads yet.")
    search_fields = ("thread_id__exact", "key__exact")
    search_help_text = _("Searches thread ids and idempotency keys.")

    def rows(self) -> QuerySet[Any]:
        return super().rows().order_by()  # The row is found by its key, so it needs no order.

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("document")

    @admin.display(description=_("thread"), ordering="thread_id")
    def thread(self, row: ArchivedThread) -> str:
        return format_entry(row, row.thread_id, name_graph(row.graph))

    @admin.display(description=_("state"))
    def state_badge(self, row: ArchivedThread) -> str:
        return format_pill(row.state) if row.state else NOTHING

    def show(self, request: HttpRequest, row: ArchivedThread) -> HttpResponse:
        return self.page(
            request,
            row,
            "archived_thread.html",
            title=_("Archived thread %(id)s") % {"id": row.thread_id},
            list_url=self.url("changelist", request),
            pill=format_pill(row.state) if row.state else "",
            tables=_display_tables(request, row),
        )


def _display_tables(request: HttpRequest, row: ArchivedThread) -> list[DisplayedValue]:
    name = str(ArchivedThread._meta.verbose_name)
    if (size := len(row.document)) > DECODED:
        words = _("%(n)d bytes, too large to display") % {"n": size}
        return [DisplayedValue(name, words, "none")]
    try:
        found = archived_thread(row.thread_id, by=request.user)
    except PayloadError as error:
        return [DisplayedValue(name, escape_hidden(str(error)), "none")]
    redact = registry.get_redacted_keys(row.graph)
    shown = []
    for table, rows in found.rows.items():
        view, cut = redact_value(rows, MAX_TEXT, redact)
        text = json.dumps(view, ensure_ascii=False, indent=2)
        size = len(json.dumps(rows)) if cut else 0
        shown.append(DisplayedValue(table, escape_hidden(text), "code", size))
    return shown


add_pages({ArchivedThread: ArchivedThreadAdmin})
