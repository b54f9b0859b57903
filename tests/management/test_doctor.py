"""``manage.py hitl doctor``: findings and advice."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection, connections
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import F
from django.db.models.functions import Now
from django.test import override_settings
from django.utils import timezone
from django_q.conf import Conf
from django_q.models import Schedule

from hitl_django import audit, services, testing
from hitl_django.audit import verification
from hitl_django.conf import hitl
from hitl_django.contrib.archive import partitions
from hitl_django.contrib.archive.models import ArchivedThread
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.models import WebhookEndpoint
from hitl_django.management import diagnosis, tables
from hitl_django.models import AuditEntry, Decision, Interrupt, Run, Thread, WorkerHeartbeat
from hitl_django.worker.sweeper import sweep

pytestmark = pytest.mark.django_db


def examined(*arguments: str) -> tuple[int, str]:
    """Return the exit code and the output."""
    out = io.StringIO()
    try:
        call_command("hitl", "doctor", *arguments, stdout=out, no_color=True)
    except CommandError as error:
        return error.returncode, out.getvalue()
    return 0, out.getvalue()


@pytest.mark.database("postgresql")
def test_doctor_reports_a_read_only_database_as_error() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
    code, said = examined()
    assert code == 1
    assert "Database 'default' is read-only" in said
    assert "quota" in said


@pytest.mark.usefixtures("worker")
def test_doctor_with_json_prints_findings_with_level_and_advice() -> None:
    code, said = examined("--json")
    found = [json.loads(line) for line in said.splitlines()]
    # On PostgreSQL, a note says that the tests set no transaction timeouts.
    levels = {"ok"} if connection.vendor == "sqlite" else {"ok", "note"}
    assert (code, {each["level"] for each in found}) == (0, levels)
    assert "is reachable" in found[0]["message"]
    WorkerHeartbeat.objects.all().delete()
    services.start("approval", {"text": "A"})
    Run.objects.update(queued_at=timezone.now() - timedelta(days=1))
    code, said = examined("--json")
    (error,) = (each for each in map(json.loads, said.splitlines()) if each["level"] == "error")
    assert code == 1
    assert error["advice"]


@pytest.fixture
def worker() -> WorkerHeartbeat:
    return WorkerHeartbeat.objects.create(owner="host:7", host="host", pid=7)


def test_doctor_reports_passed_checks_and_exits_with_0(worker: WorkerHeartbeat) -> None:
    code, said = examined("--audit")
    assert code == 0
    for words in ("is reachable", "migrations are applied", "No known problems in the settings"):
        assert words in said
    assert "1 active worker, 0 active runs" in said
    assert "threads that waiting requests may occupy: 1 (per user: 1)" in said
    assert "All audit logs are intact" in said
    assert "error" not in said


@override_settings(HITL={"EVENT_MAX_WAITING_THREADS": 0})
def test_doctor_reports_no_waiting_limit_if_waiting_requests_are_disabled(
    worker: WorkerHeartbeat,
) -> None:
    assert "waiting requests" not in examined()[1]


def test_doctor_reports_missing_worker_heartbeat_as_error_with_advice(
    worker: WorkerHeartbeat,
) -> None:
    WorkerHeartbeat.objects.update(at=Now() - timedelta(hours=3))
    code, said = examined()
    assert code == 1
    assert "3\xa0hours ago" in said
    assert "hitl worker" in said
    worker.delete()
    assert "No worker has ever sent a heartbeat" in examined()[1]


@pytest.mark.parametrize("verb", ["worker", "sweep", "purge", "start"])
@pytest.mark.parametrize("app", ["hitl_django", "django_q"])
def test_hitl_commands_with_missing_migrations_raise_command_error_naming_the_migration(
    verb: str, app: str, tmp_path: Path
) -> None:
    (tmp_path / "none").touch()
    options = {"purge": ["--days", "3"], "start": ["--input", str(tmp_path / "none")]}
    applied = MigrationRecorder.Migration.objects.filter(app=app)
    newest = applied.order_by("-name")[0]
    newest.delete()
    missing = rf"1 migration isn't applied: {app}\.{newest.name}\. Run 'manage.py migrate'\."
    with pytest.raises(CommandError, match=missing):
        call_command("hitl", verb, *options.get(verb, ()))


def test_worker_and_sweep_commands_without_django_q_raise_the_message_of_the_system_check(
    settings: Any,
) -> None:
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "django_q"]
    for verb in ("worker", "sweep"):
        with pytest.raises(CommandError, match="'django_q' is not in INSTALLED_APPS"):
            call_command("hitl", verb)
    code, said = examined()
    assert code == 1
    assert "(hitl_django.E018)" in said


def test_doctor_with_unimportable_dispatch_setting_reports_the_failing_check(settings: Any) -> None:
    settings.HITL = {"DISPATCH": "shop.queue.Missing"}
    code, said = examined()
    assert code == 1
    assert "(hitl_django.E004)" in said


def test_sweep_command_runs_with_unapplied_migrations_of_other_apps() -> None:
    # A deploy may apply them when the last of the old processes is gone.
    MigrationRecorder.Migration.objects.filter(app="sessions").delete()
    call_command("hitl", "sweep", stdout=io.StringIO())
    assert "sessions.0001_initial" in examined()[1]


def test_sweep_command_with_unreachable_database_raises_command_error_naming_the_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: Any) -> None:
        raise OperationalError("connection\nrefused")

    monkeypatch.setattr(type(connections["default"]), "ensure_connection", refuse)
    with pytest.raises(CommandError, match="'default' is unreachable: connection refused"):
        call_command("hitl", "sweep")


def test_doctor_warns_that_the_sweep_is_not_running_while_queued_runs_are_overdue(
    worker: WorkerHeartbeat,
) -> None:
    with testing.inline():
        runs = [services.start("steps", {"log": []}).id for _ in range(2)]
    Run.objects.update(
        last_message_at=Now() - timedelta(hours=2), queued_at=Now() - timedelta(hours=3)
    )
    assert "warning  The sweep is not running" in examined()[1]
    # A backlog that a batch of each sweep can't hold is none of its fault.
    Run.objects.filter(pk=runs[0]).update(last_message_at=Now())
    assert "The sweep is not running" not in examined()[1]
    sweep()
    assert "The sweep is not running" not in examined()[1]


def test_doctor_warns_that_the_sweep_is_not_running_if_an_interrupt_expired_an_hour_ago(
    worker: WorkerHeartbeat,
) -> None:
    with testing.inline() as advance:
        services.start("approval", {"text": "x"})
        advance()
    Interrupt.objects.update(expires_at=Now() - timedelta(minutes=1))
    assert "The sweep is not running" not in examined()[1]
    Interrupt.objects.update(expires_at=Now() - timedelta(hours=1))
    assert "The sweep is not running" in examined()[1]


def test_doctor_with_inline_dispatcher_reports_no_missing_worker() -> None:
    with override_settings(HITL={"DISPATCH": "hitl_django.task_queue.dispatcher.InlineDispatcher"}):
        code, said = examined()
    assert (code, "No worker" in said) == (0, False)


def test_doctor_with_unreachable_database_reports_only_this_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: Any) -> None:
        raise OperationalError("connection\nrefused")

    monkeypatch.setattr(type(connections["default"]), "ensure_connection", refuse)
    found = list(diagnosis.examine_installation(audited=True))
    assert [each.level for each in found] == ["error"]
    assert "connection refused" in found[0].message


def test_doctor_reports_unapplied_migration_of_the_package_as_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    MigrationRecorder.Migration.objects.filter(app="hitl_django").delete()
    code, said = examined()
    assert code == 1
    assert "hitl_django.0001_initial" in said
    assert "manage.py migrate" in said


def test_doctor_repeats_warnings_of_system_checks(
    worker: WorkerHeartbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Conf, "WORKERS", 1)
    code, said = examined()
    assert code == 0
    assert "warning  Q_CLUSTER['workers'] is 1" in said


def test_doctor_reports_unreachable_broker_as_error(
    worker: WorkerHeartbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Conf, "ORM", None)
    monkeypatch.setattr(Conf, "BROKER_CLASS", None)
    monkeypatch.setattr(Conf, "REDIS", "unix:///no/such/socket")
    code, said = examined()
    assert code == 1
    assert "broker is unreachable" in said


def test_doctor_reports_missing_sweep_schedule_as_error(worker: WorkerHeartbeat) -> None:
    Schedule.objects.all().delete()
    code, said = examined()
    assert code == 1
    assert "sweep isn't scheduled" in said


def test_doctor_warns_of_reviewers_with_permission_to_change_queue_schedules(
    worker: WorkerHeartbeat,
) -> None:
    def may(group: Group, app: str, codename: str) -> None:
        group.permissions.add(
            Permission.objects.get(content_type__app_label=app, codename=codename)
        )

    reviewers, deployers = (Group.objects.create(name=name) for name in ("reviewers", "deployers"))
    may(reviewers, "hitl_django", "decide_interrupt")
    may(deployers, "django_q", "add_schedule")
    assert "edit django-q2 schedules" not in examined()[1]
    may(reviewers, "django_q", "change_schedule")
    assert "edit django-q2 schedules: reviewers. (hitl_django.W033)" in examined()[1]


def test_doctor_notes_slow_bulk_setting_of_redis_broker_unless_verbosity_is_0(
    worker: WorkerHeartbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "'bulk'] is 1" not in examined()[1]
    monkeypatch.setattr(Conf, "ORM", None)
    monkeypatch.setattr(Conf, "BROKER_CLASS", None)
    monkeypatch.setattr(Conf, "REDIS", "unix:///no/such/socket")
    assert "'bulk'] is 1" in examined()[1]
    assert "note" not in examined("--verbosity", "0")[1]
    monkeypatch.setattr(Conf, "BULK", 10)
    assert "Task overhead" not in examined()[1]


def test_doctor_reports_number_of_queued_and_parked_runs(worker: WorkerHeartbeat) -> None:
    with testing.inline():
        for _ in range(3):
            services.start("steps", {"log": []})
    Run.objects.update(queued_at=Now() - timedelta(hours=2))
    Run.objects.filter(pk=Run.objects.first().pk).update(state="parked")  # type: ignore[union-attr]
    code, said = examined()
    assert code == 0
    assert "2 runs waiting for a worker. Oldest queued 2 hours ago." in said
    assert "1 parked run: needs an operator" in said


def test_doctor_warns_of_missing_site_url_with_active_webhooks(
    worker: WorkerHeartbeat, settings: Any
) -> None:
    assert "SITE_URL" not in examined()[1]
    webhook_services.create_webhook("https://crm.example/hooks/hitl")
    assert "warning  HITL['SITE_URL'] isn't set, and there are webhooks" in examined()[1]
    settings.HITL = {**settings.HITL, "SITE_URL": "https://shop.example"}
    assert "SITE_URL" not in examined()[1]


def test_doctor_notes_table_growth_and_missing_retention(
    worker: WorkerHeartbeat, settings: Any
) -> None:
    assert "stored in" not in examined()[1]
    with testing.inline():
        for number in range(14):
            services.start("steps", {"log": []}, key=str(number))
    newest = Run.objects.order_by("-key")[:7].values_list("pk", flat=True)
    Run.objects.filter(pk__in=list(newest)).update(created_at=Now() - timedelta(days=30))
    said = examined()[1].replace("\xa0", " ")
    assert re.search(r"note +14 runs stored in [\d.]+ [KM]B", said)
    assert re.search(r"growth over the last 7 days: 1\.0 new runs and [\d.]+ [KM]B per day", said)
    assert "No retention is configured: HITL has no RETENTION_DAYS" in said
    settings.HITL = {"RETENTION_DAYS": 90}
    assert "RETENTION_DAYS = 90 bounds it" in examined()[1]


def test_doctor_warns_of_clock_difference_to_the_database(
    worker: WorkerHeartbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = diagnosis.timezone.now
    monkeypatch.setattr(diagnosis.timezone, "now", lambda: now() + timedelta(minutes=1))
    assert "clock differs from the database's by 60 seconds" in examined()[1]


@pytest.mark.parametrize("name", ["lease_until", "created_at"])
def test_doctor_warns_of_database_clock_set_back(worker: WorkerHeartbeat, name: str) -> None:
    with testing.inline() as advance:
        run = services.start("approval", {"text": "x"})
        advance()
        services.decide(Interrupt.objects.get().pk, "approve")
    later = Now() + timedelta(minutes=10)
    if name == "lease_until":
        Run.objects.update(state=Run.State.RUNNING)
        Thread.objects.update(lease_until=later)
    else:
        Decision.objects.update(created_at=later)
    longest = hitl.LEASE_SECONDS if name == "lease_until" else 0
    (seconds,) = re.findall(r"clock was set back by (\d+) seconds", examined()[1])
    assert abs(int(seconds) - (600 - longest)) <= 60
    Run.objects.filter(pk=run.id).update(state=Run.State.CANCELLED)
    Decision.objects.update(created_at=Now())
    assert "set back" not in examined()[1]


class TestAudit:
    @pytest.fixture(autouse=True)
    def _decided(self, worker: WorkerHeartbeat, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(verification, "BATCH", 2)  # so that several batches are read
        with testing.inline() as advance:
            for number in range(5):
                services.start("approval", {"text": "x"}, thread_id=f"thread {number}")
            advance()
            for interrupt in Interrupt.objects.all():
                services.decide(interrupt.pk, "approve")
            yield

    def of(self, number: int, seq: int = 2) -> Any:
        return AuditEntry.objects.filter(thread__thread_id=f"thread {number}", seq=seq)

    @pytest.mark.promise("P20")
    @pytest.mark.parametrize(
        ("tamper", "seq"),
        [
            (lambda of: of(3).update(verb="start"), 2),
            (lambda of: of(3).update(actor_label="mallory"), 2),
            (lambda of: of(3).update(subject="else"), 2),
            (lambda of: of(3).update(via="admin"), 2),
            (lambda of: of(3).update(detail={}), 2),
            (lambda of: of(3).update(at=F("at") + timedelta(seconds=1)), 2),
            (lambda of: of(3).update(hash="0" * 64), 2),
            (lambda of: of(3, 1).update(prev_hash="0" * 64), 1),
            (lambda of: of(3, 1).delete(), 1),
            (lambda of: of(3, 2).delete(), 2),
            (lambda of: of(3, 2).update(seq=7), 2),
        ],
    )
    def test_doctor_with_audit_option_names_the_first_invalid_audit_entry_of_a_thread(
        self, tamper: Callable[..., Any], seq: int
    ) -> None:
        assert examined("--audit")[0] == 0
        tamper(self.of)
        code, said = examined("--audit")
        assert code == 1
        assert f"'thread 3' is broken: entry {seq} is the first" in said
        assert "All audit logs are intact" not in said

    def test_audit_check_of_thread_with_audit_entry_added_during_the_check_finds_no_fault(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A run is cancelled between reading its thread and reading the thread's entries.
        runs = list(Run.objects.filter(thread__thread_id="thread 0").values_list("pk", flat=True))
        again: list[str] = []
        look = verification.check_thread

        def cancel_first(execute: Any, sql: str, *rest: Any) -> Any:
            if runs and f'FROM "{AuditEntry._meta.db_table}"' in sql:
                services.cancel(runs.pop())
            return execute(sql, *rest)

        def watched(thread: Thread) -> verification.CheckedThread:
            again.append(thread.thread_id)
            return look(thread)

        monkeypatch.setattr(verification, "check_thread", watched)
        with connection.execute_wrapper(cancel_first):
            assert list(audit.find_faults()) == []
        assert again == ["thread 0"]

    def test_doctor_without_audit_option_does_not_check_audit_logs(self) -> None:
        self.of(3).delete()
        assert examined()[0] == 0


@pytest.mark.database("postgresql")
def test_doctor_includes_archive_partitions_in_the_table_size() -> None:
    at = timezone.now()
    partitions.make_partitions("default", [at])
    before = tables.measure_tables("default").bytes
    ArchivedThread.objects.create(
        id=1, runs=1, interrupts=0, started_at=at, ended_at=at, document=os.urandom(300_000)
    )
    assert tables.measure_tables("default").bytes - before > 300_000


def test_doctor_does_not_require_site_url_without_active_installed_channels(
    worker: WorkerHeartbeat,
) -> None:
    webhook_services.create_webhook("https://crm.example/hooks/hitl")
    WebhookEndpoint.objects.update(is_active=False)
    assert "SITE_URL" not in examined()[1]
    WebhookEndpoint.objects.update(is_active=True, channel="uninstalled")
    assert "SITE_URL" not in examined()[1]
