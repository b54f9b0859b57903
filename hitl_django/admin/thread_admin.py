"""Threads: everything that happened to one, where it is, and what its steps changed."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import CharField, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from hitl_django import services
from hitl_django.engine.errors import ThreadNotFound
from hitl_django.errors import NotAllowedError
from hitl_django.forms.json_input import escape_hidden
from hitl_django.models import Run, Thread
from hitl_django.permissions import get_policy, select_visible

from .base import NOTHING, GraphFilter, ReadOnlyAdmin, format_entry, format_state, name_graph
from .checkpoint_admin import link_rows
from .history_display import read_history
from .question_status import link_subject

MAX_RUNS = 50


def list_steps(request: HttpRequest, thread: Thread, *, limit: int = 20) -> services.History | None:
    """Returns a page of a thread's steps; nothing for those who may not see its state."""
    before = request.GET.get("steps_before") or None
    try:
        return services.thread_history(
            thread.thread_id, before=before, limit=limit, by=request.user
        )
    except (NotAllowedError, ThreadNotFound):
        return None


class ThreadAdmin(ReadOnlyAdmin):
    """Threads, newest first."""

    list_display = ("thread", "state_badge", "about", "created_at")
    list_filter = (GraphFilter,)
    ordering = ("-pk",)
    empty_text = _("There is no thread yet. A thread is made when a run is started.")
    search_fields = ("thread_id__startswith",)
    search_help_text = _("Searches for the beginning of a thread id.")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        runs = select_visible(Run.objects.filter(thread=OuterRef("pk")), request.user)
        newest = runs.order_by("-created_at", "-pk").values("state")[:1]
        rows = super().get_queryset(request).select_related("subject_type").defer("metadata")
        return rows.annotate(newest_state=Subquery(newest, output_field=CharField()))

    @admin.display(description=_("thread"), ordering="thread_id")
    def thread(self, thread: Thread) -> str:
        return format_entry(thread, thread.thread_id, name_graph(thread.graph))

    @admin.display(description=_("state"))
    def state_badge(self, thread: Any) -> str:
        return format_state(thread.newest_state) if thread.newest_state else NOTHING

    @admin.display(description=_("about"))
    def about(self, thread: Thread) -> str:
        if thread.subject_type is None:
            return NOTHING
        return escape_hidden(f"{thread.subject_type.name} {thread.subject_id}")

    def show(self, request: HttpRequest, thread: Thread) -> HttpResponse:
        """Shows where a thread is and what happened to it."""
        runs = select_visible(Run.objects.filter(thread=thread), request.user)
        newest = list(runs.defer("error", "traceback").order_by("-created_at", "-pk")[:MAX_RUNS])
        may = bool(newest) and get_policy().may_operate(request.user, newest[0])
        return self.page(
            request,
            thread,
            "thread.html",
            title=_("Thread %(id)s") % {"id": thread.thread_id},
            runs=newest,
            newest=newest[0] if newest else None,
            may_operate=may,
            about=link_subject(thread, request),
            picture=services.thread_picture(thread.thread_id),
            history=list_steps(request, thread),
            timeline=read_history(request, thread, request.GET.get("before", "")),
            rows=link_rows(request, thread),
        )
