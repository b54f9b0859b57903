"""The benchmarks do what they say; how fast, no test asks."""

from __future__ import annotations

import pytest

from tools.benchmarks import __main__ as command
from tools.benchmarks import engines, filled, report
from tools.benchmarks.workloads import WORKLOADS


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_comes_to_its_result(name: str) -> None:
    row = WORKLOADS[name]
    once = row.build(engines.load(engines.OURS), 3)
    assert once() == 3
    assert once() == 3


def test_the_ratio_is_that_of_neighbouring_runs() -> None:
    times = {engines.LANGGRAPH: [2e-6, 8e-6, 4e-6], engines.OURS: [1e-6, 2e-6, 1e-6]}
    found = report.summary(times)
    assert found["ratio"] == pytest.approx(4)
    assert found[engines.OURS] == pytest.approx(1)
    assert found["spread"] == pytest.approx([2, 4])


def test_the_floor_says_which_ratio_would_be_the_highest() -> None:
    times = {engines.LANGGRAPH: [8e-6], engines.OURS: [4e-6], engines.FLOOR: [2e-6]}
    found = {**report.summary(times), "statements": 3, "transactions": 1, "bytes": 5}
    row = WORKLOADS["pause"]
    assert found["floor_ratio"] == pytest.approx(4)
    assert "ratio" in found
    assert report.line(row, found).endswith("3.0, 1.0, 5; these alone 2.0, 4.0x")


def test_round_trips_are_shown_where_they_were_counted() -> None:
    times = {engines.LANGGRAPH: [8e-6], engines.OURS: [4e-6]}
    found = {**report.summary(times), "statements": 3, "transactions": 1, "bytes": 5, "trips": 2}
    assert report.line(WORKLOADS["pause"], found).endswith("3.0, 1.0, 5, 2.0")


def test_time_that_grows_with_the_square_has_slope_two() -> None:
    assert report.slope({10: 1.0, 100: 10.0, 1000: 100.0}) == pytest.approx(2)
    assert report.slope({10: 1.0, 100: 1.0}) == pytest.approx(1)
    assert report.slope({10: 1.0}) is None


def test_workloads_are_chosen_by_name_or_by_its_beginning() -> None:
    assert [row.name for row in command.chosen(["sequential"])] == ["sequential"]
    assert [row.name for row in command.chosen(["fanout-a"])] == ["fanout-async"]
    assert len(command.chosen([])) > len(WORKLOADS)


def test_an_unknown_workload_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.parse(["--only", "nothing"])
    assert "no workload begins with nothing" in capsys.readouterr().err


def test_a_full_database_is_set_beside_an_empty_one() -> None:
    times = {
        0: {"start": {"ms": 2.0, "statements": 2}, "sweep": {"ms": 1.0, "statements": 9}},
        1_000_000: {"start": {"ms": 2.2, "statements": 2}, "sweep": {"ms": 1.6, "statements": 9}},
    }
    heads, start, sweep = filled.times_table(times).splitlines()
    assert heads.split() == ["finished", "threads", "0", "1,000,000", "ratio", "statements"]
    assert start.split() == ["start", "2.00", "2.20", "1.10", "2"]
    assert sweep.split() == ["sweep", "1.00", "1.60", "1.60", "9", "over"]


def test_what_a_thread_leaves_is_added_up_beside_what_it_has_in_the_archive() -> None:
    sizes = {"Thread": [1.0, 200.0, 100.0], "Run": [1.0, 300.0, 150.0]}
    *_, total, archived = filled.sizes_table(sizes, [1.0, 90.0, 40.0]).splitlines()
    assert total.split() == ["all", "2", "500", "250"]
    assert archived.split() == ["archived", "1", "90", "40"]
