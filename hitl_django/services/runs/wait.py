"""Service that starts a run and waits until it stops."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import transaction

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.errors import RunNotFound, RunTimeoutError
from hitl_django.models import Run
from hitl_django.permissions import find_row

from ..results import RunInfo
from .start import start


def start_and_wait(
    graph: str,
    input: Any,  # noqa: A002  (the engine's word)
    *,
    timeout: float,
    **options: Any,
) -> RunInfo:
    """Start a run like ``start``, and wait until the run has ended, is interrupted or is parked.

    ``timeout`` is in seconds.

    Raises:
        RunTimeoutError: after the timeout. The error has the run's id, and the run continues.
        RuntimeError: if called inside a transaction, because a worker sees only committed runs. No
            run is started.
    """
    _refuse_in_transaction()
    ends = _find_end(timeout)
    run = start(graph, input, **options)
    while (rested := _find_at_rest(run)) is None:
        time.sleep(_measure_pause(run.id, ends))
    return rested


async def astart_and_wait(
    graph: str,
    input: Any,  # noqa: A002
    *,
    timeout: float,
    **options: Any,
) -> RunInfo:
    """Start a run and wait for it, like ``start_and_wait``."""
    await sync_to_async(_refuse_in_transaction)()
    ends = _find_end(timeout)
    run = await sync_to_async(start)(graph, input, **options)
    while (rested := await sync_to_async(_find_at_rest)(run)) is None:
        await asyncio.sleep(_measure_pause(run.id, ends))
    return rested


def wait_until_ended(run_id: UUID, timeout: float) -> None:
    """Wait until the run has ended or is parked.

    Raises:
        RunTimeoutError: after ``timeout`` seconds. The error has the run's id.
        RuntimeError: if called inside a transaction, because a worker sees only committed runs.
    """
    _refuse_in_transaction()
    ends = _find_end(timeout)
    over = (*Run.ENDED, Run.State.PARKED)
    runs = Run.objects.using(write_alias())
    while find_row(runs.only("state"), RunNotFound, pk=run_id).state not in over:
        time.sleep(_measure_pause(run_id, ends))


def _find_end(timeout: float) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout must be a number of seconds, not {timeout!r}.")
    return time.monotonic() + timeout


def _refuse_in_transaction() -> None:
    """Raise RuntimeError inside a transaction, because no worker would see the run.

    As in Django, the transaction of a TestCase is ignored.
    """
    try:
        with transaction.atomic(using=write_alias(), durable=True):
            pass
    except RuntimeError:
        raise RuntimeError(
            "Can't wait for a run inside a transaction: workers don't see it before the commit."
        ) from None


def _find_at_rest(run: RunInfo) -> RunInfo | None:
    row = find_row(
        Run.objects.using(write_alias()).select_related("thread"), RunNotFound, pk=run.id
    )
    return RunInfo.from_row(row, created=run.created) if row.is_at_rest else None


def _measure_pause(run_id: UUID, ends: float) -> float:
    """Return the number of seconds to sleep before the next check.

    ``ends`` is a time of ``time.monotonic()``.

    Raises:
        RunTimeoutError: if the time has passed.
    """
    left = ends - time.monotonic()
    if left <= 0:
        raise RunTimeoutError(run_id)
    return min(left, hitl.EVENT_POLL_SECONDS)
