"""Keyset pagination.

If a row is added or removed between the requests for two pages, the pages neither repeat nor skip
any other row.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet, Subquery
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from hitl_django.conf import hitl

from .invalid_params import InvalidParam
from .problems import InvalidRequest

CURSOR = "cursor"
PAGE_SIZE = "page_size"
PARAMETERS = frozenset({CURSOR, PAGE_SIZE})

_NUMBER = re.compile("[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in a list: just after or just before the row with the primary key ``id``."""

    id: str
    backwards: bool

    def encode(self) -> str:
        text = json.dumps([self.id, self.backwards])
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Cursor:
        """Decode a cursor from the text in a URL.

        Raises:
            ValueError or TypeError: if the text isn't a valid cursor.
        """
        if len(text) > 200:
            raise ValueError(text)
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        row, backwards = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        if not isinstance(row, str) or not row.isascii() or not isinstance(backwards, bool):
            raise TypeError(text)
        return cls(row, backwards)


class KeysetPagination(BasePagination):
    """Pagination that starts a page next to a row, instead of at an offset.

    The queryset must be ordered. The cursor contains only the id of the row. The database reads the
    row, and compares its columns with the columns of other rows. A cursor with a timestamp would
    not work: SQLite compares timestamps as text, and ``.123`` differs from ``.123000``.
    """

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self.request = request
        size = _read_page_size(request)
        fields = queryset.query.order_by
        order = fields
        if fields[-1].removeprefix("-") != "pk":
            order = (*fields, "-pk" if fields[0].startswith("-") else "pk")

        cursor = _read_cursor(request)
        backwards = cursor is not None and cursor.backwards
        if cursor is not None:
            queryset = queryset.filter(_select_beyond(order, _find_row(view, cursor), backwards))
        if backwards:
            order = _reverse(order)

        rows = list(queryset.order_by(*order)[: size + 1])
        more, rows = len(rows) > size, rows[:size]
        if backwards:
            rows.reverse()
        self.has_next = bool(rows) and (backwards or more)
        self.has_previous = bool(rows) and (more if backwards else cursor is not None)
        self.rows = rows
        return rows

    def get_paginated_response(self, data: Any) -> Response:
        following = self._link(self.rows[-1], backwards=False) if self.has_next else None
        previous = self._link(self.rows[0], backwards=True) if self.has_previous else None
        return Response({"next": following, "previous": previous, "results": data})

    def _link(self, row: Model, *, backwards: bool) -> str:
        cursor = Cursor(str(row.pk), backwards).encode()
        return str(replace_query_param(self.request.build_absolute_uri(), CURSOR, cursor))


def _read_page_size(request: Request) -> int:
    text = request.query_params.get(PAGE_SIZE)
    if text is None:
        return int(hitl.PAGE_SIZE)
    if _NUMBER.fullmatch(text) and int(text) <= hitl.MAX_PAGE_SIZE:
        return int(text)
    detail = f"Must be an integer from 1 to {hitl.MAX_PAGE_SIZE}."
    raise InvalidRequest(InvalidParam("invalid", detail, parameter=PAGE_SIZE))


def _read_cursor(request: Request) -> Cursor | None:
    text = request.query_params.get(CURSOR)
    if text is None:
        return None
    try:
        return Cursor.decode(text)
    except (ValueError, TypeError):
        raise _invalid_cursor() from None


def _invalid_cursor() -> InvalidRequest:
    detail = "Invalid cursor. Use the value from `next` or `previous`."
    return InvalidRequest(InvalidParam("invalid", detail, parameter=CURSOR))


def _find_row(view: Any, cursor: Cursor) -> QuerySet[Any]:
    """Return the row of a cursor, among all rows visible to the user.

    The list's filters are not applied. An interrupt that was decided in the meantime therefore
    still marks its position.
    """
    rows: QuerySet[Any] = view.get_queryset().order_by()
    try:
        row = rows.filter(pk=rows.model._meta.pk.to_python(cursor.id))
    except ValidationError:
        raise _invalid_cursor() from None
    if not row.exists():
        detail = "The cursor's position no longer exists. Start again without a cursor."
        raise InvalidRequest(InvalidParam("gone", detail, parameter=CURSOR))
    return row


def _select_beyond(order: Sequence[Any], row: QuerySet[Any], backwards: bool) -> Q:
    """Return a condition for all rows after ``row`` in ``order``.

    If ``backwards`` is true, the condition is for all rows before ``row``. Rows are compared field
    by field.
    """
    beyond, tied, bound = Q(), Q(), Q()
    for term in order:
        name = term.removeprefix("-")
        edge = Subquery(row.values(name)[:1])
        side = "lt" if term.startswith("-") != backwards else "gt"
        # This condition is redundant, but lets the database begin its index scan at the row instead
        # of at the start of the index.
        bound = bound or Q(**{f"{name}__{side}e": edge})
        beyond |= tied & Q(**{f"{name}__{side}": edge})
        tied &= Q(**{name: edge})
    return bound & beyond


def _reverse(order: Sequence[Any]) -> tuple[str, ...]:
    return tuple(term.removeprefix("-") if term.startswith("-") else f"-{term}" for term in order)
