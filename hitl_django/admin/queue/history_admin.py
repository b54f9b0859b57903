"""Read-only lists of all interrupts and decisions."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_lazy as _

from hitl_django.admin.base import (
    GraphFilter,
    can_view_runs,
    describe_node,
    format_entry,
)
from hitl_django.admin.display.diff_display import get_decision_context
from hitl_django.admin.display.list_filters import DecidedGraphFilter, ReviewerFilter
from hitl_django.admin.display.newest_search import RecentRowsSearch
from hitl_django.admin.display.payload_display import display_raw
from hitl_django.forms.json_input import escape_hidden
from hitl_django.models import Decision, Interrupt, ReviewItem
from hitl_django.models.review import LARGE_COLUMNS
from hitl_django.page_urls import find_admin_page
from hitl_django.services.reviews.queue_filters import match_words

from .queue_admin import ReviewItemAdmin


class InterruptAdmin(RecentRowsSearch):
    """List of all interrupts, newest first."""

    list_display = ("request", "status", "created_at", "closed_at")
    list_filter = ("status", GraphFilter, "created_at")
    linked_lookups = ("created_at__gte", "created_at__lt")
    empty_text = _("No requests yet. They appear here when a run needs a review.")
    search_fields = ("title",)
    search_help_text = ReviewItemAdmin.search_help_text
    #: Ids ascend with the creation time. Only the id has an index that covers all interrupts.
    newest_by = "pk"

    def search(self, rows: QuerySet[Any], newest: QuerySet[Any], text: str) -> QuerySet[Any]:
        return newest.filter(match_words(text, common=True))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer(*LARGE_COLUMNS)

    @admin.display(description=_("request"), ordering="title")
    def request(self, item: Interrupt) -> str:
        return format_entry(item, item.title, describe_node(item))

    def show(self, request: HttpRequest, item: Interrupt) -> HttpResponse:
        """Redirect to the interrupt's request page."""
        url = find_admin_page(ReviewItem, "change", item.pk, request=request)
        if not url:
            raise Http404(_("Page not found."))
        return HttpResponseRedirect(url)


class DecisionAdmin(RecentRowsSearch):
    """List of all decisions, with author, time, type and source."""

    list_display = ("request", "type", "decider", "via", "created_at", "undone_at")
    list_filter = ("type", "via", DecidedGraphFilter, ReviewerFilter, "created_at")
    linked_lookups = ("created_at__gte", "created_at__lt", "effective__exact", "type__in")
    list_select_related = ("interrupt",)
    visible_through = "interrupt"
    empty_text = _("No decisions yet.")
    search_fields = ("interrupt__title",)
    search_help_text = ReviewItemAdmin.search_help_text

    def search(self, rows: QuerySet[Any], newest: QuerySet[Any], text: str) -> QuerySet[Any]:
        return newest.filter(match_words(text, common=True, through="interrupt__"))

    def rows(self) -> QuerySet[Any]:
        return Decision.objects.select_related("interrupt__run")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        return rows.defer("value", *(f"interrupt__{name}" for name in LARGE_COLUMNS))

    @admin.display(description=_("request"), ordering="interrupt__title")
    def request(self, decision: Decision) -> str:
        return format_entry(decision, decision.interrupt.title, describe_node(decision.interrupt))

    @admin.display(description=_("by"), ordering="by_label")
    def decider(self, decision: Decision) -> str:
        return escape_hidden(decision.by_label)

    def show(self, request: HttpRequest, decision: Decision) -> HttpResponse:
        """Show all columns of one decision."""
        return self.page(
            request,
            decision.interrupt,
            "decision.html",
            list_url=self.url("changelist", request),
            raw=display_raw(decision.value),
            sees_runs=can_view_runs(request),
            **get_decision_context(decision.interrupt, decision),
        )
