"""The durable workloads: the same graphs, stored in SQLite and in PostgreSQL."""

from __future__ import annotations

from .workloads import Workload

WORKLOADS: dict[str, Workload] = {}
