"""Process of the benchmark of filled databases.

The process fills or measures the database in DATABASE_URL.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

#: Number of threads that one call of retention deletes, prunes or archives.
PORTION = 10
#: Number of runs over which costs are averaged.
RUNS = 200


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fill", type=int)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--repeat", type=int, default=10)
    options = parser.parse_args()

    import django

    # The documentation recommends this option.
    os.environ["DATABASE_URL"] += "&prepare_threshold=0"
    logging.disable(logging.INFO)
    django.setup()
    from tools.benchmarks import filled_rows

    filled_rows.register()
    if options.fill is not None:
        fill(options.fill)
    if options.measure:
        measure(options.repeat)


def fill(threads: int) -> None:
    """Create the threads, unless an earlier run has created them."""
    from django.core.management import call_command

    from hitl_django.models import Thread
    from tools.benchmarks import filled_rows

    call_command("migrate", verbosity=0)
    if threads and not Thread.objects.filter(pk__lt=2_000_000, pk__gt=1_000_000).exists():
        began = time.perf_counter()
        filled_rows.fill(threads)
        print(f"{threads:,} stored in {time.perf_counter() - began:.0f} s", file=sys.stderr)


def measure(repeat: int) -> None:
    """Print sizes and costs. Then print the times of a round for each line of input."""
    from tools.benchmarks import filled_rows

    sizes = filled_rows.measure_sizes()
    Round().run(3)  # Warms up caches.
    result = {
        "sizes": sizes,
        "archived": filled_rows.measure_archived(),
        "costs": measure_costs(),
    }
    print(json.dumps(result), flush=True)
    statements = Round(is_counted=True).run(1)
    for _ in sys.stdin:
        times = Round().run(repeat)
        found = {name: {"ms": times[name], "statements": statements[name]} for name in times}
        print(json.dumps(found), flush=True)


def measure_costs() -> dict[str, float]:
    """Return the costs of one run, from its start to its end, including its interrupt."""
    from tools.benchmarks import filled_rows

    before = filled_rows.read_server_meters()
    used = time.process_time()
    for _ in range(RUNS):
        filled_rows.finish(filled_rows.begin())
    used = time.process_time() - used
    after = filled_rows.read_server_meters()
    found = {name: (after[name] - before[name]) / RUNS for name in after}
    return {"processor here, ms": used / RUNS * 1000, **found}


class Round:
    """Operations on several runs, from their start to their end, and the periodic jobs."""

    def __init__(self, *, is_counted: bool = False) -> None:
        self.is_counted = is_counted
        self.found: dict[str, list[float]] = {}

    def run(self, repeat: int) -> dict[str, float]:
        """Return the median time in milliseconds or number of statements, by operation."""
        from django.db import connection

        connection.force_debug_cursor = self.is_counted
        for _ in range(repeat):
            self._take_a_run()
        for _ in range(max(2, repeat // 3)):
            self._look_after_all()
        return {name: median(each) for name, each in self.found.items()}

    def _take_a_run(self) -> None:
        from hitl_django import services
        from hitl_django.models import Interrupt
        from hitl_django.worker import runner
        from tools.benchmarks import filled_rows

        run = self._timed("start", filled_rows.begin)
        with self._claims_apart():
            self._timed("steps to an interrupt", lambda: runner.advance(str(run.id)))
        interrupt = Interrupt.objects.get(run=run.id)
        self._timed("decide", lambda: services.decide(interrupt.pk, "respond", "yes"))
        with self._claims_apart():
            self._timed("steps to the end", lambda: runner.advance(str(run.id)))

    def _look_after_all(self) -> None:
        from hitl_django.contrib.archive.retention import archive_ended
        from hitl_django.graph_registry import compatibility
        from hitl_django.worker import retention, sweeper
        from tools.benchmarks import filled_rows

        self._timed("sweep", sweeper.sweep)
        filled_rows.age_a_shape()
        compatibility.clear_structures()
        self._timed("sweep: shapes", compatibility.remove_unused_structures)
        days = filled_rows.age_threads(PORTION)
        pruning = retention.prune_ended(days)
        self._timed(f"prune {PORTION}", lambda: next(pruning))
        self._timed(f"delete {PORTION}", lambda: retention.delete_ended(days, PORTION))
        filled_rows.age_threads(PORTION)
        self._timed(f"archive {PORTION}", lambda: archive_ended(days, PORTION))
        retention.delete_ended(days, PORTION)

    def _timed(self, name: str, act: Callable[[], Any]) -> Any:
        claimed = sum(self.found.get("claim", ()))
        began = self._read_meter()
        found = act()
        took = self._read_meter() - began - (sum(self.found.get("claim", ())) - claimed)
        self.found.setdefault(name, []).append(took)
        return found

    def _read_meter(self) -> float:
        from django.db import connection

        return len(connection.queries_log) if self.is_counted else time.perf_counter() * 1000

    @contextmanager
    def _claims_apart(self) -> Iterator[None]:
        """Measure claims separately from the operations that include them."""
        from hitl_django import run_leases

        claim = run_leases.claim
        run_leases.claim = lambda run_id: self._timed("claim", lambda: claim(run_id))
        try:
            yield
        finally:
            run_leases.claim = claim


if __name__ == "__main__":
    main()
