"""Selections of a bulk operation: checked rows, or all rows that match the list's filters.

Large selections are processed in batches. After each batch, a page shows the progress. A form on
this page contains the rest of the selection and the results so far, so nothing is stored on the
server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from hitl_django.admin.display.bulk_buttons import ListedInterrupt
from hitl_django.admin.display.list_filters import ListFilters
from hitl_django.forms.json_input import escape_hidden
from hitl_django.models.review import queue_order
from hitl_django.services.reviews.queue_stats import CAP

#: Maximum number of selected rows, equal to the maximum that the list counts.
MAX_SELECTED = CAP
#: Number of rows that one request processes, equal to the page size of the list.
BATCH = 50
#: Maximum number of rows whose values are separate form fields. Django limits the number of fields.
MAX_FIELDS = 200

#: Form fields: all matching rows instead of ticked rows, further rows separated by spaces, and the
#: number and the results of rows that earlier batches have processed.
ALL, REST, DONE, RESULTS = "all", "items", "done", "results"


def read_selection(request: HttpRequest) -> list[ListedInterrupt]:
    """Return the selected interrupts without duplicates, in the submitted order.

    If the user has selected all rows that match the list's filters, the interrupts are returned in
    their current versions, in the order of the queue.
    """
    if request.POST.get(ALL):
        rows = ListFilters.read(request).select_listed(request.user).order_by(*queue_order())
        found = rows.values_list("pk", "version", "payload_digest")[:MAX_SELECTED]
        return [ListedInterrupt(*row) for row in found]
    texts = [*request.POST.getlist("item")[:MAX_FIELDS], *request.POST.get(REST, "").split()]
    read = [ListedInterrupt.parse(text) for text in texts[:MAX_SELECTED]]
    return list({choice.pk: choice for choice in read if choice is not None}.values())


@dataclass(frozen=True, slots=True)
class Batch:
    """A part of a selection, processed in one HTTP request, and the results of earlier batches."""

    now: Sequence[ListedInterrupt]
    later: Sequence[ListedInterrupt]
    #: Number of rows that earlier batches have processed.
    done: int
    #: Results of earlier batches, each a list of JSON values.
    results: list[list[str]]

    @classmethod
    def read(cls, request: HttpRequest, choices: Sequence[ListedInterrupt], width: int) -> Batch:
        """Return the next batch. The results of earlier batches are read from the submitted form.

        ``choices`` are the selected interrupts that have not been processed yet. The batch contains
        the first BATCH of them, or none if the user has stopped the operation. Each result is a
        list of ``width`` values.
        """
        done, size = request.POST.get(DONE, ""), 0 if "stop" in request.POST else BATCH
        return cls(
            choices[:size],
            choices[size:] if size else (),
            min(int(done[:9]), MAX_SELECTED) if done.isascii() and done.isdigit() else 0,
            _parse_results(request.POST.get(RESULTS, ""), width),
        )

    def list_fields(
        self, request: HttpRequest, names: Collection[str], results: Sequence[Sequence[Any]]
    ) -> list[tuple[str, str]]:
        """Return the hidden fields of the progress page.

        ``names`` are the names of submitted fields that the next batch needs, too. ``results`` are
        the results so far.
        """
        kept = [(name, text) for name in names for text in request.POST.getlist(name)]
        return [
            *kept,
            (REST, " ".join(choice.value for choice in self.later)),
            (DONE, str(self.done + len(self.now))),
            (RESULTS, json.dumps(results, ensure_ascii=False, default=str)),
        ]


def select_later(
    rows: Sequence[Any], get_value: Callable[[Any], str]
) -> tuple[Sequence[Any], str, int]:
    """Split rows into the first rows and the later rows. Each first row has a separate form field.

    Returns the first rows, the values of the later rows separated by spaces, and the number of
    later rows.
    """
    others = rows[MAX_FIELDS:]
    return rows[:MAX_FIELDS], " ".join(map(get_value, others)), len(others)


def _parse_results(text: str, width: int) -> list[list[str]]:
    try:
        read = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    if not isinstance(read, list):
        return []
    fits = (one for one in read[:MAX_SELECTED] if isinstance(one, list) and len(one) == width)
    return [[escape_hidden(value) for value in one] for one in fits if _are_texts(one)]


def _are_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)
