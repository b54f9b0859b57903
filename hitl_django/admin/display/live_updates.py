"""News for an open page: what became of the questions it shows, and what is new in the list.

Its script asks for them (review.js), and again after as many seconds as the answer says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import HttpRequest, JsonResponse, QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from hitl_django.db.clock import to_stored, to_utc
from hitl_django.models import Decision, ReviewItem
from hitl_django.permissions import select_visible

from .refusal_messages import describe_change

#: Parameters: a question that the page shows, as ``<id>.<version>``; and when the page was made.
INTERRUPT, SINCE = "interrupt", "since"
#: As many questions are looked up: those of a page of the list.
MOST_INTERRUPTS = 50
#: A question that a transaction asked before the page was made may be seen only after that.
LEEWAY = timedelta(seconds=5)
#: What a page says to have been made before that isn't looked for.
MOST_AGE = timedelta(days=7)


@dataclass(frozen=True)
class ShownPage:
    """What a page showed when it was made: the versions of its questions, and the moment."""

    versions: dict[UUID, str]
    since: datetime | None

    @classmethod
    def read(cls, request: HttpRequest) -> ShownPage:
        """Read what the address of a page's news says of it."""
        named = request.GET.getlist(INTERRUPT)[:MOST_INTERRUPTS]
        return cls(dict(_parse_versions(named)), _parse_moment(request.GET.get(SINCE, "")))

    def describe_changes(self, user: Any) -> dict[str, str]:
        """Says what became of those of its questions that the user may see and that changed."""
        rows = select_visible(ReviewItem.objects.filter(pk__in=self.versions), user)
        # Read before the decisions: a row that is seen decided has its decision then.
        found = list(rows.only("status", "version", "expiry", "changed_at"))
        made = Decision.objects.filter(interrupt__in=self.versions, effective=True).defer("value")
        decisions = {(one.interrupt_id, one.version + 1): one for one in made}
        changes = {}
        for row in found:
            decision = decisions.get((row.pk, row.version))
            if words := describe_change(row, self.versions[row.pk], decision, user):
                changes[str(row.pk)] = str(words)
        return changes

    def count_new(self, rows: QuerySet[Any], most: int) -> int:
        """Count the questions among ``rows`` that were asked since, at most ``most``."""
        if self.since is None:
            return 0
        new = rows.filter(~Q(pk__in=self.versions), created_at__gt=self.since - LEEWAY)
        return new.order_by("created_at", "id")[:most].count()


def build_updates_url(url: str, items: Iterable[Any]) -> str:
    """Return the address of the news of a page that shows these questions now."""
    address, _, query = url.partition("?")
    shown = QueryDict(query, mutable=True)
    shown.setlist(INTERRUPT, [f"{item.pk}.{item.version}" for item in items])
    shown[SINCE] = timezone.now().isoformat()
    return f"{address}?{shown.urlencode()}"


def respond_with_updates(**news: Any) -> JsonResponse:
    """Answers with news: ``text`` for the page's line, and ``again``, if it is to ask again."""
    response = JsonResponse(news)
    response["Cache-Control"] = "no-store"
    return response


def _parse_moment(text: str) -> datetime | None:
    with suppress(ValueError, OverflowError):
        parsed = parse_datetime(text)
        if parsed is not None:
            moment = to_stored(to_utc(parsed))
            return moment if abs(timezone.now() - moment) < MOST_AGE else None
    return None


def _parse_versions(values: Iterable[str]) -> Iterator[tuple[UUID, str]]:
    for value in values:
        key, _, version = value.partition(".")
        with suppress(ValueError):
            yield UUID(key), version
