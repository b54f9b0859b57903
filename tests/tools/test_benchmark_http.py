"""Functionality of the benchmark of the API, without its times."""

from __future__ import annotations

import pytest

from tools.benchmarks.http import __main__ as command


@pytest.mark.cluster
@pytest.mark.any_database
def test_http_benchmark_measures_each_request_and_a_bare_rest_framework_view_of_its_rows(
    database_url: str,
) -> None:
    found = command.measured({"DATABASE_URL": database_url}, 1)
    assert {*found} == {name + view for name in command.TARGETS for view in ("", ", bare")}
    assert all(figure > 0 for figures in found.values() for figure in figures.values())
    assert found["list, bare"]["calls"] < found["list"]["calls"] * 2


def test_http_benchmark_line_compares_request_with_bare_rest_framework_view() -> None:
    bare = {"ms": 2.0, "calls": 10_000, "statements": 5}
    found = {name + view: bare for name in command.TARGETS for view in ("", ", bare")}
    found["list"] = {"ms": 3.0, "calls": 15_000, "statements": 5}
    assert command.summarize(found)[0] == (
        "list: 3.0 ms (1.50 × 2.0), 15,000 calls (1.50 × 10,000), 5 statements (1.00 × 5); target 2"
    )
