"""worker_health: recent workers, and overdue runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db.models.functions import Now

from hitl_django import run_leases, services, testing
from hitl_django.errors import NotAllowedError
from hitl_django.models import Run, Thread, WorkerHeartbeat


@pytest.fixture(autouse=True)
def _quiet(db: None) -> Iterator[None]:
    with testing.inline():
        yield


def test_worker_health_without_runs_and_workers_reports_no_missing_worker() -> None:
    health = services.worker_health()
    assert (health.workers, health.last_seen, health.overdue) == (0, None, 0)
    assert not health.is_missing


def test_worker_health_with_overdue_queued_run_or_old_heartbeat_reports_missing_worker() -> None:
    info = services.start("steps", {"log": []})
    assert not services.worker_health().is_missing
    Run.objects.filter(pk=info.id).update(queued_at=Now() - timedelta(minutes=5))
    health = services.worker_health()
    assert (health.overdue, health.is_missing) == (1, True)
    assert health.due_since == Run.objects.get().queued_at
    Run.objects.all().delete()
    assert not services.worker_health().is_missing
    WorkerHeartbeat.objects.create(owner="h:1", host="h", pid=1)
    WorkerHeartbeat.objects.update(at=Now() - timedelta(minutes=5))
    assert services.worker_health().is_missing


def test_worker_health_counts_unexpired_lease_as_running_worker() -> None:
    info = services.start("steps", {"log": []})
    WorkerHeartbeat.objects.create(owner="h:1", host="h", pid=1)
    WorkerHeartbeat.objects.update(at=Now() - timedelta(minutes=5))
    assert run_leases.claim(info.id) is not None
    health = services.worker_health()
    assert (health.running, health.is_alive) == (1, True)
    Thread.objects.update(lease_until=Now() - timedelta(seconds=1))
    assert services.worker_health().is_missing


@pytest.mark.parametrize("state", sorted({*Run.State.values} - {"queued"}))
def test_worker_health_counts_only_queued_runs_as_overdue(state: str) -> None:
    services.start("steps", {"log": []})
    Run.objects.update(state=state, queued_at=Now() - timedelta(minutes=5))
    assert services.worker_health().overdue == 0
    assert services.find_worker_outage() is None


@pytest.mark.parametrize("state", sorted({*Run.State.values} - {"running"}))
def test_worker_health_counts_only_leases_of_running_runs(state: str) -> None:
    info = services.start("steps", {"log": []})
    assert run_leases.claim(info.id) is not None
    Run.objects.update(state=state)
    assert services.worker_health().running == 0


@pytest.mark.promise("P18")
def test_worker_health_without_permission_raises_not_allowed_error() -> None:
    with pytest.raises(NotAllowedError):
        services.worker_health(by=AnonymousUser())


def test_find_worker_outage_returns_start_of_outage_with_one_query(
    django_assert_num_queries: Any,
) -> None:
    def missed() -> services.WorkerOutage | None:
        with django_assert_num_queries(1):
            return services.find_worker_outage()

    assert missed() is None
    run = services.start("steps", {"log": []})
    assert missed() is None
    Run.objects.update(queued_at=Now() - timedelta(minutes=5))
    assert missed() == services.WorkerOutage(None)
    WorkerHeartbeat.objects.create(owner="h:1", host="h", pid=1)
    assert missed() is None
    WorkerHeartbeat.objects.update(at=Now() - timedelta(minutes=5))
    assert missed() == services.WorkerOutage(WorkerHeartbeat.objects.get().at)
    assert run_leases.claim(run.id) is not None
    assert missed() is None
    Thread.objects.update(lease_until=Now() - timedelta(seconds=1))
    assert missed() is not None
