"""Search in long lists, such as the lists of runs and decisions.

The search is limited to the newest rows, because the tables have no search index.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.formats import localize
from django.utils.translation import gettext as _

from hitl_django.admin.base import SEARCHED, LinkedChangeList, ReadOnlyAdmin
from hitl_django.services.reviews import queue_filters


class NewestChangeList(LinkedChangeList):
    """Change list that applies the filters to all rows, and the search only to the newest rows."""

    model_admin: RecentRowsSearch
    #: Whether older rows exist that the search didn't cover.
    is_cut_short = False

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        rows = super().get_queryset(request, exclude_parameters)
        text = self.query[:SEARCHED].strip()
        if not text:
            return rows
        # Compare with a limit instead of a list of ids, so that the database scans one range of the
        # column's index.
        column = self.model_admin.newest_by
        seen = queue_filters.SCANNED
        in_order = rows.order_by(f"-{column}").values_list(column, flat=True)
        beyond = next(iter(in_order[seen : seen + 1]), None)
        self.is_cut_short = beyond is not None
        newest = rows if beyond is None else rows.filter(**{f"{column}__gt": beyond})
        return self.model_admin.search(rows, newest, text)


class RecentRowsSearch(ReadOnlyAdmin):
    """Admin whose search is limited to the newest rows, with a note if older rows exist."""

    #: Indexed column that orders the rows by age.
    newest_by: ClassVar[str] = "created_at"

    def search(self, rows: QuerySet[Any], newest: QuerySet[Any], text: str) -> QuerySet[Any]:
        """Return the rows that match ``text``.

        Subclasses implement this method. They should search only the ``newest`` rows, unless an
        index makes the search of all ``rows`` fast.
        """
        raise NotImplementedError

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return queryset, False  # NewestChangeList performs the search.

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return NewestChangeList

    def list_context(self, changes: ChangeList) -> dict[str, Any]:
        if not isinstance(changes, NewestChangeList) or not changes.is_cut_short:
            return {}
        words = _("Searched the newest %(n)s entries only. Filter the list to search the rest.")
        return {"search_limit": words % {"n": localize(queue_filters.SCANNED)}}
