"""Process that measures one workload with one engine and prints the result as JSON."""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable

from tools.benchmarks import counts, engines, stores

from .__main__ import ROWS
from .workloads import Once

ENOUGH = 2.0  # After this many seconds of measured work, no further round starts.
ROUND = 0.25  # Minimum number of seconds of a round.
LONG = 3.0  # A round that takes longer than this many seconds is not repeated.


def timed(once: Once, clock: Callable[[], float] = time.perf_counter) -> tuple[float, float]:
    """Return the seconds per unit of one round, and the round's total seconds without preparation.

    A round repeats short work. The garbage collection before a round leaves the CPU's caches cold,
    which would dominate a single millisecond of work. In a round of a quarter of a second, the
    effect is small.
    """
    gc.collect()
    units, passed = 0, 0.0
    while passed < ROUND:
        prepare(once)
        start = clock()
        units += once()
        passed += clock() - start
    return passed / units, passed


def prepare(once: Once) -> None:
    if hasattr(once, "prepare"):
        once.prepare()


def measure(engine: str, workload: str, size: int) -> dict[str, float]:
    """Return the seconds per unit, i.e. the median of a few rounds after one warm-up round.

    For durable workloads of this package, the work is repeated afterwards to count its statements
    and, on PostgreSQL, its round trips.
    """
    row = ROWS[workload]
    # Work that waits for no other process is measured in processor time, which other load on the
    # machine affects less.
    clock = time.perf_counter if row.store else time.process_time
    once = row.build(engines.load(engine), size)
    first, spent = timed(once, clock)
    # Long work warms up while it runs, so it is measured only once.
    times, spent = ([first], spent) if spent > LONG else ([], 0.0)
    while spent < ENOUGH:
        seconds, passed = timed(once, clock)
        times.append(seconds)
        spent += passed
    result = {"seconds": statistics.median(times)}
    if row.store and engine == engines.OURS:
        prepare(once)
        result |= counts.counted(once)
        if row.store == stores.POSTGRES:
            prepare(once)
            result |= counts.counted_trips(once)
    return result


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
