"""Program that measures the cost of runs in an empty database and in a database with many threads.

    python -m tools.benchmarks.filled [--threads N …] [--rounds N] [--json FILE] [--keep]

The database is PostgreSQL: a new server from a wheel, or the server in DATABASE_URL. With --keep,
the filled databases stay on the server for the next run. N threads are finished, and a tenth of
this number waits for review. The first table contains the median times of operations on one run,
and the second table the stored size of a finished thread. A million threads take 12 GB of disk
space and a quarter of an hour.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from tools.benchmarks import children

CHILD = f"{__package__}.filled_child"
TIMEOUT = 6 * 3600
TARGET = 1.5
THREADS = (1_000_000,)

Sizes = dict[str, list[int]]


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    found = measured(options)
    print(times_table(found["times"]))
    print()
    fullest = max(found["sizes"])
    print(sizes_table(found["sizes"][fullest], found["archived"][fullest]))
    print()
    print(costs_table(found["costs"]))
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.filled", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--threads", nargs="+", type=int, default=list(THREADS), metavar="N")
    parser.add_argument("--rounds", type=int, default=7, help="number of rounds over all databases")
    parser.add_argument("--repeat", type=int, default=10, help="runs of a round")
    parser.add_argument("--json", metavar="FILE", help="write the measurements here as well")
    parser.add_argument("--keep", action="store_true", help="leave the databases")
    return parser.parse_args(arguments)


def times_table(times: dict[int, dict[str, dict[str, float]]]) -> str:
    """Return the times in milliseconds, and the ratio of the largest database to the empty one."""
    counts = list(times)
    empty, full = times[counts[0]], times[counts[-1]]
    heads = "".join(f"{count:>12,}" for count in counts)
    lines = [f"{'finished threads':24}{heads}{'ratio':>10}{'statements':>12}"]
    for name, row in full.items():
        columns = "".join(f"{times[count][name]['ms']:12.2f}" for count in counts)
        ratio = row["ms"] / empty[name]["ms"]
        late = "  over" if ratio > TARGET else ""
        lines.append(f"{name:24}{columns}{ratio:10.2f}{row['statements']:12.0f}{late}")
    return "\n".join(lines)


def sizes_table(found: dict[str, list[float]], archived: list[float]) -> str:
    """Return the stored size of a thread in each table, and in the archive."""
    lines = [f"{'of a thread':24}{'rows':>10}{'bytes':>10}{'indexes':>10}"]
    total = [sum(column) for column in zip(*found.values(), strict=True)]
    for name, row in [*found.items(), ("all", total), ("archived", archived)]:
        lines.append(f"{name:24}" + "".join(f"{each:10,.0f}" for each in row))
    return "\n".join(lines)


def costs_table(costs: dict[int, dict[str, float]]) -> str:
    """Return a table with the costs of a run at each number of finished threads."""
    heads = "".join(f"{count:>12,}" for count in costs)
    lines = [f"{'of a run':28}{heads}"]
    for name in costs[0]:
        lines.append(f"{name:28}" + "".join(f"{each[name]:12,.1f}" for each in costs.values()))
    return "\n".join(lines)


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Fill a database of each size, and measure all of them.

    The measurements alternate, so that other load affects all sizes.
    """
    counts = sorted({0, *options.threads})
    with ExitStack() as stack:
        urls = {
            count: stack.enter_context(children.database(f"filled_{count}", keep=options.keep))
            for count in counts
        }
        for count, url in urls.items():
            children.start(CHILD, url, "--fill", str(count)).wait(TIMEOUT)
        how = "--measure", "--repeat", str(options.repeat)
        processes = {count: children.start(CHILD, url, *how) for count, url in urls.items()}
        stack.callback(lambda: [process.kill() for process in processes.values()])
        results = {count: json.loads(children.read_line(each)) for count, each in processes.items()}
        rounds = [
            {count: children.ask(process, "round") for count, process in processes.items()}
            for _ in range(options.rounds)
        ]
    return {
        "times": {count: _medians([each[count] for each in rounds]) for count in counts},
        **{
            what: {count: each[what] for count, each in results.items()}
            for what in ("sizes", "archived", "costs")
        },
    }


def _medians(rounds: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    return {
        name: {what: median(each[name][what] for each in rounds) for what in row}
        for name, row in rounds[0].items()
    }


if __name__ == "__main__":
    sys.exit(main())
