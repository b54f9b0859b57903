"""Measuring process of a queue. The environment names its database and broker."""

from __future__ import annotations

import argparse
import fcntl
import json
import logging
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import django

django.setup()

from django.db import transaction  # noqa: E402

from hitl_django import services  # noqa: E402
from hitl_django.models import Interrupt, Run  # noqa: E402
from hitl_django.testing import inline  # noqa: E402

from ..worker import cluster, graphs  # noqa: E402
from ..worker.costs import read_costs, settle  # noqa: E402
from .queues import QUEUES, TaskQueue  # noqa: E402

#: Number of workers in all measurements with a fixed number.
USUAL = 2
#: Number of runs before a measurement. During these runs, a process imports modules, connects and
#: builds the graph.
WARM = 20
#: Share of a batch that is excluded from its rate, because the workers are warming up.
HEAD = 0.1
#: Seconds that a node waits, in measurements with waiting nodes.
WAITS = 0.05
#: Seconds after which a run counts as lost: three times the sum of lease and sweep interval.
PATIENCE = 180


def create_interrupts(count: int, **state: Any) -> list[Any]:
    """Create ``count`` pending interrupts without leaving messages in the queue."""
    with inline() as advance:
        runs = [services.start(graphs.GRAPH, {"waits": 0, **state}).id for _ in range(count)]
        advance()
    return list(Interrupt.objects.filter(run__in=runs).values_list("pk", flat=True))


def answer(interrupts: Sequence[Any]) -> None:
    for each in interrupts:
        services.decide(each, "respond", "yes")


def running(queue: TaskQueue, workers: int) -> Any:
    return cluster.running(*queue.programs(workers), **queue.environment(workers))


def delays(queue: TaskQueue, samples: int) -> list[float]:
    """Return the seconds from a decision to the execution of its node, with idle workers."""
    waiting = create_interrupts(WARM + samples)
    found = []
    with running(queue, USUAL) as workers:
        for number, interrupt in enumerate(waiting):
            # Distribute the messages evenly over the polling interval of the queue.
            time.sleep(number / len(waiting) * 0.2)
            sent = time.monotonic()
            answer([interrupt])
            found.append(workers.signs.next("begun").at - sent)
            workers.signs.next("ended")
    return found[WARM:]


def rate(queue: TaskQueue, count: int, workers: int) -> float:
    """Return the number of decisions per second whose runs the workers finish.

    The nodes wait, so that the number of workers limits the rate, and not the processors.
    """
    interrupts = create_interrupts(count, waits=WAITS)
    with tempfile.NamedTemporaryFile() as gate, running(queue, workers) as begun:
        signs = begun.signs
        blocking = create_interrupts(workers, gate=gate.name)
        work(begun, [create_interrupts(WARM)])
        fcntl.flock(gate, fcntl.LOCK_EX)
        answer(blocking)
        for _ in blocking:
            signs.next("held")
        with transaction.atomic():
            answer(interrupts)
        fcntl.flock(gate, fcntl.LOCK_UN)
        ended = [signs.next("ended").at for _ in range(workers + count)]
    first = workers + int(count * HEAD)
    return (len(ended) - 1 - first) / (ended[-1] - ended[first])


def cost(queue: TaskQueue, count: int) -> dict[str, float]:
    """Return the processor milliseconds per decision, of all processes.

    The decisions are made either all at once or one by one, each after the previous run has ended.
    """
    interrupts = create_interrupts(WARM + 2 * count)
    batches = {"together": [interrupts[:count]], "alone": [[each] for each in interrupts[count:]]}
    found = {}
    with running(queue, USUAL) as workers:
        work(workers, [batches["alone"].pop() for _ in range(WARM)])
        for name, batch in batches.items():
            settle()
            before = read_costs(workers)["ms"]
            work(workers, batch)
            settle()
            found[name] = (read_costs(workers)["ms"] - before) / count
    return found


def work(workers: cluster.Workers, batches: Sequence[Sequence[Any]]) -> None:
    """Decide batches of interrupts, and wait for the end of their runs after each batch."""
    for batch in batches:
        answer(batch)
        for _ in batch:
            workers.signs.next("ended")


def killed(queue: TaskQueue, count: int) -> dict[str, float]:
    """Kill all workers while they execute runs, and restart them immediately.

    Returns the seconds until the last run has ended, the number of nodes that started twice, and
    the number of runs that never ended.
    """
    interrupts = create_interrupts(count, waits=WAITS)
    runs = Run.objects.filter(interrupts__in=interrupts)
    begun = 0
    with running(queue, USUAL) as workers:
        with transaction.atomic():
            answer(interrupts)
        while begun < count // 2:
            workers.signs.next("begun")
            begun += 1
        workers.kill()
        killed_at = time.monotonic()
        workers.start()
        while runs.exclude(state=Run.State.SUCCEEDED).exists():
            if time.monotonic() - killed_at > PATIENCE:
                break
            time.sleep(0.05)
        seconds = time.monotonic() - killed_at
        begun += workers.signs.count("begun")  # Count the signals that have been received before.
    lost = runs.exclude(state=Run.State.SUCCEEDED).count()
    return {"seconds": seconds, "again": begun - count, "lost": lost}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("queue", choices=QUEUES)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--workers", type=int, nargs="+", required=True)
    options = parser.parse_args()
    logging.disable(logging.INFO)  # django-q2 logs every message.
    queue, count = QUEUES[options.queue], options.count
    found = {
        "delays": delays(queue, count // 8),
        "cost": cost(queue, count // 2),
        "rates": {n: rate(queue, n * count // 8, n) for n in options.workers},
        "killed": killed(queue, count // 4),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
