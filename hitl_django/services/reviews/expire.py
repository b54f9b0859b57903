"""Expiry of interrupts."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet

from hitl_django import audit, events, leases, run_events, signals
from hitl_django.answers import read_options
from hitl_django.checkpoints import DjangoSaver, ThreadKey
from hitl_django.db.alias import write_alias
from hitl_django.db.write_batch import WriteBatch
from hitl_django.decision_types import EXPIRE
from hitl_django.events import EventName
from hitl_django.models import Decision, Interrupt, Run, Thread
from hitl_django.models.fields import digest_json
from hitl_django.models.functions import Now
from hitl_django.models.review import get_closed_columns

from .. import queries
from ..runs.cancel import cancel_run
from . import deadlines, resumption

logger = logging.getLogger("hitl_django")

#: Source of an expiry, stored where a decision has the source of the person's action.
TIMEOUT = "timeout"
#: Expiry actions that leave the interrupt pending, because a person still has to decide.
STAYING = ("keep", "escalate")


def expire_due() -> int:
    """Expire a batch of interrupts whose time limit has passed, and return their number.

    Each interrupt is processed in its own transaction. While a run is running or about to resume,
    its interrupts don't expire. They are processed when the run pauses again.
    """
    # After an error, ``retry_at`` is set to a later time. ``expires_at`` doesn't change, because
    # people see it.
    return deadlines.act_on_due(select_expired(), "expires_at", "retry_at", _expire)


def select_expired() -> QuerySet[Interrupt]:
    """Return the interrupts whose time limit has passed and that have not been processed yet."""
    return Interrupt.objects.using(write_alias()).filter(
        Q(retry_at__isnull=True) | Q(retry_at__lte=Now()),
        # While a run is about to resume, its other interrupts don't expire.
        Run.match_at_rest([Run.State.INTERRUPTED], "run__"),
        status=Interrupt.Status.PENDING,
        expires_at__lte=Now(),
    )


def _expire(pk: UUID) -> bool:
    thread = leases.lock_thread(interrupt=pk)
    interrupt = select_expired().select_related("run").filter(pk=pk).first()
    if interrupt is None:
        return False
    changes, recorded = _keep_open(interrupt) if interrupt.then in STAYING else (_closed(), {})
    # If reviewers and sweeps compete, only one UPDATE matches. Zero rows: a person has decided, or
    # another sweep has processed the interrupt.
    expired = (
        Interrupt.objects.using(write_alias())
        .filter(
            pk=pk,
            status=Interrupt.Status.PENDING,
            version=interrupt.version,
            expires_at__lte=Now(),
        )
        .update(**changes)
    )
    if not expired:
        return False
    ids = {
        "run_id": str(interrupt.run_id),
        "thread_id": thread.thread_id,
        "graph": interrupt.graph,
    }
    batch = WriteBatch(write_alias())
    asked = {"interrupt_id": str(pk), "digest": interrupt.payload_digest}
    group = str(changes.get("group_label", interrupt.group_label))
    events.publish(batch, EventName.INTERRUPT_EXPIRED, group=group, **asked, **ids)
    detail = {
        "type": interrupt.then,
        "payload_digest": interrupt.payload_digest,
        "version": interrupt.version,
        **recorded,
    }
    if interrupt.then == "answer":
        detail["answer"] = digest_json(_answer(batch, interrupt, thread))
    elif interrupt.then == "cancel":
        detail["interrupts"] = cancel_run(
            batch, interrupt.run, thread, interrupts=Interrupt.Status.CANCELLED
        )
    elif interrupt.then not in STAYING:
        error = f"The interrupt {interrupt.title!r} expired without a decision."
        Run.objects.using(write_alias()).filter(pk=interrupt.run_id).update(
            state=Run.State.PARKED, error=error, traceback=""
        )
        events.publish(batch, EventName.RUN_PARKED, **ids)
        run_events.append_event(batch, interrupt.run, Run.State.PARKED)
        signals.send_on_commit(
            signals.run_failed, using=write_alias(), state=str(Run.State.PARKED), **ids
        )
    audit.append(batch, thread, "expire", by=None, via=TIMEOUT, subject=str(pk), detail=detail)
    # Zero rows: the run was changed manually, because all other changes wait for the thread's lock.
    # The transaction is rolled back, and the next sweep tries again.
    if not batch.run():
        raise RuntimeError(f"Run {interrupt.run_id} was changed manually.")
    signals.send_on_commit(
        signals.interrupt_expired,
        using=write_alias(),
        interrupt_id=str(pk),
        then=interrupt.then,
        **ids,
    )
    return True


def _closed() -> dict[str, Any]:
    return {"status": Interrupt.Status.EXPIRED, **get_closed_columns()}


def _keep_open(interrupt: Interrupt) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the changed columns and the audit log details of an interrupt that stays pending.

    At its expiry, the interrupt becomes overdue and its snooze ends. The claim and the version of
    the interrupt don't change, so a response that a reviewer is writing remains valid.
    """
    moments = [at for at in (interrupt.due_at, interrupt.expires_at) if at is not None]
    changes: dict[str, Any] = {
        "expires_at": None,
        "warn_at": None,
        "escalated_at": Now(),
        "due_at": min(moments),
        "overdue": True,
        "snoozed_until": None,
    }
    name = (interrupt.expiry or {}).get("group", "")
    if not name:
        return changes, {}
    group = Group.objects.using(write_alias()).filter(name=name).first()
    if group is None:
        # The group doesn't exist. The interrupt is marked as overdue nevertheless.
        logger.error(
            "interrupt %s can't be escalated: unknown group",
            interrupt.pk,
            extra={
                "interrupt_id": str(interrupt.pk),
                "run_id": str(interrupt.run_id),
                "graph": interrupt.graph,
            },
        )
        return changes, {"group": name, "group_is_missing": True}
    changes |= {"group": group.pk, "group_label": group.name, "assignee": None}
    return {**changes, "assignee_label": ""}, {"group": name}


def _answer(batch: WriteBatch, interrupt: Interrupt, thread: Thread) -> object:
    """Add the response from the expiry options to ``batch``, as a decision without a user.

    Return the response without secrets, for the audit log. If the run resumes, the update of the
    run is the first statement of the batch.
    """
    answer = (interrupt.expiry or {}).get("answer")
    decision = Decision(
        interrupt=interrupt,
        version=interrupt.version,
        type=EXPIRE,
        value=read_options(interrupt).mask_answer(answer),
        by_label=audit.SYSTEM,
        via=TIMEOUT,
        payload_digest=interrupt.payload_digest,
        created_at=thread.now,
    )
    if resumption.resumes_run(interrupt):
        resumption.queue_run(batch, interrupt.run, "expired")
    batch.insert(queries.NEW_DECISION, [queries.NEW_DECISION.values_of(decision)])
    key = ThreadKey(thread.pk, thread.thread_id, thread.epoch)
    DjangoSaver(key).put_answer(interrupt, answer, batch)
    return decision.value
