"""The endpoint ``workers/health/`` for monitoring."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models.functions import Now

from hitl_django.models import Run, WorkerHeartbeat


def test_worker_health_contains_worker_count_and_overdue_runs(as_role: Any, make_run: Any) -> None:
    api = as_role("operator")
    nothing = {"alive": False, "workers": 0, "running": 0, "last_seen": None}
    assert api.get("worker-health").json() == nothing | {"overdue": 0, "due_since": None}

    WorkerHeartbeat.objects.create(owner="host:7", host="host", pid=7)
    run = make_run(state=Run.State.QUEUED)
    Run.objects.filter(pk=run.pk).update(queued_at=Now() - timedelta(hours=1))
    told = api.get("worker-health").json()
    assert (told["alive"], told["workers"], told["overdue"]) == (True, 1, 1)
    assert told["due_since"] < told["last_seen"]


def test_worker_health_with_query_parameter_returns_400(as_role: Any) -> None:
    assert as_role("operator").call("GET", "worker-health", query="x=1").status_code == 400
