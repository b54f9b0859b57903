"""Functionality of the benchmark of task queues, without its times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cluster.conftest import IMPATIENT
from tools.benchmarks import stores
from tools.benchmarks.engines import OURS
from tools.benchmarks.task_queues import __main__ as command
from tools.benchmarks.task_queues.queues import QUEUES

FOUND = {
    "delays": [0.01, 0.02, 0.03],
    "cost": {"together": 6.24, "alone": 9},
    "rates": {"1": 19, "2": 38},
    "killed": {"seconds": 31.4, "again": 2, "lost": 0},
}


@pytest.mark.cluster
@pytest.mark.any_database
def test_task_queue_benchmark_measures_real_workers_and_loses_no_run(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def own(kinds: set[str]) -> Iterator[dict[str, str]]:
        yield {stores.variable(OURS, kind): database_url for kind in kinds}

    monkeypatch.setattr(stores, "prepared", own)
    monkeypatch.setattr(command, "WORKERS", (1,))
    queue = QUEUES["tasks-sqlite"]
    with command.prepared(queue, **IMPATIENT) as environment:
        found = command.measured("tasks-sqlite", environment, command.SMALL)
    assert min(found["delays"] + [*found["rates"].values(), *found["cost"].values()]) > 0
    assert found["killed"]["lost"] == 0


def test_task_queue_benchmark_row_has_the_format_of_the_guide_table() -> None:
    told = command.line(QUEUES["celery-redis"], FOUND)
    assert told.startswith("| Celery, in Redis | 20 ms, one in twenty ")
    assert told.endswith("| 6.2; 9.0 | 19, 38 | 2; none; 31 s |")


def test_task_queue_benchmark_row_shows_the_number_of_lost_runs() -> None:
    lost: Any = {**FOUND, "killed": {**FOUND["killed"], "lost": 3}}
    assert command.line(QUEUES["celery-redis"], lost).endswith("| 2; 3; 31 s |")


def test_task_queue_benchmark_with_unknown_queue_exits_with_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        command.parse(["--only", "pigeon"])
    assert "invalid choice: 'pigeon'" in capsys.readouterr().err
