"""Cost of the work of all processes: client, workers, database and broker."""

from __future__ import annotations

import os
import time

import psutil
from django.db import connection

from .cluster import Workers

#: Environment variable that contains the process id of the broker, if the queue has one.
BROKER = "HITL_BENCH_BROKER"


def settle() -> None:
    """Wait until idle sessions have reported their statistics to the server."""
    time.sleep(1.5)


def read_costs(workers: Workers) -> dict[str, float]:
    """Return the milliseconds of processors so far, and the statistics of PostgreSQL."""
    costs = {
        "client ms": 1000 * time.process_time(),
        "worker ms": 1000 * sum(map(_read_cpu, workers.list_processes())),
    }
    if broker := os.environ.get(BROKER):
        costs["broker ms"] = 1000 * _read_cpu(psutil.Process(int(broker)))
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SHOW data_directory")
            (folder,) = cursor.fetchone()
            cursor.execute(
                "SELECT xact_commit, sessions, pg_current_wal_insert_lsn() - '0/0' "
                "FROM pg_stat_database WHERE datname = current_database()"
            )
            commits, sessions, written = map(float, cursor.fetchone())
        with open(f"{folder}/postmaster.pid") as file:
            server = psutil.Process(int(file.readline()))
        processes = [server, *server.children(recursive=True)]
        costs["database ms"] = 1000 * sum(map(_read_cpu, processes))
        costs |= {"commits": commits, "connections": sessions, "WAL KB": written / 1024}
    costs["ms"] = sum(value for name, value in costs.items() if name.endswith(" ms"))
    return costs


def _read_cpu(process: psutil.Process) -> float:
    """Return the processor seconds of a process and of its ended children."""
    try:
        return sum(process.cpu_times()[:4])
    except psutil.NoSuchProcess:
        return 0.0  # It has just ended, so its parent includes its time.
