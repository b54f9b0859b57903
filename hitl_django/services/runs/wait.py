"""start_and_wait: a start that returns once the run has ended or asks people."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.errors import RunNotFound, RunTimeoutError
from hitl_django.models import Run
from hitl_django.permissions import find_row

from ..results import RunInfo
from .event_stream import AT_REST
from .start import start


def start_and_wait(
    graph: str,
    input: Any,  # noqa: A002  (the engine's word)
    *,
    timeout: float,
    **options: Any,
) -> RunInfo:
    """Start a run as ``start`` does, and return it once it has ended, asks people or is parked.

    ``timeout`` is in seconds. When they are over, it is a RunTimeoutError with the run's id; the
    run goes on. A worker does the run, and it sees what was committed: within a transaction it is
    a RuntimeError, and nothing was started.
    """
    _refuse_in_transaction()
    ends = time.monotonic() + timeout
    run = start(graph, input, **options)
    while (rested := _find_rested(run)) is None:
        time.sleep(_measure_pause(run, ends))
    return rested


async def astart_and_wait(
    graph: str,
    input: Any,  # noqa: A002
    *,
    timeout: float,
    **options: Any,
) -> RunInfo:
    """Like start_and_wait; the event loop goes on meanwhile."""
    await sync_to_async(_refuse_in_transaction)()
    ends = time.monotonic() + timeout
    run = await sync_to_async(start)(graph, input, **options)
    while (rested := await sync_to_async(_find_rested)(run)) is None:
        await asyncio.sleep(_measure_pause(run, ends))
    return rested


def _refuse_in_transaction() -> None:
    """Raise RuntimeError where no worker would ever see the run.

    A TestCase's own transaction counts as none, as Django has it.
    """
    try:
        with transaction.atomic(using=write_alias(), durable=True):
            pass
    except RuntimeError:
        raise RuntimeError(
            "Can't wait for a run inside a transaction: workers don't see it before the commit."
        ) from None


def _find_rested(run: RunInfo) -> RunInfo | None:
    """Return a run as it is now, if nothing comes of it by itself any more."""
    row = find_row(
        Run.objects.using(write_alias()).select_related("thread"), RunNotFound, pk=run.id
    )
    return RunInfo.from_row(row, created=run.created) if row.state in AT_REST else None


def _measure_pause(run: RunInfo, ends: float) -> float:
    """Return for how long to wait before the next look; raises where the time is over."""
    left = ends - time.monotonic()
    if left <= 0:
        raise RunTimeoutError(run.id)
    return min(left, hitl.EVENT_POLL_SECONDS)
