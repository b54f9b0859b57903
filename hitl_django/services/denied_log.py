"""Audit log entries for actions that the permission policy denied."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.db import transaction

from hitl_django import audit, leases
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.errors import NotAllowedError
from hitl_django.models import AuditEntry, Thread
from hitl_django.models.functions import Now
from hitl_django.permissions import check_user

logger = logging.getLogger("hitl_django")

#: Maximum number of "refuse" entries for one user and thread within this time. Further denials are
#: written only to the application log, so that a user without permissions can't fill the table.
MOST, WITHIN = 10, timedelta(hours=1)


@contextmanager
def record_denial(verb: str, *, by: Any, via: str) -> Iterator[None]:
    """Append an audit log entry if the block raises a NotAllowedError that names a thread.

    ``verb`` is the action in the entry. The block must contain the whole transaction of the action.
    The entry is stored in a new transaction, after the action's transaction was rolled back. If the
    caller has opened an outer transaction, a rollback of the outer transaction also removes the
    entry.

    Raises:
        TypeError: before the block, if ``by`` is neither a user nor None.
    """
    if by is not None:
        check_user(by)
    try:
        yield
    except NotAllowedError as error:
        fields = {"thread_id": error.thread_id}
        logger.warning(
            "permission denied: user %s, action %s, thread %r",
            by.pk,
            verb,
            error.thread_id,
            extra=fields,
        )
        try:
            _append(error, verb, by, via)
        except Exception:
            # Raise the NotAllowedError even if the entry can't be stored.
            logger.exception("could not record a permission denial", extra=fields)
        raise


@retry_on_conflict
def _append(error: NotAllowedError, verb: str, by: Any, via: str) -> None:
    if by.pk is None or not error.thread_id:  # The user is anonymous, or the error names no thread.
        return
    using = write_alias()
    with transaction.atomic(using=using):
        found = Thread.objects.using(using).filter(thread_id=error.thread_id).first()
        if found is None or _has_enough(found, by):
            return
        thread = leases.lock_thread(pk=found.pk)
        if _has_enough(thread, by):  # Includes the entries of concurrent requests.
            return
        detail = {"type": verb}
        audit.append_alone(thread, "refuse", by=by, via=via, subject=error.subject, detail=detail)


def _has_enough(thread: Thread, by: Any) -> bool:
    lately = AuditEntry.objects.using(write_alias()).filter(
        thread=thread, verb="refuse", actor=by, at__gt=Now() - WITHIN
    )
    return lately.count() >= MOST
