"""CSV downloads, which are streamed and safe to open in spreadsheets."""

from __future__ import annotations

import csv
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from io import StringIO
from itertools import islice
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

from hitl_django.db.clock import to_utc

#: Characters with which a formula may begin, possibly after spaces.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
#: Excel reads a file as UTF-8 only if it begins with this mark.
BYTE_ORDER_MARK = "\ufeff"
#: Number of rows per chunk of the response.
TOGETHER = 100


def stream_csv(
    request: HttpRequest, name: str, head: Sequence[str], rows: Iterable[Sequence[Any]]
) -> StreamingHttpResponse:
    """Return a streaming CSV response.

    ``name`` is the name of the file, and ``head`` the first row.
    """
    parts = _write(head, rows)
    on_loop = isinstance(request, ASGIRequest)
    response = StreamingHttpResponse(
        _iterate_on_loop(parts) if on_loop else parts, content_type="text/csv; charset=utf-8"
    )
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "no-store"
    return response


def format_cell(value: Any) -> str:
    """Return the text of a cell.

    Text that a spreadsheet would execute as a formula gets a leading apostrophe. Numbers don't
    change.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, datetime):
        return to_utc(value).isoformat()
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping) else str(value)
    return f"'{text}" if text.lstrip(" \u00a0\u3000").startswith(FORMULA) else text


def _write(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    left = iter(rows)
    yield BYTE_ORDER_MARK + _write_lines([head])
    while together := [*islice(left, TOGETHER)]:
        yield _write_lines([format_cell(value) for value in row] for row in together)


def _write_lines(rows: Iterable[Sequence[str]]) -> str:
    lines = StringIO(newline="")
    csv.writer(lines).writerows(rows)
    return lines.getvalue()


async def _iterate_on_loop(parts: Iterator[str]) -> AsyncIterator[str]:
    take = sync_to_async(partial(next, parts, None))
    while (part := await take()) is not None:
        yield part
