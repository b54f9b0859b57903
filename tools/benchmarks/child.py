"""Measures one workload of one engine in a process of its own and prints the result as JSON."""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time

from tools.benchmarks import counts, durable, engines, hosted, stores, values, workloads

from .workloads import Once

ENOUGH = 2.0  # seconds of measured work after which no further round is taken
ROUND = 0.25  # seconds that a round takes at least
LONG = 3.0  # seconds of a round that is not repeated


def timed(once: Once) -> tuple[float, float]:
    """Return the seconds per unit of one round, and all of its seconds, less what it prepares.

    A round repeats what is short: the collection before it leaves the processor's caches cold,
    which would be most of what a millisecond's work shows, and weigh the more the faster an engine
    is. In rounds of a quarter of a second it weighs little with any.
    """
    gc.collect()
    units, passed = 0, 0.0
    while passed < ROUND:
        prepare(once)
        start = time.perf_counter()
        units += once()
        passed += time.perf_counter() - start
    return passed / units, passed


def prepare(once: Once) -> None:
    if hasattr(once, "prepare"):
        once.prepare()


def measure(engine: str, workload: str, size: int) -> dict[str, float]:
    """Return the seconds per unit: the median of a few rounds after one to warm up.

    A durable workload of ours is then done once more to count its statements, and on PostgreSQL
    another time to count its round trips.
    """
    row = (workloads.WORKLOADS | values.WORKLOADS | durable.WORKLOADS | hosted.WORKLOADS)[workload]
    once = row.build(engines.load(engine), size)
    first, spent = timed(once)
    # What takes seconds has warmed up long before it ends; taking it once is enough.
    times, spent = ([first], spent) if spent > LONG else ([], 0.0)
    while spent < ENOUGH:
        seconds, passed = timed(once)
        times.append(seconds)
        spent += passed
    told = {"seconds": statistics.median(times)}
    if row.store and engine == engines.OURS:
        prepare(once)
        told |= counts.counted(once)
        if row.store == stores.POSTGRES:
            prepare(once)
            told |= counts.counted_trips(once)
    return told


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
