"""Measuring process of the jobs. The environment names its database."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import django

django.setup()

from django.apps import apps  # noqa: E402
from django.db import connection, transaction  # noqa: E402

from hitl_django import services  # noqa: E402
from hitl_django.models import Interrupt, Run  # noqa: E402
from hitl_django.testing import inline  # noqa: E402
from hitl_django.worker import advance as execute  # noqa: E402

from ..counts import counting  # noqa: E402
from ..worker import cluster  # noqa: E402
from ..worker.costs import read_costs, settle  # noqa: E402
from . import graphs  # noqa: E402

#: Number of jobs before a measurement. During these jobs, a process imports modules, connects and
#: builds the graph.
WARM = 20
#: Seconds that the last step of a job takes while its workers are killed.
WAITS = 0.05


keys = (f"refund:{number}" for number in count())


def start(number: int, waits: float = 0.0) -> list[Any]:
    given = {"customer": "Dana K.", "cents": 12000, "waits": waits}
    return [services.start(graphs.GRAPH, given, key=next(keys)).id for _ in range(number)]


def find_pending(runs: Sequence[Any]) -> list[Any]:
    return list(Interrupt.objects.filter(run__in=runs).values_list("pk", flat=True))


def decide(interrupts: Sequence[Any]) -> None:
    for each in interrupts:
        services.decide(each, "approve")


def work(jobs: int, workers: cluster.Workers) -> None:
    """Complete jobs with the workers."""
    runs = start(jobs)
    for _ in range(jobs):
        workers.signs.next("asked")
    decide(find_pending(runs))
    for _ in range(jobs):
        workers.signs.next("ended")


def measure_cost(jobs: int, workers: cluster.Workers) -> dict[str, float]:
    """Return the cost per job: milliseconds of processors, commits, connections, and WAL bytes."""
    work(WARM, workers)
    settle()
    before, began = read_costs(workers), time.monotonic()
    work(jobs, workers)
    seconds = time.monotonic() - began
    settle()
    after = read_costs(workers)
    found = {name: (after[name] - before[name]) / jobs for name in after}
    return {**found, "a second": jobs / seconds}


def measure_delays(jobs: int, workers: cluster.Workers) -> list[float]:
    """Return the seconds from a decision to the next step, with idle workers."""
    runs = start(jobs)
    for _ in range(jobs):
        workers.signs.next("asked")
    found = []
    for number, interrupt in enumerate(find_pending(runs)):
        # Distribute the messages evenly over the polling interval of the queue.
        time.sleep(0.1 + number / jobs * 0.2)
        sent = time.monotonic()
        decide([interrupt])
        found.append(workers.signs.next("next").at - sent)
        workers.signs.next("ended")
    return found


def measure_recovery(jobs: int, workers: cluster.Workers) -> list[float]:
    """Kill all processes during jobs and restart them at once.

    Returns the seconds from the kill until the last step of each remaining job was stored.
    """
    with inline() as advance:
        runs = start(jobs, WAITS)
        advance()
    with transaction.atomic():
        decide(find_pending(runs))
    for _ in range(jobs // 4):
        workers.signs.next("ended")
    workers.kill()
    killed = time.monotonic()
    workers.signs.count("ended")
    left = Run.objects.filter(pk__in=runs).exclude(state=Run.State.SUCCEEDED).count()
    workers.start()
    return [workers.signs.next("ended").at - killed for _ in range(left)]


def measure_calls() -> dict[str, float]:
    """Return the Python calls and the statements of one job, by its parts, in this process."""
    found: dict[str, float] = {}

    def measure(name: str, part: Callable[[], object]) -> None:
        calls = 0

        def note(frame: Any, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        with counting() as counts:
            part()
        sys.setprofile(note)
        try:
            part()
        finally:
            sys.setprofile(None)
        found[f"{name} statements"], found[f"{name} calls"] = counts.statements, calls

    with inline() as advance:
        work_inline(3, advance)  # executes code that runs only once per process
        measure("start", lambda: start(1))
        first, second = start(2), start(2)
        measure("first", lambda: execute(str(first.pop())))
        for run in second:
            execute(str(run))
        pending = find_pending(second)
        measure("decide", lambda: decide([pending.pop()]))
        measure("second", lambda: execute(str(second.pop())))
        advance()
    for kind in ("calls", "statements"):
        found[kind] = sum(value for name, value in found.items() if name.endswith(f" {kind}"))
    return found


def work_inline(jobs: int, advance: Callable[[], object]) -> None:
    runs = start(jobs)
    advance()
    decide(find_pending(runs))
    advance()


def measure_rows(jobs: int) -> dict[str, float]:
    """Return the number of rows that one job leaves, and on PostgreSQL their size."""
    before = count_rows()
    with inline() as advance:
        work_inline(jobs, advance)
    after = count_rows()
    return {name: (after[name] - before[name]) / jobs for name in after}


def count_rows() -> dict[str, float]:
    is_sized = connection.vendor == "postgresql"
    size = "coalesce(sum(pg_column_size(t.*)), 0) / 1024.0" if is_sized else "0"
    rows = kilobytes = 0.0
    with connection.cursor() as cursor:
        for model in apps.get_app_config("hitl_django").get_models():
            if not model._meta.proxy:
                cursor.execute(f"SELECT count(*), {size} FROM {model._meta.db_table} t")
                more, bytes_ = cursor.fetchone()
                rows, kilobytes = rows + more, kilobytes + float(bytes_)
    return {"rows": rows, **({"KB": kilobytes} if is_sized else {})}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="+", choices=["calls", "rows", "cost", "delays", "recovery"])
    parser.add_argument("--jobs", type=int, required=True)
    options = parser.parse_args()
    logging.disable(logging.INFO)  # django-q2 logs every message.
    found: dict[str, Any] = {}
    if "calls" in options.what:
        found["calls"] = measure_calls()
    if "rows" in options.what:
        found["rows"] = measure_rows(10)
    if {"cost", "delays", "recovery"} & {*options.what}:
        with cluster.running() as workers:
            if "cost" in options.what:
                found["cost"] = measure_cost(options.jobs, workers)
            if "delays" in options.what:
                found["delays"] = measure_delays(options.jobs // 8, workers)
            if "recovery" in options.what:
                found["recovery"] = measure_recovery(options.jobs // 4, workers)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
