"""Filters of the lists: tabs, graph, group, priority, assignee, due time, search and reviewer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, ClassVar

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from hitl_django import services
from hitl_django.admin.base import SEARCHED, GraphFilter, name_graph
from hitl_django.forms.json_input import escape_hidden
from hitl_django.models import ReviewItem
from hitl_django.permissions import select_visible
from hitl_django.services.reviews import queue_filters
from hitl_django.services.reviews.periods import NOBODY, match_reviewer

#: Query parameter of the selected tab.
TAB_PARAMETER = "show"

#: Tabs by the parameter's value: the name of the tab's count, and its label. The first tab is the
#: default.
TABS: dict[str, tuple[str, Any]] = {
    "": ("awake", _("Open")),
    "mine": ("mine", _("Mine")),
    "unclaimed": ("unclaimed", _("Unclaimed")),
    "claimed": ("claimed", _("Claimed by others")),
    "overdue": ("overdue", _("Overdue")),
    "snoozed": ("snoozed", _("Snoozed")),
}


def get_tab_condition(tab: str, user: Any) -> Q:
    """Return the condition that selects the rows of a tab of the review queue."""
    if tab == "unclaimed":
        return queue_filters.match_unclaimed(user)
    return reduce(or_, get_tab_parts(tab, user, (), None))


def get_tab_parts(tab: str, user: Any, groups: Collection[Any], group: Any) -> Sequence[Q]:
    """Return the conditions of a tab. The tab contains the rows that match one of the conditions.

    No row matches two conditions, so ``queue_filters.read_first`` can query them one by one.
    ``groups`` are the ids of the user's groups. ``group`` is the id of the selected group.
    """
    if tab == "unclaimed":
        return queue_filters.split_unclaimed(user, groups, group)
    if tab == "overdue":
        return queue_filters.OVERDUE_PARTS
    conditions = {"mine": queue_filters.match_own, "claimed": queue_filters.match_claimed_by_others}
    if tab in conditions:
        return [conditions[tab](user)]
    return [queue_filters.SNOOZED if tab == "snoozed" else queue_filters.AWAKE]


@dataclass(frozen=True)
class ListFilters:
    """Filters of the list from which a page was opened.

    The URL of the page contains these filters.
    """

    graph: str | None
    group: int | None
    #: The condition on priority, assignee and due time.
    where: Q
    tab: str
    words: str

    @classmethod
    def read(cls, request: HttpRequest) -> ListFilters:
        """Read the list's filters from the URL of a page."""
        kept = QueryDict(request.GET.get("_changelist_filters", ""))
        tab = kept.get(TAB_PARAMETER, "")
        return cls(
            graph=kept.get("graph") or None,
            group=parse_group(kept.get("group")),
            where=match_chosen(kept, request.user),
            tab=tab if tab in TABS else "",
            words=kept.get("q", "")[:SEARCHED],
        )

    @property
    def narrowing(self) -> dict[str, Any]:
        """The filters except for the tab and the search, as keyword arguments.

        The services that count or find pending interrupts accept the arguments ``graph``, ``group``
        and ``where``.
        """
        return {"graph": self.graph, "group": self.group, "where": self.where}

    def select_open(self, user: Any) -> QuerySet[Any]:
        """Return the pending interrupts that the user can view and that match the filters.

        The tab and the search don't apply.
        """
        rows = select_visible(ReviewItem.pending.filter(self.where), user)
        if self.graph is not None:
            rows = rows.filter(graph=self.graph)
        return rows if self.group is None else rows.filter(group=self.group)

    def select_listed(self, user: Any) -> QuerySet[Any]:
        """Return all interrupts of the filtered list, unordered and without pagination."""
        rows = self.select_open(user).filter(get_tab_condition(self.tab, user))
        return rows.filter(queue_filters.match_words(self.words)) if self.words else rows


class PendingGraphFilter(GraphFilter):
    """Filter by graph, offering only graphs with pending interrupts."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name_graph(name)) for name in services.list_pending_graphs(request.user)]

    def get_facet_counts(self, pk_attname: str, filtered_qs: QuerySet[Any]) -> dict[str, Any]:
        return _count_choices(pk_attname, "graph", self.lookup_choices)


class PendingGroupFilter(admin.SimpleListFilter):
    """Filter by assigned group, offering only groups with pending interrupts."""

    title = _("group")
    parameter_name = "group"
    #: Ids of the user's groups.
    theirs: Collection[Any] = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        found = services.list_pending_groups(request.user)
        self.theirs = [key for key, _name, is_theirs in found if is_theirs]
        return [(str(key), escape_hidden(name)) for key, name, _is_theirs in found]

    def has_output(self) -> bool:
        return bool(self.lookup_choices) or self.value() is not None

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        group = parse_group(self.value())
        return queryset if group is None else queryset.filter(group=group)

    def get_facet_counts(self, pk_attname: str, filtered_qs: QuerySet[Any]) -> dict[str, Any]:
        return _count_choices(pk_attname, "group", self.lookup_choices)


class ConditionFilter(admin.SimpleListFilter):
    """Filter by one of several named conditions, which are also filters of the API."""

    choices_by_value: ClassVar[Mapping[str, Any]] = {}

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(self.choices_by_value.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = {str(self.parameter_name): self.value()}
        return queryset.filter(match_chosen(chosen, request.user))

    def choices(self, changelist: Any) -> Iterator[Any]:
        # Django would also count the rows of each choice, with a query for each filter.
        name, chosen = str(self.parameter_name), self.value()
        every = {"selected": chosen is None, "display": gettext("All")}
        yield {**every, "query_string": changelist.get_query_string(remove=[name])}
        for value, label in self.lookup_choices:
            link = changelist.get_query_string({name: value})
            yield {"selected": chosen == value, "query_string": link, "display": label}


class PriorityFilter(ConditionFilter):
    """Filter by priority."""

    title = _("priority")
    parameter_name = "priority"
    choices_by_value: ClassVar = {
        "urgent": _("Urgent"),
        "high": _("High"),
        "normal": _("Normal"),
        "low": _("Low"),
    }


class AssigneeFilter(ConditionFilter):
    """Filter by assignee."""

    title = _("assignee")
    parameter_name = "assignee"
    choices_by_value: ClassVar = {"me": _("Me"), "nobody": _("Nobody")}


class DueFilter(ConditionFilter):
    """Filter by due time."""

    title = _("due")
    parameter_name = "due"
    choices_by_value: ClassVar = {
        "overdue": _("Overdue"),
        "today": _("Today"),
        "week": _("This week"),
        "none": _("No due date"),
    }


def match_chosen(params: Mapping[str, Any], user: Any) -> Q:
    """Return the condition for the priority, assignee and due time in the URL of a list."""
    filters = (PriorityFilter, AssigneeFilter, DueFilter)
    names = [str(one.parameter_name) for one in filters]
    return queue_filters.match_chosen(user, **{name: params.get(name) or "" for name in names})


def _count_choices(key: str, field: str, choices: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    values = enumerate(value for value, _title in choices)
    return {f"{n}__c": Count(key, filter=Q((field, value))) for n, value in values}


def parse_group(value: str | None) -> int | None:
    """Parse the id of a group, or return None for an empty value.

    An invalid value results in an id that no group has.
    """
    if not value:
        return None
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0


class DecidedGraphFilter(GraphFilter):
    """Filter decisions by graph."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [
            (name, name_graph(name)) for name in services.list_graphs_with_interrupts(request.user)
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(interrupt__graph=self.value()) if self.value() else queryset


class ReviewerFilter(admin.SimpleListFilter):
    """Filter of decisions by reviewer.

    The filter is shown only if the URL of the list selects a reviewer. Optional apps link to these
    URLs.
    """

    title = _("reviewer")
    parameter_name = "by"
    #: Column with the reviewer's id. A column next to it has the reviewer's name.
    person = "by"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        chosen = self.value()
        if not chosen:
            return []
        if not services.may_view_reviewer_reports(request.user):
            raise PermissionDenied
        if chosen == NOBODY:
            return [(chosen, str(_("(without an account)")))]
        seen = self.select(model_admin.get_queryset(request))
        label = seen.values_list(f"{self.person}_label", flat=True).order_by("-created_at").first()
        return [(chosen, escape_hidden(label or chosen))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return self.select(queryset) if self.value() else queryset

    def select(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(match_reviewer(self.value(), self.person))
