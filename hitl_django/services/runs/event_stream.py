"""Events of a run: stored events, and new events as soon as they are stored."""

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

PAGE = 100
#: A number larger than any event number.
LAST = 2**31 - 1
#: Kinds of events that contain channel values. A custom event contains only the data that its node
#: sends to clients.
OF_STATE = frozenset(MODES) - {"custom"}

_RUN = Parameter("run", models.UUIDField())


def _select_news(over: tuple[str, ...]) -> models.QuerySet[Run, Any]:
    after = Parameter("after", models.PositiveIntegerField())
    later = RunEvent.objects.order_by().filter(run=_RUN, seq__gt=after)
    # A run can come to rest without an event: the run may store no events, or an undo may have left
    # the run interrupted.
    news = models.ExpressionWrapper(
        models.Q(models.Exists(later)) | Run.match_at_rest(over), output_field=models.BooleanField()
    )
    return Run.objects.order_by().filter(pk=_RUN).annotate(news=news).values_list("news")


#: Return whether there are new events to read. No row means that the run was deleted.
_NEWS = {over: PreparedSelect(partial(_select_news, over)) for over in (Run.ENDED, Run.AT_REST)}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventInfo:
    """An event of a run.

    Attributes:
        seq: the number of the event, from 1.
        kind: a state of the run, or a stream mode.
        namespace: the path of the subgraph, or empty for the run's own graph.
        data: the data, or None if ``withheld``.
        truncated: whether the data was shortened because of its size.
        withheld: whether the data is hidden because the user may not view the state.
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
    """Events in order, with the state that the run had when the events were read.

    Attributes:
        last: the number to pass as ``after`` for the next page.
        ended: whether the run has ended and has no events after this page.
    """

    events: tuple[EventInfo, ...]
    last: int
    state: str
    ended: bool


def run_events(
    run_id: UUID | str, *, after: int = 0, limit: int = PAGE, by: Any = None
) -> EventPage:
    """Return the events of a run after the number ``after``, at most ``limit``.

    Raises:
        RunNotFound: if the user may not see the run.
        EventsPrunedError: if events after that number have been deleted.
    """
    return EventReader(run_id, by=by).read(after, limit)


def follow(run_id: UUID | str, *, after: int = 0, by: Any = None) -> Iterator[EventInfo]:
    """Yield the events of a run as soon as they are stored, until the run ends.

    Only events with numbers greater than ``after`` are yielded. The iteration also waits while the
    run is interrupted or parked.
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
    """Reader of a run's events for one user.

    The permission is checked once. A page has ``ended`` set if the run has ended. With ``to_rest``,
    ``ended`` is also set if the run is at rest, i.e. if it is parked or interrupted and doesn't
    resume soon with a decision.
    """

    def __init__(self, run_id: UUID | str, *, by: Any = None, to_rest: bool = False) -> None:
        self.using = write_alias()
        self.over = Run.AT_REST if to_rest else Run.ENDED
        runs = Run.objects.using(self.using).select_related("thread")
        run = find_row(select_visible(runs, by), RunNotFound, pk=run_id)
        self.run_id = run.pk
        sees_state = by is None or get_policy().may_view_state(by, run.thread)
        self.hides = frozenset[str]() if sees_state else OF_STATE
        self.interrupts = ShownInterrupts(run.thread_id, by)

    def has_news(self, after: int) -> bool:
        """Return whether there are events after the number ``after``, or the run was deleted."""
        found = _NEWS[self.over].run(self.using, run=self.run_id, after=after)
        return not found or bool(found[0][0])

    def is_over(self) -> bool:
        """Return whether a page that contains the last event would have ``ended`` set.

        The result is also true if the run was deleted.
        """
        return self.has_news(LAST)

    def find_last_resume(self) -> int:
        """Return the number of the last event before the run last resumed.

        This event is a pause or an end of the run. The number is 0 if the run hasn't resumed yet.
        """
        events = RunEvent.objects.using(self.using).filter(run=self.run_id, kind__in=Run.AT_REST)
        pauses = list(events.order_by("-seq").values_list("seq", flat=True)[:2])
        run = find_row(Run.objects.using(self.using), RunNotFound, pk=self.run_id)
        # The run is at rest now, so look for the pause before this one.
        if run.is_at_rest:
            pauses = pauses[1:]
        return pauses[0] if pauses else 0

    def find_last(self, kind: str, before: int) -> EventInfo | None:
        """Return the run's last event of this kind with a number less than ``before``, or None.

        Events of subgraphs are ignored.
        """
        rows = RunEvent.objects.using(self.using).filter(
            run=self.run_id, kind=kind, ns="", seq__lt=before
        )
        found = self._show(rows.order_by("-seq")[:1])
        return found[0] if found else None

    def read(self, after: int, limit: int = PAGE) -> EventPage:
        """Return up to ``limit`` stored events with numbers greater than ``after``.

        This takes two queries, or three if interrupts may be hidden.
        """
        # Read the run before the events, so that all events that its row counts exist when they are
        # read. If the run was at rest, later events are left for the next call. The row of a
        # running run doesn't count all stored events, but the events are read nevertheless.
        runs = Run.objects.using(self.using).only(
            "state", "resumes_at", "first_event", "last_event"
        )
        run = find_row(runs, RunNotFound, pk=self.run_id)
        if after + 1 < run.first_event:
            raise EventsPrunedError(run.last_event)
        is_over = run.is_at_rest and run.state in self.over
        new = {"seq__gt": after, **({"seq__lte": run.last_event} if is_over else {})}
        rows = RunEvent.objects.using(self.using).filter(run=self.run_id, **new)
        events = self._show(rows.order_by("seq")[:limit])
        if events and events[0].seq != after + 1:  # Events in between have been deleted.
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
