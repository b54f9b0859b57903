"""Admin pages of schedules."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from hitl_django.admin import add_pages
from hitl_django.admin.base import (
    NOTHING,
    ReadOnlyAdmin,
    format_entry,
    format_pill,
    format_status,
    name_graph,
)
from hitl_django.admin.display.payload_display import display_raw
from hitl_django.forms.json_input import escape_hidden
from hitl_django.graph_registry import registry
from hitl_django.models import Run
from hitl_django.permissions import get_policy, select_visible

from . import services
from .models import Schedule


class ScheduleAdmin(ReadOnlyAdmin):
    """Admin of schedules, newest first.

    Schedules are created in code and with the API.
    """

    list_display = ("schedule", "state", "next_due", "started", "skipped")
    list_filter = ("is_active",)
    empty_text = _("No schedules yet.")
    actions = ("pause", "resume")

    def has_manage_permission(self, request: HttpRequest) -> bool:
        return get_policy().has_permission(request.user, services.MANAGE)

    @admin.display(description=_("schedule"), ordering="graph")
    def schedule(self, row: Schedule) -> str:
        title = row.description or name_graph(row.graph)
        rule = map(escape_hidden, (row.expression, row.timezone))
        return format_entry(row, title, name_graph(row.graph) if row.description else "", *rule)

    @admin.display(description=_("state"), ordering="is_active")
    def state(self, row: Schedule) -> Any:
        error = escape_hidden(row.last_error)
        return format_html('{}<span class="hitl-sub">{}</span>', _format_state(row), error)

    @admin.display(description=_("next run"), ordering="next_at")
    def next_due(self, row: Schedule) -> Any:
        return row.next_at if row.is_active and row.next_at else NOTHING

    @admin.action(description=_("Pause"), permissions=["manage"])
    def pause(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        count = self._turn(request, rows.filter(is_active=True), is_active=False)
        text = ngettext("%(n)d schedule is paused.", "%(n)d schedules are paused.", count)
        self.message_user(request, text % {"n": count}, messages.SUCCESS)

    @admin.action(description=_("Resume"), permissions=["manage"])
    def resume(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        count = self._turn(request, rows.filter(is_active=False), is_active=True)
        text = ngettext("%(n)d schedule resumed.", "%(n)d schedules resumed.", count)
        self.message_user(request, text % {"n": count}, messages.SUCCESS)

    def _turn(self, request: HttpRequest, rows: QuerySet[Any], *, is_active: bool) -> int:
        chosen = list(rows.values_list("pk", flat=True))
        for pk in chosen:
            services.change_schedule(pk, by=request.user, is_active=is_active)
        return len(chosen)

    def show(self, request: HttpRequest, row: Schedule) -> HttpResponse:
        runs = select_visible(Run.objects.filter(pk__in=[row.last_run_id]), request.user)
        last_run = runs.first()
        return self.page(
            request,
            row,
            "schedule.html",
            title=str(row),
            graph=name_graph(row.graph),
            raw=display_raw(registry.mask_values(row.graph, row.input)),
            list_url=self.url("changelist", request),
            pill=_format_state(row),
            last_run=last_run,
            last_run_pill="" if last_run is None else format_pill(last_run.state),
            runs_key=f"schedule:{row.pk}:",
        )


def _format_state(row: Schedule) -> str:
    return format_status(_("active"), "is-ok") if row.is_active else format_status(_("paused"))


add_pages({Schedule: ScheduleAdmin})
