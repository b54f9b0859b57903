"""Threads: everything that happened to one, where it is, and what its steps changed."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.contenttypes.models import ContentType
from django.db.models import CharField, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from hitl_django import services
from hitl_django.engine.errors import ThreadNotFound
from hitl_django.errors import NotAllowedError
from hitl_django.forms.json_input import escape_hidden
from hitl_django.graph_registry import registry
from hitl_django.models import Run, Thread
from hitl_django.permissions import get_policy, select_visible

from .base import (
    NOTHING,
    SEARCHED,
    GraphFilter,
    ReadOnlyAdmin,
    format_entry,
    format_state,
    name_graph,
)
from .checkpoint_admin import link_rows
from .history_display import read_history
from .question_status import link_subject

MAX_RUNS = 50
#: Threads of each kind that a search lists.
FOUND = 200
SEARCH_HELP = _("Searches for a key, for what it is about, or for the beginning of a thread id.")


def list_steps(request: HttpRequest, thread: Thread, *, limit: int = 20) -> services.History | None:
    """Returns a page of a thread's steps; nothing for those who may not see its state."""
    before = request.GET.get("steps_before") or None
    try:
        return services.thread_history(
            thread.thread_id, before=before, limit=limit, by=request.user
        )
    except (NotAllowedError, ThreadNotFound):
        return None


def describe_subject(thread: Thread) -> str:
    """Names what a thread is about by its kind and key."""
    if thread.subject_type is None:
        return NOTHING
    return escape_hidden(f"{thread.subject_type.name} {thread.subject_id}")


def search_threads(rows: QuerySet[Any], column: str, text: str) -> QuerySet[Any]:
    """Narrows rows to threads whose id begins with a text, or that are about or run under it.

    Each is looked up by an index, and no more than so many of each.
    """
    name = text.strip()[:SEARCHED]
    if not name:
        return rows
    threads = Thread.objects.using(rows.db).order_by()
    kinds = [*ContentType.objects.using(rows.db).values_list("pk", flat=True)]
    graphs = [*registry.list_names()]
    found = [
        *threads.filter(thread_id__startswith=name).values_list("pk", flat=True)[:FOUND],
        *threads.filter(subject_type__in=kinds, subject_id=name).values_list("pk", flat=True)[
            :FOUND
        ],
        *Run.objects.using(rows.db)
        .order_by()
        .filter(graph__in=graphs, key=name)
        .values_list("thread", flat=True)[:FOUND],
    ]
    return rows.filter(**{f"{column}__in": {*found}})


class ThreadAdmin(ReadOnlyAdmin):
    """Threads, newest first."""

    list_display = ("thread", "state_badge", "about", "created_at")
    list_filter = (GraphFilter,)
    ordering = ("-pk",)
    empty_text = _("There is no thread yet. A thread is made when a run is started.")
    search_fields = ("thread_id",)
    search_help_text = SEARCH_HELP

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        runs = select_visible(Run.objects.filter(thread=OuterRef("pk")), request.user)
        newest = runs.order_by("-created_at", "-pk")
        rows = super().get_queryset(request).select_related("subject_type").defer("metadata")
        return rows.annotate(
            newest_state=Subquery(newest.values("state")[:1], output_field=CharField()),
            newest_key=Subquery(newest.values("key")[:1], output_field=CharField()),
        )

    @admin.display(description=_("thread"), ordering="thread_id")
    def thread(self, thread: Any) -> str:
        key = escape_hidden(thread.newest_key or "")
        return format_entry(thread, thread.thread_id, name_graph(thread.graph), key)

    @admin.display(description=_("state"))
    def state_badge(self, thread: Any) -> str:
        return format_state(thread.newest_state) if thread.newest_state else NOTHING

    @admin.display(description=_("about"))
    def about(self, thread: Thread) -> str:
        return describe_subject(thread)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return search_threads(queryset, "pk", search_term), False

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
