"""Position of an interrupt in the list from which its page was opened, with its neighbors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.formats import localize

from hitl_django.admin.display.list_filters import ListFilters, get_tab_condition, get_tab_parts
from hitl_django.admin.display.queue_rows import QueueRow, select_rows
from hitl_django.admin.display.subject_links import SubjectLink
from hitl_django.models import Interrupt, ReviewItem
from hitl_django.models.review import queue_order
from hitl_django.services.reviews import queue_filters

#: Maximum number of rows read. Later rows have no number, and the total isn't counted.
MOST = 200
#: Maximum numbers of adjacent rows: before the interrupt, and in total.
BEFORE, BESIDE = 4, 24
#: Cookie that stores whether the list is shown next to a request. The choice depends on the screen,
#: so it isn't stored with the user.
SPLIT_COOKIE = "hitl_split"


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """Position of an interrupt in the list, number of rows, and links to the neighbors.

    ``number`` is 0 if the interrupt isn't among the rows that were read.
    """

    number: int
    count: str
    previous_url: str
    next_url: str
    neighbours: Sequence[QueueRow]


def read_place(
    request: HttpRequest,
    item: Interrupt,
    shown: Collection[Any],
    url_of: Callable[[Any], str],
    left: Any = None,
) -> QueuePosition | None:
    """Return the position of an interrupt in the list from which its page was opened.

    The list's filters are in the page's URL. ``shown`` are the ids of all interrupts on the page.
    These interrupts don't count as previous or next. ``url_of`` returns the URL of an interrupt's
    page from the interrupt's id. The user is leaving the interrupt with the id ``left``, so the
    list omits it. Returns None if the list contains only interrupts in ``shown``.
    """
    listed = _select_listed(request).values_list("pk", flat=True)[:MOST]
    keys = [key for key in listed if key != left]
    if not {*keys} - {*shown}:
        return None
    at = keys.index(item.pk) if item.pk in keys else -1
    before = [key for key in keys[: max(at, 0)] if key not in shown]
    after = [key for key in keys[at + 1 :] if key not in shown]
    first = max(at - BEFORE, 0)
    return QueuePosition(
        number=at + 1,
        count=localize(len(keys)) + ("+" if len(keys) == MOST else ""),
        previous_url=url_of(before[-1]) if before else "",
        next_url=url_of(after[0]) if after else "",
        neighbours=_read_neighbours(request, item, keys[first : first + BESIDE], url_of),
    )


def shows_list(request: HttpRequest) -> bool:
    """Return whether the page of an interrupt also shows the list.

    The result is true unless the user has hidden the list.
    """
    return request.COOKIES.get(SPLIT_COOKIE) != "0"


def _select_listed(request: HttpRequest) -> QuerySet[Any]:
    filters = ListFilters.read(request)
    rows = filters.select_open(request.user)
    if filters.words:
        rows = rows.filter(get_tab_condition(filters.tab, request.user))
        search = queue_filters.Search.build(rows, filters.words)
        return search.find(search.few[:MOST].count(), MOST).order_by(*queue_order())
    groups = queue_filters.list_group_keys(request.user) if filters.tab == "unclaimed" else ()
    parts = get_tab_parts(filters.tab, request.user, groups, filters.group)
    return queue_filters.read_first(rows, parts, MOST)


def _read_neighbours(
    request: HttpRequest, item: Interrupt, keys: Sequence[Any], url_of: Callable[[Any], str]
) -> list[QueueRow]:
    if not shows_list(request):
        return []
    rows = {row.pk: row for row in select_rows(ReviewItem.objects.filter(pk__in=keys))}
    if item.pk in rows:
        for name in ("claimed_by_id", "claimed_by_label", "claimed_until"):
            # The claim of a page that was rendered in advance isn't stored yet.
            setattr(rows[item.pk], name, getattr(item, name))
    return [
        QueueRow.build(rows[key], request.user, url_of(key), SubjectLink(""), "")
        for key in keys
        if key in rows
    ]
