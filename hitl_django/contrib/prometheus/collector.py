"""Collector for prometheus_client that reads pending, due and active rows at each scrape.

All values come from the database, so every process returns the same values. The values include the
work of processes that have ended. Counts are limited to MOST, to limit the cost of a scrape.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Min, QuerySet
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hitl_django import services
from hitl_django.db.alias import write_alias
from hitl_django.graph_registry import registry
from hitl_django.models import Run
from hitl_django.models.review import queue_order
from hitl_django.services.reviews import queue_filters

#: Maximum value of a gauge that counts rows.
MOST = 10_000


class HitlCollector(Collector):
    """Collector of gauges named ``hitl_…``.

    Register the collector together with the project's other metrics.
    """

    def collect(self) -> Iterable[Metric]:
        yield from self._collect_interrupts()
        yield from self._collect_runs()
        yield from self._collect_workers()

    def describe(self) -> Iterable[Metric]:
        return ()  # Registering the collector must not query the database.

    def _collect_interrupts(self) -> Iterable[Metric]:
        waiting = _gauge(
            "interrupts_waiting", "Pending interrupts, including snoozed ones.", "graph"
        )
        overdue = _gauge("interrupts_overdue", "Pending interrupts past their due time.", "graph")
        oldest = _gauge(
            "interrupt_oldest_timestamp", "Creation time of the oldest pending interrupt.", "graph"
        )
        for graph in registry.list_names():
            rows = queue_filters.list_pending(None, graph=graph)
            waiting.add_metric([graph], _count(rows))
            late = sum(_count(rows.filter(part)) for part in queue_filters.OVERDUE_PARTS)
            overdue.add_metric([graph], min(late, MOST))
            if (since := rows.aggregate(at=Min("created_at"))["at"]) is not None:
                oldest.add_metric([graph], since.timestamp())
        yield from (waiting, overdue, oldest)

    def _collect_runs(self) -> Iterable[Metric]:
        live = _gauge("runs", "Runs that have not ended.", "state")
        rows = Run.objects.using(write_alias()).order_by()
        for state in Run.NOT_ENDED:
            live.add_metric([state], rows.filter(state=state)[:MOST].count())
        yield live

    def _collect_workers(self) -> Iterable[Metric]:
        health = services.worker_health()
        yield _gauge("workers", "Workers with a recent heartbeat.", value=health.workers)
        yield _gauge(
            "runs_overdue", "Queued runs that no worker has picked up.", value=health.overdue
        )
        if health.last_seen is not None:
            seen = health.last_seen.timestamp()
            yield _gauge(
                "worker_seen_timestamp", "When a worker last sent a heartbeat.", value=seen
            )


def _gauge(name: str, words: str, *labels: str, value: float | None = None) -> GaugeMetricFamily:
    unit = "seconds" if name.endswith("timestamp") else ""
    return GaugeMetricFamily(f"hitl_{name}", words, value=value, labels=labels or None, unit=unit)


def _count(rows: QuerySet[Any]) -> int:
    return rows.order_by(*queue_order())[:MOST].count()
