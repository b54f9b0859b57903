"""Program that measures the review queue with 10,000 and with 1,000,000 interrupts.

A tenth of the interrupts is pending.

    python -m tools.benchmarks.queue [--sizes 10000 1000000] [--rounds N] [--json FILE] [--keep]

The database is PostgreSQL: a new server from a wheel, or the server in DATABASE_URL. With --keep,
the filled databases stay on the server for the next run. The benchmark measures the median time of
whole requests as sent by a reviewer's browser, without the network. Pages show the same number of
rows at each size, so the ratio compares the times for finding these rows. With fewer than 5,000
interrupts, the counts next to the list are below their limits. Exits with 1 if a request for
pending rows takes more than 1.5 times as long at the largest size.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

from tools.benchmarks import children
from tools.benchmarks.queue_child import PAST

CHILD = f"{__package__}.queue_child"
TIMEOUT = 3600
TARGET = 1.5
SIZES = (10_000, 1_000_000)
#: Number of processes that claim concurrently.
AT_ONCE = 8


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    found = measured(options)
    print(table(found))
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n")
    return int(any(is_over(found, name) for name in next(iter(found.values()))))


def is_over(found: dict[int, dict[str, Any]], name: str) -> bool:
    """Return whether a row with a target exceeds this target."""
    return name not in PAST and _ratio(found, name) > TARGET


def _ratio(found: dict[int, dict[str, Any]], name: str) -> float:
    times = [rows[name]["ms"] for rows in found.values()]
    return float(times[-1] / times[0])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.queue", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), metavar="N")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds over all sizes (5)")
    parser.add_argument("--repeat", type=int, default=5, help="times of each in a round (5)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure these rows alone")
    parser.add_argument("--json", metavar="FILE", help="write the measurements here as well")
    parser.add_argument("--keep", action="store_true", help="leave the databases")
    return parser.parse_args(arguments)


def table(found: dict[int, dict[str, Any]]) -> str:
    """Return the times in milliseconds and the maximum number of queries.

    The table also has the ratio of the largest size to the smallest.
    """
    sizes = list(found)
    heads = "".join(f"{size:>12,}" for size in sizes)
    lines = [f"{'':24}{heads}{'ratio':>10}{'queries':>9}"]
    for name in found[sizes[0]]:
        rows = [found[size][name] for size in sizes]
        times = "".join(f"{row['ms']:12.1f}" for row in rows)
        ratio = _ratio(found, name)
        late = "  over" if is_over(found, name) else ""
        queries = max(row["queries"] for row in rows)
        lines.append(f"{name:24}{times}{ratio:10.2f}{queries:9}{late}")
    return "\n".join(lines)


def measured(options: argparse.Namespace) -> dict[int, dict[str, Any]]:
    """Fill a database of each size, and measure each row at all sizes.

    The measurements alternate, so that other load affects all sizes.
    """
    found: dict[int, dict[str, Any]] = {size: {} for size in options.sizes}
    with ExitStack() as stack:
        urls = {
            size: stack.enter_context(children.database(f"queue_{size}", keep=options.keep))
            for size in found
        }
        for size, url in urls.items():
            children.start(CHILD, url, "--fill", str(size)).wait(TIMEOUT)
        arguments = "--measure", "--repeat", str(options.repeat)
        processes = {size: children.start(CHILD, url, *arguments) for size, url in urls.items()}
        stack.callback(lambda: [process.kill() for process in processes.values()])
        rows, *_ = [json.loads(children.read_line(process)) for process in processes.values()]
        for name in options.only or rows:
            rounds = [
                {size: children.ask(process, name) for size, process in processes.items()}
                for _ in range(options.rounds)
            ]
            for size in found:
                found[size][name] = _middle([times[size] for times in rounds])
        for size, url in urls.items():
            if not options.only:
                found[size][f"take next, {AT_ONCE} at once"] = _taken_at_once(url, size)
    return found


def _middle(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    return sorted(rounds, key=itemgetter("ms"))[len(rounds) // 2]


def _taken_at_once(url: str, size: int) -> dict[str, Any]:
    """Claim concurrently in several processes, and check that no interrupt is claimed twice."""
    count = max(2, min(20, size // 10_000))
    processes = [children.start(CHILD, url, "--take", str(count)) for _ in range(AT_ONCE)]
    try:
        for process in processes:
            children.read_line(process)
        for process in processes:
            children.write_line(process)
        found = [json.loads(children.read_line(process)) for process in processes]
        for process in processes:
            children.write_line(process)
            process.wait(TIMEOUT)
    finally:
        for process in processes:
            process.kill()
    taken = [key for one in found for key in one["taken"]]
    assert len(set(taken)) == len(taken) == AT_ONCE * count, "an interrupt was claimed twice"
    times = [took for one in found for took in one["times"]]
    return {"ms": median(times) * 1000, "queries": 0}


if __name__ == "__main__":
    sys.exit(main())
