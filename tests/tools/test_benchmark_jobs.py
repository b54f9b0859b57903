"""Functionality of the benchmark of jobs, without its times."""

from __future__ import annotations

import pytest

from tools.benchmarks.jobs import __main__ as command


@pytest.mark.cluster
@pytest.mark.any_database
def test_job_benchmark_measures_cost_and_delay_of_real_processes(database_url: str) -> None:
    environment = {"DATABASE_URL": database_url}
    found = command.measured(["calls", "rows", "cost", "delays"], environment, 16)
    assert min(found["calls"].values()) > 0
    assert found["rows"]["rows"] > 10
    assert found["cost"]["ms"] > found["cost"]["worker ms"] > 0
    assert len(found["delays"]) == 2


def test_job_benchmark_row_shows_costs_and_percentiles() -> None:
    found = {"rows": {"rows": 17.0, "KB": 9.04}, "delays": [0.1, 0.2, 0.3]}
    assert command.summarize(found) == [
        "17 rows, 9.04 KB",
        "answer to next step p50 200 ms, p95 380 ms",
    ]
