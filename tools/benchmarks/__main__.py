"""Program that measures every workload with LangGraph and with this package.

    python -m tools.benchmarks [--only NAME ...] [--repeat N] [--quick] [--growth] [--json FILE]
    python -m tools.benchmarks --document FILE

Each measurement runs in a new process. The two engines alternate, so that other load on the machine
affects both. Times are medians. Rows without a database are measured in processor time. Absolute
times depend on the machine, so the ratio of both engines is compared with its target. The floor is
the time of the work without an engine. A target below the floor is met at 1.3 times the floor.
``--document`` writes the results of an earlier run into the tables of the documentation.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tools.benchmarks import document, durable, hosted, peer_graphs, report, stores, values

from .engines import ENGINES, FLOOR, OURS
from .workloads import WORKLOADS, Workload

ROOT = Path(__file__).resolve().parents[2]
ROWS: dict[str, Workload] = (
    peer_graphs.WORKLOADS | WORKLOADS | values.WORKLOADS | durable.WORKLOADS | hosted.WORKLOADS
)
TIMEOUT = 300  # Maximum number of seconds of a process.


class Failed(Exception):
    """A measurement failed.

    The message is the last line of its output.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.document:
        measured = json.loads(Path(options.document).read_text())
        print("\n".join(document.write_tables(ROWS, measured)))
        return 0
    rows = chosen(options.only)
    results: dict[str, Any] = {}
    with stores.prepared({row.store for row in rows} - {""}) as environment:
        print(report.HEAD, flush=True)
        for row in rows:
            results[row.name] = compare(row, options, environment)
            keep(results, options)
        if options.growth:
            print("\ngrowth: exponent of n in the total time (1 is linear)")
            for row in rows:
                results[row.name]["growth"] = grow(row, options, environment)
                keep(results, options)
    return 0


def keep(results: dict[str, Any], options: argparse.Namespace) -> None:
    """Save the current results, because a complete run takes hours."""
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="NAME",
        help="workloads, or the beginnings of their names: " + ", ".join(ROWS),
    )
    parser.add_argument("--engine", choices=ENGINES, help="measure this one only")
    parser.add_argument("--repeat", type=int, default=5, help="processes per engine (5)")
    parser.add_argument("--quick", action="store_true", help="small sizes, one process each")
    parser.add_argument("--growth", action="store_true", help="fit how time grows with n")
    parser.add_argument("--json", metavar="FILE", help="write the measurements here as well")
    parser.add_argument(
        "--document", metavar="FILE", help="measure nothing; write the tables of the docs from this"
    )
    options = parser.parse_args(arguments)
    if options.quick:
        options.repeat = 1
    if options.repeat < 1:
        parser.error("--repeat is at least 1.")
    unknown = [start for start in options.only if not any(name.startswith(start) for name in ROWS)]
    if unknown:
        parser.error(f"no workload begins with {', '.join(unknown)}; there are: {', '.join(ROWS)}")
    return options


def chosen(starts: Iterable[str]) -> list[Workload]:
    """Return the workloads whose names start with these texts, by default all workloads."""
    rows = [*ROWS.values()]
    exact = [row for row in rows if row.name in starts]
    loose = [start for start in starts if start not in {row.name for row in exact}]
    picked = [
        row for row in rows if row in exact or any(row.name.startswith(start) for start in loose)
    ]
    return picked if starts else rows


def engines_of(options: argparse.Namespace, row: Workload) -> tuple[str, ...]:
    if options.engine:
        return (options.engine,)
    return (row.against, OURS, FLOOR) if row.floor else (row.against, OURS)


def compare(
    row: Workload, options: argparse.Namespace, environment: dict[str, str]
) -> dict[str, Any]:
    """Measure a workload and print its row."""
    size = max(1, row.size // 10) if options.quick else row.size
    times: dict[str, list[float]] = {engine: [] for engine in engines_of(options, row)}
    counted: dict[str, float] = {}
    try:
        for _ in range(options.repeat):
            for engine in times:
                result = measure(engine, row, size, environment)
                times[engine].append(result.pop("seconds"))
                counted |= result if engine == OURS else {}
    except Failed as failure:
        print(report.line(row, {}, str(failure)), flush=True)
        return {"error": str(failure)}
    found = report.summary(times, row.against) | counted
    print(report.line(row, found), flush=True)
    result: dict[str, Any] = {"size": size, "target": row.target, "seconds": times, **found}
    return result | {"verdict": report.verdict(row, found)} if "ratio" in found else result


def grow(
    row: Workload, options: argparse.Namespace, environment: dict[str, str]
) -> dict[str, float | None]:
    """Measure a workload at several sizes, and print how its total time grows."""
    slopes: dict[str, float | None] = {}
    for engine in engines_of(options, row):
        try:
            points = {n: measure(engine, row, n, environment)["seconds"] for n in row.growth}
        except Failed as failure:
            print(f"{row.title:54} {engine}: {failure}", flush=True)
            continue
        slopes[engine] = report.slope(points)
    spelled = "  ".join(f"{engine} {value:.2f}" for engine, value in slopes.items() if value)
    print(f"{row.title:54} n = {', '.join(map(str, row.growth))}:  {spelled}", flush=True)
    return slopes


def measure(engine: str, row: Workload, size: int, environment: dict[str, str]) -> dict[str, float]:
    """Run one measurement in a new process, and return the seconds per unit."""
    command = [sys.executable, "-m", "tools.benchmarks.child", engine, row.name, str(size)]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{engine}: no result after {TIMEOUT} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise Failed(f"{'ours' if engine == OURS else engine}: {lines[-1][:120]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


if __name__ == "__main__":
    sys.exit(main())
