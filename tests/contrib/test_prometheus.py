"""Metrics for Prometheus: gauges, permissions and the provided configuration files."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from importlib.resources import files
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families

from hitl_django.models import Run, WorkerHeartbeat
from hitl_django.testing import GraphEnvironment

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.urls("tests.contrib.prometheus_urls"),
]

PACKAGE = files("hitl_django.contrib.prometheus")


@pytest.fixture
def operator(django_user_model: Any) -> Client:
    client = Client()
    client.force_login(django_user_model.objects.create_superuser("olga"))
    return client


def read(client: Client) -> dict[tuple[str, ...], float]:
    """Return the metrics page as values by gauge and label."""
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/plain")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(response.content.decode())
        for sample in family.samples
    }


def test_prometheus_gauges_follow_pending_interrupts_and_run_states(operator: Client) -> None:
    with GraphEnvironment() as hitl:
        first = hitl.start("approval", {"text": "A"})
        hitl.start("approval", {"text": "B"})
        interrupt = hitl.make_interrupt("Late?", due=timedelta(hours=1))
        hitl.advance_time(hours=2)
        gauges = read(operator)
        assert gauges["hitl_interrupts_waiting", "approval"] == 2
        assert gauges["hitl_interrupts_overdue", "approval"] == 0
        assert gauges["hitl_interrupts_overdue", interrupt.graph] == 1
        assert gauges["hitl_runs", "interrupted"] == 3
        asked = hitl.interrupt(run=first).created_at.timestamp()
        assert gauges["hitl_interrupt_oldest_timestamp_seconds", "approval"] == pytest.approx(asked)
        hitl.decide(run=first, type="approve")
        assert read(operator)["hitl_interrupts_waiting", "approval"] == 1
        Run.objects.filter(state="interrupted").update(state="parked")
        assert read(operator)["hitl_runs", "parked"] == 2


def test_prometheus_worker_gauge_counts_workers_with_heartbeat(operator: Client) -> None:
    gauges = read(operator)
    assert gauges["hitl_workers",] == 0
    assert ("hitl_worker_seen_timestamp_seconds",) not in gauges
    WorkerHeartbeat.objects.create(owner="host:1", host="host", pid=1, version="1")
    gauges = read(operator)
    assert gauges["hitl_workers",] == 1
    assert gauges["hitl_worker_seen_timestamp_seconds",] > 1_700_000_000


def test_prometheus_metrics_page_without_worker_permission_returns_403(
    django_user_model: Any,
) -> None:
    client = Client()
    assert client.get("/metrics").status_code in (401, 403)
    client.force_login(django_user_model.objects.create_user("rita", is_staff=True))
    assert client.get("/metrics").status_code == 403


def test_prometheus_scrape_query_count_is_constant_with_five_more_runs(
    operator: Client,
) -> None:
    with CaptureQueriesContext(connection) as before:
        read(operator)
    with GraphEnvironment() as hitl:
        for number in range(5):
            hitl.start("approval", {"text": str(number)})
    with CaptureQueriesContext(connection) as after:
        read(operator)
    assert len(after) == len(before)


@pytest.mark.parametrize("name", ["alerts.yaml", "dashboard.json"])
def test_prometheus_alert_rules_and_dashboard_use_only_exported_gauges(
    operator: Client, name: str
) -> None:
    with GraphEnvironment() as hitl:
        hitl.start("approval", {"text": "A"})
        WorkerHeartbeat.objects.create(owner="host:1", host="host", pid=1, version="1")
        known = {gauge for gauge, *_ in read(operator)}
    text = (PACKAGE / name).read_text()
    assert set(re.findall(r"hitl_[a-z_]+[a-z]", text)) - {"hitl_django"} <= known
    if name.endswith(".json"):
        assert len(json.loads(text)["panels"]) == 6
