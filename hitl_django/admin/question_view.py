"""The questions of a page: what each asks, and the sheet that answers it.

A run may ask several things at once. They stand side by side, each with its own form, and each is
answered on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.utils.functional import cached_property

from hitl_django.answers import DIALECTS
from hitl_django.forms.json_input import visible
from hitl_django.models import Comment, Decision, Interrupt, ReviewItem
from hitl_django.permissions import get_policy
from hitl_django.services.reviews.quorum import is_own

from .answer_forms import Sheet
from .base import ago, visible_interrupts
from .decision_texts import then_of
from .payload_display import (
    MAX_TEXT,
    Fact,
    action_facts,
    facts_of,
    is_its_own_title,
    raw,
    told_elsewhere,
    why_of,
)
from .question_status import Standing, standing_of
from .queue_actions import Forms, groups_to_choose
from .quorum_display import Agreement, agreement_of, votes_on

#: More open questions of a thread than this are not shown on one page.
MAX_BESIDE = 20
MAX_COMMENTS = 100


@dataclass(frozen=True)
class Asked:
    """One question as the page shows it; without a sheet it is only to be looked at."""

    item: Interrupt
    url: str
    handling_url: str
    why: str
    facts: Sequence[Fact]
    raw: Fact
    ago: str
    standing: Standing
    forms: Forms
    agreement: Agreement
    comments: Sequence[Comment] = ()
    sheet: Sheet | None = None
    then: str = ""
    refused: Decision | None = None

    @property
    def id(self) -> str:
        """Names the question among the page's elements."""
        return f"q{self.item.pk.hex}"


class Page:
    """What a page of one or several questions reads of the database, each once for all of them.

    ``url_of(page, item)`` is the address of one of a question's pages; ``forms`` are those of one
    that came back because something has to be put right.
    """

    def __init__(
        self,
        request: HttpRequest,
        items: Sequence[Interrupt],
        url_of: Callable[[str, Interrupt], str],
        forms: dict[Any, Forms] | None = None,
    ) -> None:
        self.user, self.url_of, self.forms = request.user, url_of, forms or {}
        self.refusals = _refusals(items)
        self.comments = _comments(items)
        self.votes = votes_on(items)
        #: The runs that it was asked of, whether they are the user's own.
        self.own: dict[Any, bool] = {}

    @cached_property
    def groups(self) -> list[tuple[Any, str]]:
        return groups_to_choose()

    def asked(self, item: Interrupt, sheet: Sheet | None = None) -> Asked:
        """Returns a question; ``sheet`` is kept from who may not decide it."""
        if sheet is not None and not get_policy().may_decide(self.user, item):
            sheet = None
        standing = standing_of(item, self.user)
        votes = self.votes.get(item.pk, ())
        agreement = agreement_of(item, votes, self.user, own=self._is_own(item))
        if sheet is not None:
            sheet.barred = agreement.barred
            unclaimed = item.claim_required and not standing.is_mine
            sheet.is_shut = agreement.is_own or unclaimed
        return Asked(
            item=item,
            url=self.url_of("change", item),
            handling_url=self.url_of("handling", item),
            why=why_asked(item, sheet),
            facts=facts_asked(item, sheet),
            raw=raw(item.payload),
            ago=ago(item.created_at),
            standing=standing,
            forms=self._forms(item, standing),
            comments=self.comments.get(item.pk, ()),
            sheet=sheet,
            then="" if sheet is None else then_of(item),
            agreement=agreement,
            refused=self.refusals.get((item.pk, item.refused_version)),
        )

    def _is_own(self, item: Interrupt) -> bool:
        if not item.no_self_approval:
            return False
        if item.run_id not in self.own:
            self.own[item.run_id] = is_own(item, self.user)
        return self.own[item.run_id]

    def _forms(self, item: Interrupt, standing: Standing) -> Forms:
        if item.pk in self.forms:
            return self.forms[item.pk]
        return Forms.of(item, groups=self.groups if standing.may_assign else ())


def why_asked(item: Interrupt, sheet: Sheet | None) -> str:
    """Returns why somebody is asked, unless each action of it says so for itself."""
    if sheet is not None and sheet.actions and not sheet.is_shut:
        return ""  # each action has its own
    return visible(item.why[:MAX_TEXT]) or why_of(item.payload)


def facts_asked(item: Interrupt, sheet: Sheet | None) -> list[Fact]:
    """Returns what is asked, in the shape in which it is asked."""
    if DIALECTS[item.dialect].requests_actions:
        # Decided one by one, they stand with their decisions.
        one_by_one = sheet is not None and sheet.actions and not sheet.is_shut
        return [] if one_by_one else action_facts(item)
    if is_its_own_title(item.payload, item.title):
        return []
    skip = told_elsewhere(item.payload, item.title)
    return facts_of(item.payload, skip=[*skip, *(sheet.shown_in_form() if sheet else ())])


def beside(request: HttpRequest, item: Interrupt) -> list[Interrupt]:
    """Returns the open questions of the same thread that the user may see as well."""
    rows = ReviewItem.pending.filter(thread=item.thread_id).exclude(pk=item.pk)
    rows = visible_interrupts(request, rows).select_related("run", "thread", "assignee")
    return list(rows.order_by("created_at", "index", "id")[:MAX_BESIDE])


def _refusals(items: Sequence[Interrupt]) -> dict[tuple[Any, int | None], Decision]:
    """Finds the decisions whose answer didn't fit, by question and version."""
    open_ = [item for item in items if item.status == Interrupt.Status.PENDING]
    reopened = [item.pk for item in open_ if item.refused_version is not None]
    if not reopened:
        return {}
    found = Decision.objects.filter(interrupt__in=reopened, effective=True).exclude(refusal="")
    return {(one.interrupt_id, one.version): one for one in found.defer("value")}


def _comments(items: Sequence[Interrupt]) -> dict[Any, list[Comment]]:
    """Returns the last comments on the questions, the oldest first."""
    rows = Comment.objects.filter(interrupt__in=[item.pk for item in items])
    found: dict[Any, list[Comment]] = {}
    for comment in reversed(rows.order_by("-created_at", "-id")[:MAX_COMMENTS]):
        found.setdefault(comment.interrupt_id, []).append(comment)
    return found
