"""List of the review queue, with counts and texts for an empty list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ORDER_VAR
from django.core.paginator import InvalidPage, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.formats import localize
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from hitl_django import services
from hitl_django.admin.base import LinkedChangeList
from hitl_django.admin.display.key_facts import list_fact_columns
from hitl_django.admin.display.list_filters import (
    TAB_PARAMETER,
    TABS,
    ListFilters,
    PendingGroupFilter,
    get_tab_condition,
    get_tab_parts,
    match_chosen,
    parse_group,
)
from hitl_django.admin.display.live_updates import ShownPage, build_updates_url
from hitl_django.admin.display.queue_rows import QueueRow, select_rows
from hitl_django.admin.display.subject_links import SubjectLink, link_subjects
from hitl_django.forms.local_time import format_moment
from hitl_django.models import ReviewItem
from hitl_django.permissions import get_policy, select_visible
from hitl_django.services.reviews import queue_filters
from hitl_django.services.reviews.queue_stats import CAP

from .batches import MAX_SELECTED

#: Name of the column by which the list can be sorted.
AGE = "waiting"
#: Maximum count shown on a tab. Counting each tab up to CAP would take longer than the rest of the
#: page.
MOST = 100


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab with its label, its count, and the link to the counted rows."""

    name: str
    label: Any
    count: str
    url: str
    is_current: bool
    is_alert: bool


@dataclass(frozen=True, slots=True)
class SortLink:
    """A sort order of the list, with the link to the list in this order."""

    label: str
    url: str
    is_current: bool


class QueueChangeList(LinkedChangeList):
    """Change list of the review queue, with position, related object and link for each row.

    One query counts the rows of each tab, up to MOST, and the rows of the list, up to CAP. To find
    rows beyond CAP, the user must narrow the list.
    """

    counts: services.QueueCounts
    #: The current search, or None.
    search: queue_filters.Search | None = None
    #: Labels of the columns of facts. A list of one graph has them if its policy names facts.
    columns: Sequence[str] = ()
    #: URL from which the page requests updates.
    updates_url: str
    #: Whether the user may decide at least one row of the page.
    may_decide: bool

    def __init__(self, request: HttpRequest, *arguments: Any, **options: Any) -> None:
        self.user = request.user
        chosen = request.GET.get(TAB_PARAMETER, "")
        self.tab = chosen if chosen in TABS else ""
        super().__init__(request, *arguments, **options)

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        found = super().get_filters_params(params)
        found.pop(TAB_PARAMETER, None)
        return found

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        self.query = self.query.strip()
        if exclude_parameters is not None:
            return self._select_without_filter(request, exclude_parameters)
        rows = super().get_queryset(request)
        if not self.query and "o" not in self.params:
            parts = get_tab_parts(self.tab, request.user, self.own_groups, self.group)
            return queue_filters.read_first(
                rows, parts, self.list_per_page * min(max(self.page_num, 1), CAP)
            )
        # ``get_results`` applies the search, because its strategy depends on the counts.
        return rows.filter(get_tab_condition(self.tab, request.user))

    def _select_without_filter(self, request: HttpRequest, excluded: Any) -> QuerySet[Any]:
        # For each filter, Django would build all filters again and repeat their queries.
        rows = self.root_queryset.filter(get_tab_condition(self.tab, request.user))
        if self.query:
            rows = rows.filter(queue_filters.match_words(self.query))
        for spec in self.filter_specs:
            if not {*excluded}.intersection(spec.expected_parameters()):
                found = spec.queryset(request, rows)
                rows = rows if found is None else found
        return rows

    @property
    def own_groups(self) -> list[Any]:
        """The ids of the user's groups that have pending interrupts."""
        return [
            key
            for spec in self.filter_specs
            if isinstance(spec, PendingGroupFilter)
            for key in spec.theirs
        ]

    @property
    def group(self) -> int | None:
        """The id of the selected group, or None."""
        return parse_group(_first(self.get_filters_params().get("group")))

    def get_ordering_field_columns(self) -> Any:
        # The queue's default order isn't that of a single column, although age is part of it.
        return super().get_ordering_field_columns() if "o" in self.params else {}

    @property
    def is_narrowed(self) -> bool:
        """Whether a search or filter hides some of the rows that the tabs count."""
        return bool(self.query or self.get_filters_params())

    def get_results(self, request: HttpRequest) -> None:
        count = self._count()
        # Join additional values only for the rows of the page, not for the count.
        paginator = Paginator(select_rows(self.queryset), self.list_per_page)
        paginator.__dict__["count"] = count
        try:
            rows = list(paginator.page(self.page_num).object_list)
        except InvalidPage:
            raise IncorrectLookupParameters from None
        self.paginator, self.result_list = paginator, rows
        self.result_count = count
        self.full_result_count: int | None = count
        self.show_full_result_count = self.show_admin_actions = self.can_show_all = False
        self.multi_page = count > self.list_per_page
        self.complete_rows(request)
        policy = get_policy()
        self.may_decide = any(policy.may_decide(self.user, row) for row in rows)

    def _count(self) -> int:
        """Count the rows of each tab and of the list, and return the count of the list.

        For a search, also set ``queryset`` to one of the two queries of ``Search``. The count of
        the list determines which query is faster.
        """
        search = queue_filters.Search.build(self.queryset, self.query) if self.query else None
        self.search = search
        self.counts, count = services.count_queue(
            self.user,
            graph=_first(self.get_filters_params().get("graph")) or None,
            group=self.group,
            where=match_chosen(self.params, self.user),
            groups=self.own_groups,
            most=MOST,
            listed=search or TABS[self.tab][0],
        )
        if search is not None:
            self.queryset = search.find(count, MOST)
        return count

    def complete_rows(self, request: HttpRequest) -> None:
        rows = self.result_list
        keys = [(row.subject_app, row.subject_model, row.subject_id) for row in rows]
        subjects = link_subjects(request, keys)
        graph = _first(self.get_filters_params().get("graph"))
        self.columns = list_fact_columns(graph) if rows and graph else []
        self.rows = [
            QueueRow.build(
                row,
                request.user,
                self.model_admin.url("change", request, row.pk),
                subjects.get(key, SubjectLink("")),
                self.query,
                has_columns=bool(self.columns),
            )
            for row, key in zip(rows, keys, strict=True)
        ]
        self.updates_url = build_updates_url(self.model_admin.url("news", request), rows)

    def tabs(self) -> list[Tab]:
        """Return the tabs with their counts and links."""
        return [
            Tab(
                tab,
                label,
                format_capped(getattr(self.counts, name)),
                # Counts ignore the search, so their links must ignore it too.
                self.get_query_string({TAB_PARAMETER: tab or None}, ["p", "e", "q"]),
                tab == self.tab,
                is_alert=tab == "overdue" and bool(self.counts.overdue),
            )
            for tab, (name, label) in TABS.items()
        ]

    def list_filters(self) -> list[dict[str, Any]]:
        """Return the title and the choices of each filter."""
        return [
            {"title": spec.title, "choices": list(spec.choices(self))} for spec in self.filter_specs
        ]

    def sort_links(self) -> list[SortLink]:
        """Return the sort orders of the list. The default order is that of ``queue_order()``."""
        number = list(self.list_display).index(AGE)
        orders = {
            None: _("Overdue first, then by priority and due date"),
            str(number): _("Oldest first"),
            f"-{number}": _("Newest first"),
        }
        current = self.params.get(ORDER_VAR)
        return [
            SortLink(label, self.get_query_string({ORDER_VAR: order}, ["p"]), order == current)
            for order, label in orders.items()
        ]

    def describe_all_matching(self) -> str:
        """Return the label of the checkbox that selects the rows of all pages.

        The label is empty if the list has a single page.
        """
        if not self.multi_page:
            return ""
        if self.result_count >= MAX_SELECTED:
            return _("Select the first %(n)s that match") % {"n": localize(MAX_SELECTED)}
        return _("Select all %(n)s that match") % {"n": localize(self.result_count)}

    def describe_limit(self) -> str:
        """Return a note if the search covered only the first rows, otherwise an empty string."""
        is_long = self.counts.pending >= min(MOST, queue_filters.SCANNED)
        if self.search is None or not is_long or not self.search.is_cut_short():
            return ""
        words = _("Searched the first %(n)s requests only. Filter the list to search the rest.")
        return words % {"n": localize(queue_filters.SCANNED)}

    def emptiness(self) -> list[str]:
        """Return the lines of text that are shown instead of an empty list."""
        if self.is_narrowed:
            return [_("No results match your search and filters.")]
        counts = self.counts
        if not counts.pending:
            return [
                _("No pending requests."),
                _(
                    "Requests appear here when a run needs a review. You see only requests "
                    "that you have permission to view."
                ),
            ]
        if self.tab == "unclaimed":
            return self._why_none_is_free()
        words = {
            "mine": _("You have no claimed or assigned requests."),
            "claimed": _("No requests are claimed by others."),
            "overdue": _("No overdue requests."),
            "snoozed": _("No snoozed requests."),
        }
        return [words[self.tab]] if self.tab in words else self._all_put_off()

    def _why_none_is_free(self) -> list[str]:
        counts = self.counts
        if counts.awake == 0:
            return self._all_put_off()
        if counts.claimed >= counts.awake:
            return [_("All pending requests are claimed by others.")]
        return [
            _("No unclaimed requests for you."),
            _(
                "All pending requests are claimed, snoozed, assigned to others, or unavailable "
                "because their run has stopped."
            ),
        ]

    def _all_put_off(self) -> list[str]:
        words = [_("All pending requests are snoozed.")]
        put_off = ReviewItem.pending.filter(get_tab_condition("snoozed", self.user))
        rows = select_visible(put_off, self.user).order_by("snoozed_until")
        first = rows.values_list("snoozed_until", flat=True).first()
        if first is not None:
            moment = format_moment(first)
            words.append(_("The first snoozed request returns at: %(moment)s") % {"moment": moment})
        return words


def read_list_updates(request: HttpRequest, list_url: str) -> dict[str, Any]:
    """Return the updates of an open list: new rows, changed rows and counts.

    With a search, the total number of rows in the list is omitted.
    """
    user, filters, shown = request.user, ListFilters.read(request), ShownPage.read(request)
    counts, listed = services.count_queue(
        user, **filters.narrowing, most=MOST, listed=TABS[filters.tab][0]
    )
    updates = {
        "text": "",
        "counts": {
            tab: format_capped(getattr(counts, name)) for tab, (name, _label) in TABS.items()
        },
        "interrupts": shown.describe_changes(user),
    }
    if not filters.words:
        updates["total"] = count_in_words(listed)
    if new := shown.count_new(filters.select_listed(user), MOST):
        updates["text"] = _("%(n)s new") % {"n": format_capped(new)}
        updates["lead"] = {"url": list_url, "label": _("Show new requests")}
    return updates


def count_in_words(count: int) -> str:
    """Return the number of pending requests as text, for example "5 pending requests".

    If the number is CAP or more, the text says that there are more requests than the list shows.
    """
    if count >= CAP:
        words = _("More than %(n)s requests. Filter the list to see the rest.")
        return words % {"n": localize(CAP - 1)}
    # The plural name of the model can't follow a number in every language.
    return ngettext("%(n)d pending request", "%(n)d pending requests", count) % {"n": count}


def format_capped(count: int) -> str:
    """Return a count as text. If the count was limited to a maximum, a "+" follows."""
    return localize(count) if count < MOST else f"{localize(MOST - 1)}+"


def _first(values: Any) -> str:
    return str(values[0]) if isinstance(values, list) and values else str(values or "")
