"""Tables and modules of the comparison with other products, without its measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.benchmarks.peers import __main__ as command
from tools.benchmarks.peers.products import PRODUCTS


def test_every_product_has_a_module_and_pinned_packages() -> None:
    folder = Path(command.__file__).parent
    names = {requirement.partition("==")[0].partition("[")[0] for requirement in command.PINNED}
    for product in PRODUCTS.values():
        assert (folder / f"{product.module}.py").is_file()
        assert {*product.packages} <= names | {"django-q2"}, product.title


def test_table_shows_medians_of_all_measurements_by_database() -> None:
    results: command.Results = {
        ("postgres", "dbos"): [_measure(20.0), _measure(30.0), _measure(22.0)],
        ("sqlite", "dbos"): [_measure(10.0, is_sized=False)],
    }
    text = "\n".join(command.write_tables(results))
    _, first, second = text.split("| Product |")
    assert "| DBOS 3.4.0 | 22.0 | 27 | 11 | 2.5 | 200 | 40 | 2 | 109 |" in first
    assert "SQLite:" in first
    assert "| DBOS 3.4.0 | 10.0 |  | 11 |  | 200 | 40 | 2 | 109 |" in second


def _measure(milliseconds: float, *, is_sized: bool = True) -> Any:
    sized = {"commits": 27.1, "KB": 2.46} if is_sized else {}
    return {
        "cost": {"ms": milliseconds, "rows": 11.0, **sized},
        "rate": 40.2,
        "delays": [0.1, 0.2, 0.3],
        "memory": {"processes": 2, "MB": 109.2},
        "versions": {"dbos": "3.4.0"},
    }
