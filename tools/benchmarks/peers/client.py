"""Measuring process of one product. The environment names its database and its module."""

from __future__ import annotations

import argparse
import json
import logging
import os
import time
from importlib import import_module
from importlib.metadata import version
from itertools import count
from typing import Any

import django

django.setup()

import psutil  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402

from ..worker import cluster  # noqa: E402
from ..worker.costs import read_costs, settle  # noqa: E402
from .job import PRODUCT  # noqa: E402

#: Number of jobs before a measurement. During these jobs, processes import modules and connect.
WARM = 40
#: Seconds without work after which the memory is read.
QUIET = 3.0

product: Any = import_module(f"{__package__}.{os.environ[PRODUCT]}")
keys = (f"refund:{number}" for number in count())


def work(jobs: int, workers: cluster.Workers) -> None:
    """Complete jobs with the workers."""
    for _ in range(jobs):
        product.start(next(keys))
    for _ in range(jobs):
        workers.signs.next("asked")
    settle()  # Some products store the request after the signal.
    for request in product.list_pending():
        product.decide(request)
    for _ in range(jobs):
        workers.signs.next("ended")
    settle()


def measure_cost(jobs: int, workers: cluster.Workers) -> dict[str, float]:
    """Return the cost per job: processor time, commits, and the rows that remain."""
    rows, before = count_rows(), read_costs(workers)
    work(jobs, workers)
    after, left = read_costs(workers), count_rows()
    found = {name: (after[name] - before[name]) / jobs for name in after}
    return found | {name: (left[name] - rows[name]) / jobs for name in left}


def measure_rate(jobs: int, workers: cluster.Workers) -> float:
    """Return the number of jobs per second, of one client that starts and decides jobs."""
    began = time.monotonic()
    for _ in range(jobs):
        product.start(next(keys))
    for _ in range(jobs):
        workers.signs.next("asked")
    seconds = time.monotonic() - began
    settle()
    began = time.monotonic()
    for request in product.list_pending():
        product.decide(request)
    for _ in range(jobs):
        workers.signs.next("ended")
    return jobs / (seconds + time.monotonic() - began)


def measure_delays(jobs: int, workers: cluster.Workers) -> list[float]:
    """Return the seconds from a decision to the next step, with idle workers."""
    for _ in range(jobs):
        product.start(next(keys))
    for _ in range(jobs):
        workers.signs.next("asked")
    settle()
    found = []
    for number, request in enumerate(product.list_pending()):
        # Distribute the decisions evenly over the polling intervals of the products.
        time.sleep(0.1 + number / jobs)
        sent = time.monotonic()
        product.decide(request)
        found.append(workers.signs.next("next").at - sent)
        workers.signs.next("ended")
    return found


def measure_memory(workers: cluster.Workers) -> dict[str, float]:
    """Return the number and the memory of the idle processes. Shared memory is counted once."""
    time.sleep(QUIET)
    found: list[psutil.Process] = workers.list_processes()
    return {
        "processes": len(found),
        "MB": sum(each.memory_full_info().pss for each in found) / 1e6,
    }


def count_rows() -> dict[str, float]:
    """Return the number of rows in all tables, and on PostgreSQL their kilobytes."""
    rows = kilobytes = 0.0
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for table in connection.introspection.table_names(cursor):
                cursor.execute(f'SELECT count(*) FROM "{table}"')
                rows += cursor.fetchone()[0]
            return {"rows": rows}
        cursor.execute(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = "
            "'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')"
        )
        for schema, table in cursor.fetchall():
            cursor.execute(
                "SELECT count(*), coalesce(sum(pg_column_size(t.*)), 0) / 1024.0 "
                f'FROM "{schema}"."{table}" t'
            )
            more, size = cursor.fetchone()
            rows, kilobytes = rows + more, kilobytes + float(size)
    return {"rows": rows, "KB": kilobytes}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--packages", nargs="+", required=True)
    options = parser.parse_args()
    logging.disable(logging.INFO)
    call_command("migrate", run_syncdb=True, skip_checks=True, verbosity=0)
    product.prepare()
    with cluster.running(*product.programs()) as workers:
        work(WARM, workers)
        memory = measure_memory(workers)
        found = {
            "cost": measure_cost(options.jobs, workers),
            "rate": measure_rate(options.jobs, workers),
            "delays": measure_delays(max(options.jobs // 10, 5), workers),
            "memory": memory,
            "versions": {name: version(name) for name in options.packages},
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
