"""The questions of a page: what each asks, and the sheet that answers it.

A run may ask several things at once. They stand side by side, each with its own form, and each is
answered on its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from hitl_django.models import Decision, Interrupt, ReviewItem
from hitl_django.policy import get_policy

from .facts import Fact, facts_of, is_its_own_title, raw, told_elsewhere, why_of
from .leads import then_of
from .readonly import ago, visible_interrupts
from .sheet import Sheet

#: More open questions of a thread than this are not shown on one page.
MAX_BESIDE = 20


@dataclass(frozen=True)
class Asked:
    """One question as the page shows it; without a sheet it is only to be looked at."""

    item: Interrupt
    url: str
    sheet: Sheet | None
    why: str
    facts: Sequence[Fact]
    raw: Fact
    ago: str
    then: str = ""
    refused: Decision | None = None

    @property
    def id(self) -> str:
        """Names the question among the page's elements."""
        return f"q{self.item.pk.hex}"

    @classmethod
    def of(
        cls,
        item: Interrupt,
        url: str,
        *,
        sheet: Sheet | None = None,
        refused: Decision | None = None,
    ) -> Asked:
        skip = told_elsewhere(item.payload, item.title)
        if sheet is not None:
            skip += sheet.shown_in_form()
        return cls(
            item=item,
            url=url,
            sheet=sheet,
            why=why_of(item.payload),
            facts=(
                []
                if is_its_own_title(item.payload, item.title)
                else facts_of(item.payload, skip=skip)
            ),
            raw=raw(item.payload),
            ago=ago(item.created_at),
            then="" if sheet is None else then_of(item),
            refused=refused,
        )


def asked_together(request: HttpRequest, sheet: Sheet, url_of: Any) -> Iterator[Asked]:
    """Yields the question of a page, and after it the others that its thread asks just now."""
    others = beside(request, sheet.item)
    refusals = _refusals([sheet.item, *others])
    for one in (sheet, *map(Sheet, others)):
        may = get_policy().may_decide(request.user, one.item)
        yield Asked.of(
            one.item,
            url_of(one.item),
            sheet=one if may else None,
            refused=refusals.get((one.item.pk, one.item.version - 2)),
        )


def beside(request: HttpRequest, item: Interrupt) -> list[Interrupt]:
    """Returns the open questions of the same thread that the user may see as well."""
    rows = ReviewItem.pending.filter(thread=item.thread_id).exclude(pk=item.pk)
    rows = visible_interrupts(request, rows).select_related("run", "thread")
    return list(rows.order_by("created_at", "index", "id")[:MAX_BESIDE])


def _refusals(items: Sequence[Interrupt]) -> dict[tuple[Any, int], Decision]:
    """Finds the decisions whose answer didn't fit, by question and version."""
    reopened = [item.pk for item in items if item.version > 2]
    if not reopened:
        return {}
    found = Decision.objects.filter(interrupt__in=reopened, effective=True).exclude(refusal="")
    return {(one.interrupt_id, one.version): one for one in found.defer("value")}
