"""Attempts of due deliveries, and their results."""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F

from hitl_django.conf import hitl
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.models.functions import Now
from hitl_django.task_queue import dispatcher

from . import channels, claims, outbox, tasks
from .channels import AttemptResult
from .claims import Claim
from .models import Delivery, WebhookEndpoint

logger = logging.getLogger("hitl_django")

#: Maximum number of seconds of one task. Afterwards, the worker can execute runs again.
SLICE = 20.0
#: Seconds before the second attempt of a delivery, factor for each further attempt, and maximum
#: number of seconds. Twelve attempts take a day and a half.
FIRST, FACTOR, LONGEST = 10.0, 3, 6 * 3600.0
#: First and longest pause of a failing endpoint in seconds. Each pause is twice as long as the one
#: before.
REST, LONGEST_REST = 5.0, 300.0
FAULT_LENGTH = 255
#: Response statuses that concern all deliveries to the receiver, not only this one.
UNWELL = frozenset({408, 425, 429})
GONE = 410
NO_CHANGES: Mapping[str, Any] = {}


def deliver(endpoint_id: str) -> None:
    """Send the due deliveries of an endpoint, oldest first.

    The function ends when no delivery is due, or when the task's time slice is over. It does
    nothing if another worker has the lease, or if the endpoint is paused. Errors are logged and not
    raised. A delivery whose result could not be stored is due again after its claim expires.
    """
    try:
        endpoint = claims.claim_endpoint(UUID(str(endpoint_id)))
        while endpoint is not None:
            if not _send_all(endpoint, monotonic() + _slice()):
                return
            # A worker that received a message in the meantime found the endpoint leased and
            # stopped.
            again = claims.select_due(endpoint).exists()
            endpoint = claims.claim_endpoint(endpoint.pk) if again else None
    except Exception:
        logger.exception("webhook %s: could not process deliveries", endpoint_id)


def _send_all(endpoint: WebhookEndpoint, until: float) -> bool:
    """Send due deliveries until the time ``until``, and release the lease on the endpoint.

    Return True if the caller must check for due deliveries again. Another worker may have received
    a message about a new delivery just before the release, and stopped because the endpoint was
    leased.
    """
    while (claim := claims.claim_next(endpoint)) is not None:
        answer = _attempt(claim, endpoint)
        if not _settle(claim, endpoint, answer):
            return False
        if monotonic() >= until:
            claims.release_endpoint(endpoint)
            batch = WriteBatch(write_alias())
            tasks.enqueue_delivery(endpoint.pk, batch)
            batch.run()
            return False
    claims.release_endpoint(endpoint)
    return True


def _attempt(claim: Claim, endpoint: WebhookEndpoint) -> AttemptResult | None:
    """Attempt to send a delivery once.

    Return None if the maximum number of attempts has been reached.
    """
    if claim.attempt > hitl.WEBHOOK_ATTEMPTS:
        return None
    channel = channels.find_channel(endpoint.channel)
    if channel is None:
        return AttemptResult(fault="The app that provides this channel is not installed.")
    return channel.send(claim.delivery, endpoint, claim.deadline)


def _settle(claim: Claim, endpoint: WebhookEndpoint, answer: AttemptResult | None) -> bool:
    """Store the result of an attempt. Return whether to continue with the next delivery.

    ``answer`` is None if the last allowed attempt has no result, because its worker died.
    """
    if answer is None:
        fault = "The worker died during the last attempt."
        _end(claim, endpoint, state=Delivery.State.DEAD, attempts=F("attempts") - 1, fault=fault)
        return True
    status = answer.status
    if answer.ends is not None:
        _end(claim, endpoint, state=answer.ends, status=status, fault=answer.fault[:FAULT_LENGTH])
        return True
    if status is not None and 200 <= status < 300:
        well = {"failures": 0, "paused_until": None} if endpoint.failures else {}
        _end(claim, endpoint, well, state=Delivery.State.DELIVERED, status=status, fault="")
        endpoint.failures = 0
        return True
    logger.info("delivery %s: attempt %s failed (%s)", claim.delivery.pk, claim.attempt, status)
    if status == GONE:
        _stop(claim, endpoint)
        return False
    return _put_off(claim, endpoint, answer)


def _put_off(claim: Claim, endpoint: WebhookEndpoint, answer: AttemptResult) -> bool:
    asked = _retry_after(answer.retry_after)
    goes_on = answer.status is not None and answer.status < 500 and answer.status not in UNWELL
    resting: dict[str, Any] = {}
    if not goes_on:
        # Trying the other deliveries now would only block this worker.
        rest = max(_jittered(_growing(REST, 2, endpoint.failures + 1, LONGEST_REST)), asked)
        until = Now() + timedelta(seconds=rest)
        resting = {"lease_until": None, "failures": F("failures") + 1, "paused_until": until}
    noted: dict[str, Any] = {"status": answer.status, "fault": _fault_of(answer)}
    if claim.attempt >= hitl.WEBHOOK_ATTEMPTS:
        _end(claim, endpoint, resting, state=Delivery.State.DEAD, **noted)
    else:
        wait = max(_jittered(_growing(FIRST, FACTOR, claim.attempt, LONGEST)), asked)
        _store(claim, endpoint, resting, due_at=Now() + timedelta(seconds=wait), **noted)
    return goes_on


def _stop(claim: Claim, endpoint: WebhookEndpoint) -> None:
    """Deactivate an endpoint that has responded with the status 410 (Gone)."""
    stopped = "The receiver returned 410 Gone."
    off = {"lease_until": None, "is_active": False, "stopped": stopped}
    _end(claim, endpoint, off, state=Delivery.State.DEAD, status=GONE, fault=stopped)
    outbox.clear_listeners()
    logger.warning("webhook %s disabled: it returned 410 Gone", endpoint.pk)


def _end(
    claim: Claim, endpoint: WebhookEndpoint, changes: Mapping[str, Any] = NO_CHANGES, **noted: Any
) -> None:
    _store(claim, endpoint, changes, finished_at=Now(), **noted)


@retry_on_conflict
def _store(
    claim: Claim, endpoint: WebhookEndpoint, changes: Mapping[str, Any], **noted: Any
) -> None:
    with transaction.atomic(using=write_alias()):
        claim.row().update(**noted)
        if changes:
            claims.select_claimed(endpoint).update(**changes)


def _fault_of(answer: AttemptResult) -> str:
    if answer.fault:
        return answer.fault[:FAULT_LENGTH]
    if answer.status is not None and 300 <= answer.status < 400:
        return f"The receiver returned {answer.status}. Redirects are not followed."
    return f"The receiver returned {answer.status}."


def _growing(first: float, factor: int, count: int, most: float) -> float:
    return min(first * factor ** min(count - 1, 30), most)


def _jittered(seconds: float) -> float:
    # Vary the delay, so that deliveries that failed together aren't retried together.
    return seconds * random.uniform(0.75, 1.25)


def _retry_after(header: str) -> float:
    """Return the delay in seconds that the receiver requests, up to a limit.

    Without a valid header, the delay is 0.
    """
    try:
        seconds = float(min(int(header), LONGEST))
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError, IndexError, OverflowError):
            return 0.0
    return min(max(seconds, 0.0), LONGEST)


def _slice() -> float:
    given = dispatcher.get_time_slice()
    return SLICE if given is None else min(SLICE, given)
