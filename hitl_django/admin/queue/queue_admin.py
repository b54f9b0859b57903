"""Admin of the review queue: the list and its actions.

The page of one request is in ``request/``, and bulk decisions are in ``bulk_decide.py``.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.utils.translation import gettext_lazy as _

from hitl_django import services
from hitl_django.admin.base import View
from hitl_django.admin.display.list_filters import (
    AssigneeFilter,
    DueFilter,
    PendingGraphFilter,
    PendingGroupFilter,
    PriorityFilter,
)
from hitl_django.admin.display.live_updates import respond_with_updates
from hitl_django.admin.display.refusal_messages import describe_worker_outage
from hitl_django.models import ReviewItem
from hitl_django.page_urls import find_admin_page

from .bulk_actions import BulkActionPages, may_assign_any
from .queue_list import AGE, QueueChangeList, count_in_words, format_capped, read_list_updates
from .saved_filters import SavedFilterPages

#: Seconds between update requests of an open list.
UPDATE_SECONDS = 15


class ReviewItemAdmin(BulkActionPages, SavedFilterPages):
    """Admin of pending interrupts, the most urgent first."""

    list_display = ("title", AGE)
    change_list_template = "hitl_django/admin/queue.html"
    list_filter = (
        PendingGraphFilter,
        PendingGroupFilter,
        PriorityFilter,
        AssigneeFilter,
        DueFilter,
    )
    list_title = _("Review queue")
    search_fields = ("title",)
    search_help_text = _(
        "Searches title, payload, node, related object and key. Enter whole words, or at "
        "least three letters of a word."
    )
    sortable_by = (AGE,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(status=ReviewItem.Status.PENDING)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return queryset, False  # QueueChangeList performs the search.

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return QueueChangeList

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        own = {
            **{f"{name}_url": self.url(name, request) for name in ("next", "bulk", "many")},
            **self.saved_context(request),
        }
        return super().changelist_view(request, {**own, **(extra_context or {})})

    def list_context(self, changes: ChangeList) -> dict[str, Any]:
        if not isinstance(changes, QueueChangeList):
            return {}
        missing, rows = services.find_worker_outage(), changes.result_list
        return {
            "outage": None if missing is None else describe_worker_outage(missing),
            "tabs": changes.tabs(),
            "filters": changes.list_filters(),
            "waiting": format_capped(changes.counts.awake) if changes.counts.awake else "",
            "count": count_in_words(changes.result_count),
            "all_matching": changes.describe_all_matching(),
            "search_limit": changes.describe_limit(),
            "reasons": [] if rows else changes.emptiness(),
            "may_decide": changes.may_decide,
            "may_assign": may_assign_any(changes.user, rows),
            # If filters hide all rows, there may still be a request to claim.
            "may_take": changes.may_decide or not rows,
            "page_range": changes.paginator.get_elided_page_range(changes.page_num),
        }

    def own_pages(self) -> dict[str, tuple[str, View]]:
        return {
            **super().own_pages(),
            "news": ("news/", self.updates_view),
            "next": ("next/", self.claim_next_view),
        }

    def updates_view(self, request: HttpRequest) -> HttpResponse:
        """Return, as JSON, the updates of an open list."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        # Link to the first page, which contains most of the new rows.
        kept = QueryDict(request.GET.get("_changelist_filters", ""), mutable=True)
        kept.pop(PAGE_VAR, None)
        list_url = find_admin_page(ReviewItem, "changelist", request=request)
        list_url = f"{list_url}?{kept.urlencode()}" if kept else list_url
        return respond_with_updates(again=UPDATE_SECONDS, **read_list_updates(request, list_url))

    def claim_next_view(self, request: HttpRequest) -> HttpResponse:
        """Claim the next unclaimed interrupt, and redirect to its page."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseRedirect(self.url("changelist", request))
        found = self.claim_next(request, request.POST.get("after") or None)
        if found is None:
            words = _("No unclaimed requests at the moment.")
            self.message_user(request, words, level=messages.INFO)
            return HttpResponseRedirect(self.url("changelist", request))
        return found

    @admin.display(ordering="created_at")
    def waiting(self, item: ReviewItem) -> Any:
        """Return the creation time of the interrupt. The column is sorted by this time."""
        return item.created_at
