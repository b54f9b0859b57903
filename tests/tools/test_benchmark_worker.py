"""Functionality of the benchmark of the worker, without its times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.benchmarks.worker import __main__ as command
from tools.benchmarks.worker.signs import Sign, Signs, give

pytestmark = pytest.mark.any_database


@pytest.mark.cluster
@pytest.mark.parametrize("name", ["start", "paused"])
def test_worker_benchmark_measures_real_processes(name: str, database_url: str) -> None:
    # No other test runs these benchmarks. Most of the time is the start of a cluster.
    kind = command.KINDS[name]
    told = command.measured(kind, command.parse(["--quick"]), {"DATABASE_URL": database_url})
    found = command.SUMMARIES[kind.what](told)
    assert min(found["ours"], found["against"], found["ratio"]) > 0


def test_worker_benchmark_start_is_reported_as_median_milliseconds() -> None:
    found = command.of_starts({"bare": [0.001, 0.002, 0.003], "ours": [0.002, 0.003, 0.1]})
    assert (found["ours"], found["against"]) == pytest.approx((3, 2))
    assert found["ratio"] == pytest.approx(1.5)


def test_worker_benchmark_ratio_is_the_median_of_ratios_of_adjacent_measurements() -> None:
    found = command.of_rates({"bare": [100, 200, 50], "ours": [50, 160, 35]})
    assert (found["ours"], found["against"]) == (50, 100)
    assert found["ratio"] == pytest.approx(0.7)


def test_worker_benchmark_row_marks_a_missed_memory_target() -> None:
    before, after = {"bytes": 50_000_000, "objects": 7}, {"bytes": 60_000_000, "objects": 9}
    found = command.of_memory([before, after])
    told = command.line("sqlite-steps", command.KINDS["steps"], found)
    assert "1.20x" in told
    assert "NO" in told
    assert told.endswith("+2 objects")


def test_worker_benchmark_rows_are_selected_by_parts_of_their_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chosen = [name for name in command.ROWS if command.is_chosen(name, ["redis", "sqlite-r"])]
    assert chosen == ["redis-start", "sqlite-rate", "redis-rate", "redis-workers"]
    with pytest.raises(SystemExit):
        command.parse(["--only", "nothing"])
    assert "no row is called nothing" in capsys.readouterr().err


def test_worker_benchmark_signal_contains_event_name_and_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    signs = Signs(str(tmp_path))
    monkeypatch.setenv("HITL_BENCH_SIGNS", signs.path)
    for word, name in (("begun", "node"), ("settled", "one"), ("settled", "two")):
        give(word, name)
    first, second = signs.next("settled"), signs.next("settled")
    signs.close()
    assert first == Sign("settled", "one", first.at)
    assert (second.name, second.at >= first.at) == ("two", True)
