"""Attempts that a permission refused: in the record, although the attempt itself left nothing."""

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

logger = logging.getLogger("hitl_django")

#: Entries that one user can add to one thread's record by being refused. What comes on top is
#: logged only: who may do nothing must not be able to fill the table either.
MOST, WITHIN = 10, timedelta(hours=1)


@contextmanager
def record_denial(verb: str, *, by: Any, via: str) -> Iterator[None]:
    """Record a NotAllowedError that comes out of the block, on the thread that it names.

    Stands around the transaction of the attempt, which has been rolled back by then: the entry has
    one of its own. In a caller's transaction it lasts if the caller's does.
    """
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
            # The answer to the user is the refusal, whether or not it could be written down.
            logger.exception("could not record a permission denial", extra=fields)
        raise


@retry_on_conflict
def _append(error: NotAllowedError, verb: str, by: Any, via: str) -> None:
    if by.pk is None or not error.thread_id:  # nobody, or nothing that has a record
        return
    using = write_alias()
    with transaction.atomic(using=using):
        found = Thread.objects.using(using).filter(thread_id=error.thread_id).first()
        if found is None or _has_enough(found, by):
            return
        thread = leases.lock_thread(pk=found.pk)
        if _has_enough(thread, by):  # those that came at the same time count now
            return
        detail = {"type": verb}
        audit.append_alone(thread, "refuse", by=by, via=via, subject=error.subject, detail=detail)


def _has_enough(thread: Thread, by: Any) -> bool:
    lately = AuditEntry.objects.using(write_alias()).filter(
        thread=thread, verb="refuse", actor=by, at__gt=Now() - WITHIN
    )
    return lately.count() >= MOST
