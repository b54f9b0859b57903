"""Diagnosis of an installation: findings with advice."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.core import checks
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Model
from django.template.defaultfilters import filesizeformat
from django.utils import timezone
from django.utils.timesince import timesince

from hitl_django import audit, services
from hitl_django.conf import hitl, limit_for_user
from hitl_django.db.alias import write_alias
from hitl_django.encryption import find_key_ring
from hitl_django.engine.errors import PayloadError
from hitl_django.extensions import Finding, Level, list_extensions
from hitl_django.json_text.sanitize import format_count
from hitl_django.models import (
    AuditEntry,
    Decision,
    Interrupt,
    Run,
    WorkerHeartbeat,
)
from hitl_django.models.functions import Now
from hitl_django.services.audit_comparison import find_forged_rows
from hitl_django.task_queue import dispatcher
from hitl_django.worker import reencryption
from hitl_django.worker.sweeper import find_missed_since

from . import tables

#: Maximum difference between the clocks. A larger difference leads to wrong displayed times and to
#: wrong leases of the task queue.
MAX_CLOCK_DIFFERENCE = timedelta(seconds=5)
#: Settings that limit the size of tables, each with the rows that the setting deletes.
BOUNDS = {
    "RETENTION_DAYS": "deletes ended threads",
    "EVENT_RETENTION_DAYS": "only their events",
}
#: Apps with tables that all commands need: this app and the default task queue.
NEEDED = ("hitl_django", "django_q")
#: Encrypted columns. The oldest and the newest row of each are read.
ENCRYPTED: tuple[tuple[str, type[Model]], ...] = (
    ("detail", AuditEntry),
    ("payload", Interrupt),
    ("value", Decision),
)
LOST_KEY = (
    "Put the key that they were encrypted with back into HITL['ENCRYPTION_KEYS'], behind the first."
)


def examine_installation(*, audited: bool) -> Iterator[Finding]:
    """Check the installation, and yield the findings.

    The database, the migrations and the settings are checked first. If one of these three checks
    finds an error, all later checks are omitted. With ``audited``, all entries of the audit log and
    the keys of all encrypted rows are also checked.
    """
    for look in (_database, _migrations, _settings):
        found = list(look())
        yield from found
        if any(each.level == "error" for each in found):
            return
    for look in (
        _keys,
        _clock,
        _clock_set_back,
        _waiting,
        _queue,
        _workers,
        _sweep,
        _runs,
        _growth,
    ):
        yield from look()
    for extension in list_extensions():
        for examine in extension.doctor:
            yield from examine()
    if audited:
        yield from _audit()
        yield from _encryption()


def find_obstacle(*, needs_database: bool) -> Finding | None:
    """Return the finding about a problem that makes every command fail, or None.

    If ``needs_database`` is false, an unavailable database is ignored, because the command can wait
    for the database.
    """
    found = list(_database())
    if found[0].level == "error":
        return found[0] if needs_database else None
    wrong = (each for each in (*_migrations(NEEDED), *_settings()) if each.level == "error")
    return next(wrong, None)


def _audit() -> Iterator[Finding]:
    """Yield findings about invalid audit logs, and about rows that differ from the audit log."""
    sound, unreadable = True, 0
    for checked in audit.check_threads():
        unreadable += bool(checked.unreadable)
        if checked.fault is not None:
            sound = False
            yield Finding(
                "error",
                f"The audit log of thread {checked.thread_id!r} is broken: entry "
                f"{checked.fault} is the first that was changed, removed or reordered.",
                "Compare it with a backup. Later entries can't be trusted either.",
            )
    for thread_id, words in find_forged_rows():
        sound = False
        yield Finding(
            "error",
            f"Thread {thread_id!r} doesn't match its audit log: {words}.",
            "Compare it with a backup. The rows were changed manually.",
        )
    if unreadable:
        sound = False
        logs = format_count(unreadable, "audit log", "audit logs")
        yield Finding("error", f"{logs} could not be decrypted or checked.", LOST_KEY)
    if sound:
        yield Finding("ok", "All audit logs are intact.")


def _encryption() -> Iterator[Finding]:
    """Yield a finding about rows that are not encrypted with the first of ENCRYPTION_KEYS."""
    if find_key_ring() is None:
        return
    plain = old = unreadable = 0
    for batch in reencryption.count_rows():
        plain, old = plain + batch.plain, old + batch.old
        unreadable += batch.unreadable
    if not plain + old + unreadable:
        yield Finding("ok", "All rows are encrypted with the first of ENCRYPTION_KEYS.")
        return
    rows = (
        f"{format_count(plain, 'row is', 'rows are')} not encrypted, {old} under a key other than "
        "the first"
    )
    yield Finding(
        "warning",
        f"{rows} than the first of ENCRYPTION_KEYS, and {unreadable} unreadable.",
        "Run 'manage.py hitl reencrypt'. Workers can keep running.",
    )


def _keys() -> Iterator[Finding]:
    """Yield an error if sampled rows are encrypted with a key that is not in ENCRYPTION_KEYS."""
    for column, model in ENCRYPTED:
        rows = model._default_manager.using(write_alias()).values_list(column, flat=True)
        try:
            rows.order_by("pk").first()
            rows.order_by("-pk").first()
        except PayloadError as error:
            yield Finding("error", f"Stored rows can't be decrypted: {error}", LOST_KEY)
            return


def _database() -> Iterator[Finding]:
    connection = connections[write_alias()]
    try:
        connection.ensure_connection()
    except Exception as error:  # Database libraries raise various errors.
        words = " ".join(str(error).split())
        yield Finding(
            "error",
            f"Database {connection.alias!r} is unreachable: {words}",
            "Start the database, or fix DATABASES. Runs resume automatically afterwards.",
        )
        return
    if _is_read_only(connection):
        yield Finding(
            "error",
            f"Database {connection.alias!r} is read-only: runs and decisions can't be stored.",
            "After a failover, connect to the new primary. At a provider, look at its quota. Runs "
            "continue once the database can be written to.",
        )
        return
    yield Finding("ok", f"Database {connection.alias!r} ({connection.vendor}) is reachable.")


def _is_read_only(connection: Any) -> bool:
    if connection.vendor != "postgresql":
        return False
    with connection.cursor() as cursor:
        cursor.execute("SHOW transaction_read_only")
        return bool(cursor.fetchone() == ("on",))


def _migrations(apps: Collection[str] = ()) -> Iterator[Finding]:
    """Yield a finding about the migrations of these apps and of their dependencies.

    Without ``apps``, all migrations are checked.
    """
    executor = MigrationExecutor(connections[write_alias()])
    newest = [leaf for leaf in executor.loader.graph.leaf_nodes() if not apps or leaf[0] in apps]
    names = sorted(f"{step.app_label}.{step.name}" for step, _ in executor.migration_plan(newest))
    if names:
        missing = format_count(len(names), "migration isn't applied", "migrations aren't applied")
        yield Finding(
            "error",
            f"{missing}: {', '.join(names[:5])}{', …' if len(names) > 5 else ''}.",
            "Run 'manage.py migrate'.",
        )
        return
    yield Finding("ok", "All migrations are applied.")


def _clock() -> Iterator[Finding]:
    rows = WorkerHeartbeat.objects.using(write_alias()).annotate(now=Now())
    theirs = rows.values_list("now", flat=True).first()
    if theirs is None:
        return  # The clock is compared with a worker's row, and no worker has run yet.
    skew = abs(timezone.now() - theirs)
    if skew > MAX_CLOCK_DIFFERENCE:
        yield Finding(
            "warning",
            f"This host's clock differs from the database's by {skew.total_seconds():.0f} seconds.",
            "Synchronize both with a time server. Leases use the database clock; queue "
            "messages and schedules use the host clock.",
        )


def _clock_set_back() -> Iterator[Finding]:
    """Yield a warning if the database's clock was set back.

    The clock was set back if a stored lease ends later than a lease that starts now, or if a
    decision was made in the future.
    """
    using = write_alias()
    running = Run.objects.using(using).filter(state=Run.State.RUNNING)
    times = (
        (running, "thread__lease_until", timedelta(seconds=hitl.LEASE_SECONDS)),
        (Decision.objects.using(using), "created_at", timedelta(0)),
    )
    ahead = timedelta(0)
    for rows, name, longest in times:
        late = rows.filter(**{f"{name}__gt": Now() + longest + MAX_CLOCK_DIFFERENCE})
        found = late.order_by(f"-{name}").values_list(name, Now()).first()
        if found is not None:
            ahead = max(ahead, found[0] - found[1] - longest)
    if ahead:
        yield Finding(
            "warning",
            f"The database's clock was set back by {ahead.total_seconds():.0f} seconds or more: "
            "leases or decisions have times in the future.",
            "Have the database follow a time server. Lost or decided runs, deadlines and schedules "
            "wait until the clock has caught up. To resume a run earlier, cancel and fork it.",
        )


def _settings() -> Iterator[Finding]:
    found = checks.run_checks(tags=["hitl_django"], databases=[write_alias()])
    yield from _list_messages(found)
    if not any(each.level >= checks.WARNING for each in found):
        yield Finding("ok", "No known problems in the settings.")


def _waiting() -> Iterator[Finding]:
    slots = hitl.EVENT_MAX_WAITING_THREADS
    if slots:
        yield Finding(
            "ok",
            f"Web process threads that waiting requests may occupy: {slots} (per user: "
            f"{limit_for_user(slots)}).",
            "The web server needs more threads than that (gunicorn: --threads); "
            "otherwise lower EVENT_MAX_WAITING_THREADS. Not relevant under ASGI.",
        )


def _queue() -> Iterator[Finding]:
    found = dispatcher.get_dispatcher().probe()
    yield from _list_messages(found)
    if not any(each.level >= checks.WARNING for each in found):
        yield Finding("ok", "The queue's broker is reachable.")


def _list_messages(messages: Sequence[checks.CheckMessage]) -> Iterator[Finding]:
    for each in messages:
        level: Level = "note"
        if each.level >= checks.ERROR:
            level = "error"
        elif each.level >= checks.WARNING:
            level = "warning"
        yield Finding(level, f"{each.msg} ({each.id})", each.hint or "")


def _workers() -> Iterator[Finding]:
    if not dispatcher.get_dispatcher().command():
        return
    health = services.worker_health()
    if not health.is_alive:
        words = "No worker has ever sent a heartbeat."
        if health.last_seen is not None:
            words = _format_ago("No active worker. Last heartbeat", health.last_seen)
        yield Finding("error", words, "Start a worker: 'manage.py hitl worker', or qcluster.")
        return
    workers = format_count(health.workers, "active worker", "active workers")
    driven = format_count(health.running, "active run", "active runs")
    yield Finding("ok", f"{workers}, {driven}.")
    if health.due_since is not None:
        waiting = format_count(
            health.overdue, "run waiting for a worker", "runs waiting for a worker"
        )
        oldest = _format_ago("Oldest queued", health.due_since)
        yield Finding(
            "warning",
            f"{waiting}. {oldest}",
            "If this persists, start more workers, or check for slow nodes.",
        )


def _sweep() -> Iterator[Finding]:
    since = find_missed_since()
    if since is not None:
        yield Finding(
            "warning",
            _format_ago("The sweep is not running. Its oldest item was due", since),
            "Run 'manage.py hitl worker', or schedule 'manage.py hitl sweep' once or "
            "twice a minute.",
        )


def _runs() -> Iterator[Finding]:
    parked = Run.objects.using(write_alias()).filter(state=Run.State.PARKED)
    count = parked.count()
    if count:
        one, several = "parked run", "parked runs"
        yield Finding(
            "warning",
            f"{format_count(count, one, several)}: {'needs' if count == 1 else 'need'} an "
            "operator.",
            "Open Runs in the admin, filter by state parked and read each error. Then "
            "retry or cancel.",
        )


def _growth() -> Iterator[Finding]:
    """Yield a finding about the stored size, its growth, and the settings that limit it."""
    size = tables.measure_tables(write_alias())
    if not size.runs:
        return
    largest = ", ".join(f"{name} {filesizeformat(count)}" for name, count in size.largest)
    words = (
        f"{format_count(size.runs, 'run', 'runs')} stored in "
        f"{filesizeformat(size.bytes)}{f' ({largest})' if largest else ''}; growth over "
        f"the last {tables.DAYS} days: {size.recent / tables.DAYS:,.1f} new runs and "
        f"{filesizeformat(size.bytes_a_day)} per day."
    )
    limits = {name: getattr(hitl, name) for name in BOUNDS}
    unset = [f"{name} ({what})" for name, what in BOUNDS.items() if limits[name] is None]
    advice = (
        f"No retention is configured: HITL has no {' nor '.join(unset)}." if len(unset) == 2 else ""
    )
    given = {name: days for name, days in limits.items() if days is not None}
    kept = ", ".join(
        f"{name} = {days}" if isinstance(days, Mapping) else f"{name} = {days:g}"
        for name, days in given.items()
    )
    yield Finding("note", words, advice or f"{kept} bounds it.")


def _format_ago(words: str, moment: datetime) -> str:
    return f"{words} {timesince(moment, depth=1)} ago."
