"""Program that writes the results of benchmarks into the tables of the documentation.

A table is placed between two comments that contain its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from . import peer_graphs, report
from .engines import FLOOR, LANGGRAPH, OURS
from .stores import POSTGRES, SQLITE
from .workloads import Workload

ROOT = Path(__file__).resolve().parents[2]

#: Pages of the documentation, with the names of their tables.
PAGES = {
    "docs/explanation/performance.md": ("overview", "graphs"),
    "docs/explanation/benchmarks.md": ("targets", "growth"),
    "README.md": ("excerpt",),
}

Rows = Mapping[str, Workload]
Results = Mapping[str, Mapping[str, Any]]


class Line(NamedTuple):
    """A row of the overview: the measured operation, and the workload for each database."""

    words: str
    memory: str = ""
    sqlite: str = ""
    postgres: str = ""
    is_excerpt: bool = False


def _in_all(words: str, memory: str, name: str, *, is_excerpt: bool = False) -> Line:
    return Line(words, memory, f"{SQLITE}-{name}", f"{POSTGRES}-{name}", is_excerpt)


LINES = (
    _in_all("a super-step of a long run, including its checkpoint", "sequential-memory",
            "sequential", is_excerpt=True),
    Line("a task of a fan-out to 100", "fanout"),
    _in_all("a step of a conversation of 1,000 messages", "", "messages", is_excerpt=True),
    _in_all("a step in which a list grows by 3 KB of nested JSON", "nested-memory", "nested",
            is_excerpt=True),
    _in_all("the same by 500 KB", "nested-large", "nested-large"),
    _in_all("a step in which a dict grows by 3 KB of nested JSON", "nested-dict-memory",
            "nested-dict"),
    _in_all("a step that changes one of 300 keys", "", "wide"),
    _in_all("100 parallel interrupts, resumed by one map", "asking", "asking"),
    _in_all("an interrupt and its resume, with `invoke` and `Command(resume=…)`", "pause",
            "invoked", is_excerpt=True),
    _in_all(
        "an interrupt and its decision in a run: queue, claim, lease, audit log, messages", "",
        "pause", is_excerpt=True,
    ),
    _in_all("the same with `durability=\"async\"`", "", "async-pause"),
    _in_all("the same with `durability=\"exit\"`", "", "exit-pause"),
    _in_all("a super-step of a LangGraph graph with our checkpointer", "", "hosted"),
    _in_all("an interrupt and its resume in such a graph", "", "hosted-pause"),
)  # fmt: skip


def write_tables(rows: Rows, results: Results, root: Path = ROOT) -> list[str]:
    """Write the tables into the pages below ``root``, and return the names of the pages."""
    for page, names in PAGES.items():
        path = root / page
        text = path.read_text()
        for name in names:
            text = replace_table(text, name, TABLES[name](rows, results))
        path.write_text(text)
    return [*PAGES]


def replace_table(text: str, name: str, table: str) -> str:
    """Return the page with a new content of the named table."""
    start, end = f"<!-- benchmarks: {name} -->", "<!-- end of benchmarks -->"
    between = re.compile(f"(?<={re.escape(start)}\n).*?(?={re.escape(end)})", re.DOTALL)
    found, count = between.subn(lambda _: f"\n{table}\n\n", text)
    if count != 1:
        raise ValueError(f"A page has {count} places for the table {name!r}, not one.")
    return found


def format_overview(rows: Rows, results: Results) -> str:
    """Return the ratios by database."""
    return _format_lines(LINES, results)


def format_graphs(rows: Rows, results: Results) -> str:
    """Return the ratios of LangGraph's own benchmark graphs, without and with a saver."""
    pairs = [
        (row, results.get(name, {}), results.get(name + peer_graphs.SAVED, {}))
        for name, row in rows.items()
        if name in peer_graphs.WORKLOADS and not name.endswith(peer_graphs.SAVED)
    ]
    heads = ("Graph", "No checkpointer", "In-memory checkpointer")
    lines = [
        [row.title.removesuffix(peer_graphs.UNSAVED), *map(_spell_found, found)]
        for row, *found in pairs
        if any("ratio" in one for one in found)
    ]
    return _format_table(heads, lines)


def format_excerpt(rows: Rows, results: Results) -> str:
    """Return the short table of ratios that the README contains."""
    return _format_lines([line for line in LINES if line.is_excerpt], results)


def format_targets(rows: Rows, results: Results) -> str:
    """Return all workloads with their times, target, floor and verdict."""
    heads = ("Row", "Unit", "LangGraph, µs", "hitl-django, µs", "Floor, µs", "Ratio", "Target",
             "Floor ratio", "Result")  # fmt: skip
    return _format_table(heads, _targets(rows, results))


def format_growth(rows: Rows, results: Results) -> str:
    """Return the growth exponents of workloads that were measured at several sizes."""
    heads = ("Row", "n", "LangGraph", "hitl-django", "Floor")
    lines = [*_growth(rows, results)]
    if not lines:
        return "The measurement of this page's tables left it out: `--growth` takes some hours."
    return _format_table(heads, lines)


TABLES: Mapping[str, Callable[[Rows, Results], str]] = {
    "overview": format_overview,
    "graphs": format_graphs,
    "excerpt": format_excerpt,
    "targets": format_targets,
    "growth": format_growth,
}


def _format_lines(lines: Sequence[Line], results: Results) -> str:
    def cell(name: str) -> str:
        return _spell_found(results.get(name, {}))

    heads = ("Workload", "In memory", "SQLite", "PostgreSQL")
    cells = ((line, [*map(cell, (line.memory, line.sqlite, line.postgres))]) for line in lines)
    # Omit rows that have no measurements.
    return _format_table(heads, ([line.words, *found] for line, found in cells if any(found)))


def _targets(rows: Rows, results: Results) -> Iterator[Sequence[str]]:
    for row, found in _measured(rows, results, "ratio"):
        floor = found.get("floor_ratio")
        yield (
            row.title,
            row.unit,
            *(f"{found[one]:,.0f}" if one in found else "" for one in (LANGGRAPH, OURS, FLOOR)),
            _spell_ratio(found["ratio"]),
            report.spell_target(row),
            "" if floor is None else _spell_ratio(floor),
            report.verdict(row, found),
        )


def _growth(rows: Rows, results: Results) -> Iterator[Sequence[str]]:
    for row, found in _measured(rows, results, "growth"):
        slopes = found["growth"]
        yield (
            row.title,
            ", ".join(f"{n:,}" for n in row.growth),
            *(f"{slopes[one]:.2f}" if one in slopes else "" for one in (LANGGRAPH, OURS, FLOOR)),
        )


def _measured(
    rows: Rows, results: Results, what: str
) -> Iterator[tuple[Workload, Mapping[str, Any]]]:
    for name, row in rows.items():
        found = results.get(name, {})
        if what in found:
            yield row, found


def _spell_found(found: Mapping[str, Any]) -> str:
    return _spell_ratio(found["ratio"]) if "ratio" in found else ""


def _spell_ratio(ratio: float) -> str:
    """Format the ratio with two digits, which is the precision of a run."""
    return f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}".removesuffix(".0")


def _format_table(heads: Sequence[str], lines: Iterator[Sequence[str]] | Any) -> str:
    cells = [heads, ["---"] * len(heads), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)
