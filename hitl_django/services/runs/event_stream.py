"""run_events and follow: the events of a run, those that are stored and those yet to come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import models

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.prepared_query import Parameter, PreparedSelect
from hitl_django.errors import EventsPrunedError, RunNotFound
from hitl_django.models import Run, RunEvent
from hitl_django.models.events import MODES
from hitl_django.permissions import find_row, get_policy, select_visible

from .shown_interrupts import ShownInterrupts, list_interrupt_ids

#: The states in which nothing comes of a run by itself: people have to do something about some.
AT_REST = (*Run.ENDED, Run.State.INTERRUPTED, Run.State.PARKED)
PAGE = 100
#: Behind every number that an event can have.
LAST = 2**31 - 1
#: Kinds that show what channels hold. A custom event shows what its node says to whom it concerns.
OF_STATE = frozenset(MODES) - {"custom"}

_RUN = Parameter("run", models.UUIDField())


def _news(over: tuple[str, ...]) -> models.QuerySet[Run, Any]:
    after = Parameter("after", models.PositiveIntegerField())
    later = RunEvent.objects.order_by().filter(run=_RUN, seq__gt=after)
    # That a run is at rest need not be an event: one that records none comes to its end, and one
    # that was to go on stays, since the decision was undone.
    through = models.Q(state__in=over, resumes_at=None)
    news = models.ExpressionWrapper(
        models.Q(models.Exists(later)) | through, output_field=models.BooleanField()
    )
    return Run.objects.order_by().filter(pk=_RUN).annotate(news=news).values_list("news")


#: Tells whether there is something to read; without a row the run is gone.
_NEWS = {over: PreparedSelect(partial(_news, over)) for over in (Run.ENDED, AT_REST)}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventInfo:
    """One thing that became of a run; ``data`` is None where it is ``withheld``.

    ``namespace`` leads to the subgraph that it is about; empty: it is the run's own graph.
    """

    seq: int
    kind: str
    namespace: tuple[str, ...]
    data: Any
    truncated: bool
    withheld: bool
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Events in order, and the run's state when they were read.

    ``last`` is what to ask for those ``after``; with ``ended`` there are no more.
    """

    events: tuple[EventInfo, ...]
    last: int
    state: str
    ended: bool


def run_events(
    run_id: UUID | str, *, after: int = 0, limit: int = PAGE, by: Any = None
) -> EventPage:
    """Return the events of a run after the number ``after``, ``limit`` of them at most.

    RunNotFound for a run that the user may not see; EventsPrunedError where events after that
    number were deleted.
    """
    return EventReader(run_id, by=by).read(after, limit)


def follow(run_id: UUID | str, *, after: int = 0, by: Any = None) -> Iterator[EventInfo]:
    """Yield the events of a run as they come, until it has ended.

    A run that waits for a person, or is parked, is waited for.
    """
    reader = EventReader(run_id, by=by)
    while True:
        page = reader.read(after)
        yield from page.events
        after = page.last
        if page.ended:
            return
        while not reader.has_news(after):
            time.sleep(hitl.EVENT_POLL_SECONDS)


async def afollow(
    run_id: UUID | str, *, after: int = 0, by: Any = None
) -> AsyncIterator[EventInfo]:
    """Like follow."""
    reader = await sync_to_async(EventReader)(run_id, by=by)
    while True:
        page = await sync_to_async(reader.read)(after)
        for event in page.events:
            yield event
        after = page.last
        if page.ended:
            return
        while not await sync_to_async(reader.has_news)(after):
            await asyncio.sleep(hitl.EVENT_POLL_SECONDS)


class EventReader:
    """Reads a run for somebody who may see it, which is asked once.

    A page is ``ended`` where the run has; with ``to_rest`` also where it waits for a person, and
    not only for the time to be up in which a decision can be undone.
    """

    def __init__(self, run_id: UUID | str, *, by: Any = None, to_rest: bool = False) -> None:
        self.using = write_alias()
        self.over = AT_REST if to_rest else Run.ENDED
        runs = Run.objects.using(self.using).select_related("thread")
        run = find_row(select_visible(runs, by), RunNotFound, pk=run_id)
        self.run_id = run.pk
        sees_state = by is None or get_policy().may_view_state(by, run.thread)
        self.hides = frozenset[str]() if sees_state else OF_STATE
        self.interrupts = ShownInterrupts(run.thread_id, by)

    def has_news(self, after: int) -> bool:
        """Return whether it is time to read again, if only to learn that the run is gone."""
        found = _NEWS[self.over].run(self.using, run=self.run_id, after=after)
        return not found or bool(found[0][0])

    def is_over(self) -> bool:
        """Return whether a page of its last event would be ``ended``, or the run is gone."""
        return self.has_news(LAST)

    def find_last_resume(self) -> int:
        """Return the number of the event behind which the run last went on; 0: from its start."""
        events = RunEvent.objects.using(self.using).filter(run=self.run_id, kind__in=AT_REST)
        pauses = list(events.order_by("-seq").values_list("seq", flat=True)[:2])
        run = find_row(Run.objects.using(self.using), RunNotFound, pk=self.run_id)
        if run.state in AT_REST and run.resumes_at is None:  # behind the pause before that
            pauses = pauses[1:]
        return pauses[0] if pauses else 0

    def find_last(self, kind: str, before: int) -> EventInfo | None:
        """Return the last event of a kind before a number, of the run's own graph."""
        rows = RunEvent.objects.using(self.using).filter(
            run=self.run_id, kind=kind, ns="", seq__lt=before
        )
        found = self._show(rows.order_by("-seq")[:1])
        return found[0] if found else None

    def read(self, after: int, limit: int = PAGE) -> EventPage:
        """Return the events that are stored by now: two queries, or three where interrupts may
        be hidden.
        """
        # The run comes first: what it says of its events is there when they are read. Where it was
        # over, what has come since is left for the next time, since it isn't over any more. While
        # it goes on its row doesn't count what is stored, which is read all the same.
        runs = Run.objects.using(self.using).only(
            "state", "resumes_at", "first_event", "last_event"
        )
        run = find_row(runs, RunNotFound, pk=self.run_id)
        if after + 1 < run.first_event:
            raise EventsPrunedError(run.last_event)
        is_over = run.state in self.over and run.resumes_at is None
        new = {"seq__gt": after, **({"seq__lte": run.last_event} if is_over else {})}
        rows = RunEvent.objects.using(self.using).filter(run=self.run_id, **new)
        events = self._show(rows.order_by("seq")[:limit])
        if events and events[0].seq != after + 1:  # deleted since
            raise EventsPrunedError(run.last_event)
        last = events[-1].seq if events else after
        ended = is_over and last >= run.last_event
        return EventPage(events=events, last=last, state=str(run.state), ended=ended)

    def _show(self, rows: Iterable[RunEvent]) -> tuple[EventInfo, ...]:
        found = [*rows]
        if not self.interrupts.are_all:
            shown = [event for event in found if event.kind not in self.hides]
            ids = (list_interrupt_ids(event.kind, event.data) for event in shown)
            self.interrupts.look_up(chain.from_iterable(ids))
        return tuple(map(self._build_info, found))

    def _build_info(self, event: RunEvent) -> EventInfo:
        withheld = event.kind in self.hides
        return EventInfo(
            seq=event.seq,
            kind=event.kind,
            namespace=tuple(event.ns.split("|")) if event.ns else (),
            data=None if withheld else self.interrupts.hide_in_event(event.kind, event.data),
            truncated=event.truncated,
            withheld=withheld,
            created_at=event.created_at,
        )
