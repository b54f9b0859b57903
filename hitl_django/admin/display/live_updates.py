"""Live updates of an open page: changed interrupts and new rows of the list.

The script review.js requests the updates. The response contains the number of seconds after which
the script repeats the request.
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

#: Parameters: an interrupt on the page as ``<id>.<version>``, and the time the page was rendered.
INTERRUPT, SINCE = "interrupt", "since"
#: Maximum number of interrupts that one request looks up, equal to the page size of the list.
MAX_INTERRUPTS = 50
#: An interrupt created this long before the page was rendered may have been committed afterwards.
MAX_COMMIT_DELAY = timedelta(seconds=5)
#: A page that was rendered earlier is treated as if it had been rendered this long ago.
MAX_AGE = timedelta(days=7)


@dataclass(frozen=True)
class ShownPage:
    """The interrupt versions on an open page, and the time at which the page was rendered."""

    versions: dict[UUID, str]
    since: datetime | None

    @classmethod
    def read(cls, request: HttpRequest) -> ShownPage:
        """Read the shown versions and the rendering time from the URL of an update request."""
        named = request.GET.getlist(INTERRUPT)[:MAX_INTERRUPTS]
        return cls(dict(_parse_versions(named)), _parse_moment(request.GET.get(SINCE, "")))

    def describe_changes(self, user: Any) -> dict[str, str]:
        """Return a text for each interrupt that has changed, by id.

        Interrupts hidden from the user are omitted.
        """
        rows = select_visible(ReviewItem.objects.filter(pk__in=self.versions), user)
        # Read the interrupts before their decisions, so that each decided interrupt has its
        # decision.
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
        """Return the number of rows created after the page was rendered, up to ``most``."""
        if self.since is None:
            return 0
        new = rows.filter(~Q(pk__in=self.versions), created_at__gt=self.since - MAX_COMMIT_DELAY)
        return new.order_by("created_at", "id")[:most].count()


def build_updates_url(url: str, items: Iterable[Any]) -> str:
    """Return the URL from which a page with these interrupts requests updates."""
    address, _, query = url.partition("?")
    shown = QueryDict(query, mutable=True)
    shown.setlist(INTERRUPT, [f"{item.pk}.{item.version}" for item in items])
    shown[SINCE] = timezone.now().isoformat()
    return f"{address}?{shown.urlencode()}"


def respond_with_updates(**updates: Any) -> JsonResponse:
    """Return updates as JSON.

    ``text`` is the new text of the status line. ``again`` is the number of seconds after which the
    script repeats the request.
    """
    response = JsonResponse(updates)
    response["Cache-Control"] = "no-store"
    return response


def _parse_moment(text: str) -> datetime | None:
    with suppress(ValueError, OverflowError):
        parsed = parse_datetime(text)
        if parsed is not None:
            moment = to_stored(to_utc(parsed))
            return moment if abs(timezone.now() - moment) < MAX_AGE else None
    return None


def _parse_versions(values: Iterable[str]) -> Iterator[tuple[UUID, str]]:
    for value in values:
        key, _, version = value.partition(".")
        with suppress(ValueError):
            yield UUID(key), version
