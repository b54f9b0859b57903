"""What is wrong with an installation, in words, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.core import checks
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.timesince import timesince

from hitl_django import audit, dispatch, services
from hitl_django.models import Run, WorkerHeartbeat

Level = Literal["ok", "note", "warning", "error"]

#: A clock further off than this makes what people read, and the queue's own leases, wrong.
SKEW = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: how it is, and what to do about it."""

    level: Level
    words: str
    advice: str = ""


def examine(*, audited: bool) -> Iterator[Finding]:
    """Gives what is found, the foundations first; what stands on a broken one isn't looked at.

    With ``audited`` every audit entry is looked at as well.
    """
    for look in (_database, _migrations):
        found = list(look())
        yield from found
        if any(each.level == "error" for each in found):
            return
    for look in (_clock, _settings, _queue, _workers, _runs):
        yield from look()
    if audited:
        yield from _audit()


def _audit() -> Iterator[Finding]:
    """Gives every thread whose record of people's deeds was tampered with."""
    sound = True
    for thread_id, seq in audit.faults():
        sound = False
        yield Finding(
            "error",
            f"The audit trail of thread {thread_id!r} doesn't hold: entry {seq} is the first that "
            "was changed, removed or moved.",
            "Compare it with a backup; what follows it can't be trusted either.",
        )
    if sound:
        yield Finding("ok", "Every audit trail holds.")


def _database() -> Iterator[Finding]:
    connection = connections[dispatch.alias()]
    try:
        connection.ensure_connection()
    except Exception as error:  # whatever the database's own library raises
        words = " ".join(str(error).split())
        yield Finding(
            "error",
            f"The database {connection.alias!r} can't be reached: {words}",
            "Start it, or correct DATABASES. Runs go on by themselves once it is back.",
        )
        return
    yield Finding("ok", f"The database {connection.alias!r} ({connection.vendor}) answers.")


def _migrations() -> Iterator[Finding]:
    executor = MigrationExecutor(connections[dispatch.alias()])
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    names = sorted(f"{step.app_label}.{step.name}" for step, _ in plan)
    if names:
        yield Finding(
            "error",
            f"{len(names)} migrations aren't applied: {', '.join(names[:5])}.",
            "Run 'manage.py migrate'.",
        )
        return
    yield Finding("ok", "All migrations are applied.")


def _clock() -> Iterator[Finding]:
    rows = WorkerHeartbeat.objects.using(dispatch.alias()).annotate(now=Now())
    theirs = rows.values_list("now", flat=True).first()
    if theirs is None:
        return  # nobody has worked yet, and a clock is read from a row
    skew = abs(timezone.now() - theirs)
    if skew > SKEW:
        yield Finding(
            "warning",
            f"This host's clock is {skew.total_seconds():.0f} seconds off the database's.",
            "Let both follow a time server. Runs are led by the database's clock; the queue's "
            "messages and schedules go by the host's.",
        )


def _settings() -> Iterator[Finding]:
    found = checks.run_checks(tags=["hitl_django"], databases=[dispatch.alias()])
    yield from _told(found)
    if not any(each.level >= checks.WARNING for each in found):
        yield Finding("ok", "The settings have nothing that is known to hurt.")


def _queue() -> Iterator[Finding]:
    found = dispatch.dispatcher().probe()
    yield from _told(found)
    if not any(each.level >= checks.WARNING for each in found):
        yield Finding("ok", "The queue's broker answers.")


def _told(messages: Sequence[checks.CheckMessage]) -> Iterator[Finding]:
    for each in messages:
        level: Level = "note"
        if each.level >= checks.ERROR:
            level = "error"
        elif each.level >= checks.WARNING:
            level = "warning"
        yield Finding(level, f"{each.msg} ({each.id})", each.hint or "")


def _workers() -> Iterator[Finding]:
    if not dispatch.dispatcher().command():
        return
    health = services.worker_health()
    if not health.is_alive:
        words = "No worker has ever reported."
        if health.last_seen is not None:
            words = _ago("No worker reports. One was last seen", health.last_seen)
        yield Finding("error", words, "Start one: 'manage.py hitl worker', or qcluster.")
        return
    yield Finding("ok", f"{health.workers} workers report, {health.driving} runs are under way.")
    if health.due_since is not None:
        oldest = _ago("The oldest was queued", health.due_since)
        yield Finding(
            "warning",
            f"{health.overdue} runs wait for a worker. {oldest}",
            "If that doesn't pass, there are too few workers, or their nodes take too long.",
        )


def _runs() -> Iterator[Finding]:
    parked = Run.objects.using(dispatch.alias()).filter(state=Run.State.PARKED)
    count = parked.count()
    if count:
        yield Finding(
            "warning",
            f"{count} runs are parked: they can't get on by themselves.",
            "Read in the admin (Runs, state parked) what stopped each; then retry or cancel it.",
        )


def _ago(words: str, moment: datetime) -> str:
    return f"{words} {timesince(moment, depth=1)} ago."
