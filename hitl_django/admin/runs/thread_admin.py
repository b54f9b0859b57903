"""List and pages of threads, with their state, timeline, and the changes of each step."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from django.contrib import admin
from django.contrib.contenttypes.models import ContentType
from django.db.models import CharField, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from hitl_django import services
from hitl_django.admin.base import (
    NOTHING,
    GraphFilter,
    format_entry,
    format_pill,
    name_graph,
)
from hitl_django.admin.display.history_display import list_steps, read_history
from hitl_django.admin.display.newest_search import RecentRowsSearch
from hitl_django.admin.display.subject_links import link_subject
from hitl_django.forms.json_input import escape_hidden
from hitl_django.graph_registry import registry
from hitl_django.models import Run, Thread
from hitl_django.permissions import get_policy, select_visible

from .checkpoint_admin import link_rows

MAX_RUNS = 50
#: Maximum number of threads for each kind of match.
FOUND = 200
SEARCH_HELP = _("Searches idempotency keys, thread ids and related objects.")


def describe_subject(thread: Thread) -> str:
    """Return the model and the key of a thread's related object as text."""
    if thread.subject_type is None:
        return NOTHING
    return escape_hidden(f"{thread.subject_type.name} {thread.subject_id}")


def search_threads(
    rows: QuerySet[Any], newest: QuerySet[Any], column: str, text: str, *columns: str
) -> QuerySet[Any]:
    """Return the rows in ``rows`` whose thread matches ``text``.

    A thread matches if one of these conditions applies:

    - The thread's id starts with the text.
    - The id of the thread's related object equals the text.
    - The idempotency key of one of the thread's runs equals the text.
    - A row of the thread in ``newest`` contains the text in one of the ``columns``.

    The first three conditions use an index, so they find threads of any age. ``newest`` are the
    newest rows of ``rows``. At most FOUND threads are found for each condition. ``column`` is the
    column of ``rows`` that contains the thread's primary key.
    """
    threads = Thread.objects.using(rows.db).order_by()
    kinds = [*ContentType.objects.using(rows.db).values_list("pk", flat=True)]
    graphs = [*registry.list_names()]
    runs = Run.objects.using(rows.db).order_by()
    has_text = reduce(or_, (Q((f"{name}__icontains", text)) for name in columns))
    found = (
        threads.filter(thread_id__startswith=text).values_list("pk", flat=True),
        threads.filter(subject_type__in=kinds, subject_id=text).values_list("pk", flat=True),
        runs.filter(graph__in=graphs, key=text).values_list("thread", flat=True),
        newest.filter(has_text).values_list(column, flat=True),
    )
    return rows.filter(**{f"{column}__in": {key for keys in found for key in keys[:FOUND]}})


class ThreadAdmin(RecentRowsSearch):
    """Admin of threads, newest first."""

    list_display = ("thread", "state_badge", "about", "created_at")
    list_filter = (GraphFilter,)
    ordering = ("-pk",)
    empty_text = _("No threads yet. Starting a run creates one.")
    search_fields = ("thread_id",)
    search_help_text = SEARCH_HELP
    newest_by = "pk"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        runs = select_visible(Run.objects.filter(thread=OuterRef("pk")), request.user)
        newest = Run.select_newest(runs)
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
        return format_pill(thread.newest_state) if thread.newest_state else NOTHING

    @admin.display(description=_("related object"))
    def about(self, thread: Thread) -> str:
        return describe_subject(thread)

    def search(self, rows: QuerySet[Any], newest: QuerySet[Any], text: str) -> QuerySet[Any]:
        columns = "thread_id", "subject_id", "newest_key"
        return search_threads(rows, newest, "pk", text, *columns)

    def show(self, request: HttpRequest, thread: Thread) -> HttpResponse:
        """Show the state and the timeline of a thread."""
        runs = select_visible(Run.objects.filter(thread=thread), request.user)
        newest = Run.select_newest(runs.defer(*Run.LARGE_COLUMNS)).first()
        listed = runs.defer(*Run.LARGE_COLUMNS).order_by("-number", "-pk")[:MAX_RUNS]
        may = newest is not None and get_policy().may_operate(request.user, newest)
        return self.page(
            request,
            thread,
            "thread.html",
            title=_("Thread %(id)s") % {"id": thread.thread_id},
            runs=[(run, format_pill(run.state)) for run in listed],
            newest=newest,
            pill="" if newest is None else format_pill(newest.state),
            threads_url=self.url("changelist", request),
            may_operate=may,
            about=link_subject(thread, request),
            picture=services.thread_picture(thread.thread_id),
            history=list_steps(request, thread),
            timeline=read_history(request, thread, request.GET.get("before", "")),
            rows=link_rows(request, thread),
        )
