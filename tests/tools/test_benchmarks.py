"""Functionality of the benchmarks, without their times."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tools.benchmarks import __main__ as command
from tools.benchmarks import (
    document,
    engines,
    filled,
    idle,
    peer_graphs,
    queue,
    report,
    startup,
    workloads,
)

WORKLOADS = peer_graphs.WORKLOADS | workloads.WORKLOADS


@pytest.mark.parametrize("name", WORKLOADS)
def test_benchmark_workload_reaches_its_result_repeatedly(name: str) -> None:
    row = WORKLOADS[name]
    once = row.build(engines.load(engines.OURS), 3)
    assert once() == 3
    assert once() == 3


def test_benchmark_ratio_is_the_median_of_ratios_of_adjacent_runs() -> None:
    times = {engines.LANGGRAPH: [2e-6, 8e-6, 4e-6], engines.OURS: [1e-6, 2e-6, 1e-6]}
    found = report.summary(times)
    assert found["ratio"] == pytest.approx(4)
    assert found[engines.OURS] == pytest.approx(1)
    assert found["spread"] == pytest.approx([2, 4])


def test_benchmark_row_with_measured_lower_bound_shows_the_highest_possible_ratio() -> None:
    times = {engines.LANGGRAPH: [8e-6], engines.OURS: [4e-6], engines.FLOOR: [2e-6]}
    found = {**report.summary(times), "statements": 3, "transactions": 1, "bytes": 5}
    row = WORKLOADS["pause"]
    assert found["floor_ratio"] == pytest.approx(4)
    assert "ratio" in found
    told = report.line(row, found)
    assert told.split()[-10:] == [
        "2.0", "2.0x", "(2.0-2.0)", "≥", "10", "4.0x", "short", "3.0,", "1.0,", "5",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ratio", "floor", "expected"),
    [
        (3, None, report.MET),
        (2.9, None, report.SHORT),
        (2, 2.6, report.MET_BY_FLOOR),
        (1.9, 2.6, report.SHORT),
        (3, 3.1, report.MET),
    ],
)
def test_benchmark_verdict_is_met_if_target_is_reached_or_time_is_near_the_lower_bound(
    ratio: float, floor: float | None, expected: str
) -> None:
    found = {"ratio": ratio} if floor is None else {"ratio": ratio, "floor_ratio": floor}
    assert report.verdict(WORKLOADS["graph-wide-dict"], found) == expected


def test_agent_benchmark_meets_its_target_up_to_twice_the_time_of_its_lower_bound() -> None:
    row = WORKLOADS["graph-agent"]
    assert report.verdict(row, {"ratio": 2.5, "floor_ratio": 5}) == report.MET_BY_FLOOR
    assert report.verdict(row, {"ratio": 2.4, "floor_ratio": 5}) == report.SHORT


def test_benchmark_row_compared_with_a_lower_bound_misses_its_target_above_the_maximum_ratio() -> (
    None
):
    row = command.ROWS["sqlite-pause-floor"]
    assert report.verdict(row, {"ratio": 1.8}) == report.MET
    assert report.verdict(row, {"ratio": 1.9}) == report.SHORT


def test_benchmark_of_durable_rows_writes_ratio_and_verdict_as_json(tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    rows = ["sqlite-pause-floor", "sqlite-nested-floor"]
    assert command.main(["--quick", "--only", *rows, "--json", str(file)]) == 0
    measured = json.loads(file.read_text())
    assert [*measured] == rows
    for found in measured.values():
        assert found["verdict"] in (report.MET, report.SHORT)
        assert found["ratio"] > 0


def test_benchmark_tables_of_pages_are_rewritten_from_measurements(tmp_path: Path) -> None:
    for page in document.PAGES:
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(document.ROOT / page, tmp_path / page)
    times = {"langgraph": 80.04, "hitl_django": 10, "floor": 7, "ratio": 8.004, "floor_ratio": 11.4}
    measured: dict[str, dict[str, Any]] = {
        "graph-sequential-10": {**times, "growth": {"langgraph": 1.004, "hitl_django": 0.9}},
        "sqlite-sequential": times,
        "sqlite-pause-floor": {"hitl_django": 30.0, "floor": 10.0, "ratio": 3.0},
        "postgres-pause": {"error": "no server"},
    }
    document.write_tables(command.ROWS, measured, tmp_path)
    whole = command.ROWS["sqlite-pause-floor"]
    first = {page: (tmp_path / page).read_text() for page in document.PAGES}
    summary, readme = first["docs/explanation/performance.md"], first["README.md"]
    assert "\n| a super-step of a long run, including its checkpoint |  | 8 |  |\n" in summary
    for line in (
        "| 10 empty nodes, no saver | super-step | 80 | 10 | 7 | 8 | ≥ 10 | 11 | short |",
        f"| {whole.title} | thread |  | 30 | 10 | 3 | ≤ 1.8 |  | short |",
        "| 10 empty nodes, no saver | 1, 3, 10 | 1.00 | 0.90 |  |",
    ):
        assert f"\n{line}\n" in first["docs/explanation/benchmarks.md"]
    assert "\n| a super-step of a long run, including its checkpoint |  | 8 |  |\n" in readme
    assert "\n| 10 empty nodes | 8 |  |\n" in summary
    assert "empty nodes" not in readme

    document.write_tables(command.ROWS, measured, tmp_path)
    assert {page: (tmp_path / page).read_text() for page in document.PAGES} == first


def test_benchmark_overview_contains_only_names_of_measured_rows() -> None:
    named = {
        name
        for line in document.LINES
        for name in (line.memory, line.sqlite, line.postgres)
        if name
    }
    assert named <= command.ROWS.keys()


def test_benchmark_page_without_table_marker_raises_value_error() -> None:
    with pytest.raises(ValueError, match="0 places for the table 'growth'"):
        document.replace_table("no place", "growth", "")


def test_benchmark_row_shows_round_trips_if_counted() -> None:
    times = {engines.LANGGRAPH: [8e-6], engines.OURS: [4e-6]}
    found = {**report.summary(times), "statements": 3, "transactions": 1, "bytes": 5, "trips": 2}
    assert report.line(WORKLOADS["pause"], found).endswith("3.0, 1.0, 5, 2.0")


def test_benchmark_slope_of_quadratic_time_is_two() -> None:
    assert report.slope({10: 1.0, 100: 10.0, 1000: 100.0}) == pytest.approx(2)
    assert report.slope({10: 1.0, 100: 1.0}) == pytest.approx(1)
    assert report.slope({10: 1.0}) is None


def test_benchmark_workloads_are_selected_by_name_or_prefix() -> None:
    assert [row.name for row in command.chosen(["fanout"])] == ["fanout"]
    assert [row.name for row in command.chosen(["fanout-a"])] == ["fanout-async"]
    assert len(command.chosen([])) > len(WORKLOADS)


def test_benchmark_with_unknown_workload_exits_with_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        command.parse(["--only", "nothing"])
    assert "no workload begins with nothing" in capsys.readouterr().err


def test_benchmark_table_compares_full_database_with_empty_database() -> None:
    times = {
        0: {"start": {"ms": 2.0, "statements": 2}, "sweep": {"ms": 1.0, "statements": 9}},
        1_000_000: {"start": {"ms": 2.2, "statements": 2}, "sweep": {"ms": 1.6, "statements": 9}},
    }
    heads, start, sweep = filled.times_table(times).splitlines()
    assert heads.split() == ["finished", "threads", "0", "1,000,000", "ratio", "statements"]
    assert start.split() == ["start", "2.00", "2.20", "1.10", "2"]
    assert sweep.split() == ["sweep", "1.00", "1.60", "1.60", "9", "over"]


def test_benchmark_size_table_compares_thread_with_its_archive() -> None:
    sizes = {"Thread": [1.0, 200.0, 100.0], "Run": [1.0, 300.0, 150.0]}
    *_, total, archived = filled.sizes_table(sizes, [1.0, 90.0, 40.0]).splitlines()
    assert total.split() == ["all", "2", "500", "250"]
    assert archived.split() == ["archived", "1", "90", "40"]


@pytest.mark.parametrize(
    ("name", "ms", "code"),
    [
        ("search in payloads", 2.0, 1),
        ("search in payloads", 1.4, 0),
        # A search for ended threads reads ten thousand rows if there are as many.
        ("all requests, search", 2.0, 0),
    ],
)
def test_queue_benchmark_exits_with_1_above_its_target(
    name: str,
    ms: float,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = {1: {name: {"ms": 1.0, "queries": 3}}, 1000: {name: {"ms": ms, "queries": 4}}}
    monkeypatch.setattr(queue, "measured", lambda options: found)
    assert queue.main([]) == code
    assert ("over" in capsys.readouterr().out) is bool(code)


@pytest.mark.process
def test_idle_benchmark_shows_processes_and_memory_of_a_cluster(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    title = "qcluster of django-q2 alone"
    monkeypatch.setattr(idle, "ROWS", {title: idle.ROWS[title]})
    monkeypatch.setattr(idle, "QUIET", 1.0)
    assert idle.main() == 0
    assert re.fullmatch(rf"{title}: 6 processes, \d+ MB\n", capsys.readouterr().out)


def test_startup_benchmark_shows_the_cost_that_the_package_adds() -> None:
    bare = startup.measure(startup.PROJECT)
    assert min(bare.values()) > 0
    full = {name: value + 7 for name, value in bare.items()}
    lines = startup.summarize([(bare, full)])
    assert [line.partition(": ")[0] for line in lines] == [
        row.title for row in startup.MEASURES.values()
    ]
    assert lines[1].endswith("+7 (≤ +10)")
