"""Measuring process of a cluster. The environment names its database and broker.

The process sends empty django-q2 tasks and decisions alternately. The node, the task or the monitor
measures the times, without polling.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import django

django.setup()

from django.db import transaction  # noqa: E402
from django_q.conf import Conf  # noqa: E402
from django_q.tasks import async_task  # noqa: E402

from hitl_django import services  # noqa: E402
from hitl_django.models import Interrupt  # noqa: E402
from hitl_django.testing import inline  # noqa: E402

from . import cluster, graphs  # noqa: E402
from .signs import Signs  # noqa: E402

Send = Callable[[], None]
BARE, OURS = "bare", "ours"
#: Number of workers according to the settings.
WORKERS = int(Conf.WORKERS)
#: Number of tasks before a measurement. During these tasks, a process imports modules, connects and
#: builds the graph.
WARM = 20
#: Share of a batch that is excluded from its rate, because the workers are warming up.
HEAD = 0.1


def create_interrupts(count: int, waits: float = 0.0) -> list[Any]:
    """Create ``count`` pending interrupts without leaving messages in the queue."""
    with inline() as advance:
        runs = [services.start(graphs.GRAPH, {"waits": waits}).id for _ in range(count)]
        advance()
    return list(Interrupt.objects.filter(run__in=runs).values_list("pk", flat=True))


def bare() -> None:
    """Send an empty task in the same way as a message about a run."""
    async_task(graphs.EMPTY, BARE, save=False, ack_failure=True)


def decisions(count: int, waits: float = 0.0) -> list[Send]:
    """Return ``count`` functions, each of which makes one decision."""
    return [
        partial(services.decide, pk, "respond", "yes") for pk in create_interrupts(count, waits)
    ]


def worked_off(signs: Signs, sends: Sequence[Send], workers: int = WORKERS) -> list[float]:
    """Fill the queue while its workers are blocked.

    Returns the time at which each task is completed.
    """
    with tempfile.NamedTemporaryFile() as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        for _ in range(workers):
            async_task(graphs.HOLD, gate.name, save=False, ack_failure=True)
        for _ in range(workers):
            signs.next("held")
        with transaction.atomic():
            for send in sends:
                send()
        fcntl.flock(gate, fcntl.LOCK_UN)
        settled = [signs.next("settled") for _ in range(workers + len(sends))]
    return [sign.at for sign in settled if sign.name != gate.name]


def starts(samples: int) -> dict[str, list[float]]:
    """Return the delays from a decision to the node, and from sending an empty task to the task.

    Delays are in seconds.
    """
    found: dict[str, list[float]] = {BARE: [], OURS: []}
    waiting = decisions(WARM + samples)
    with cluster.running() as workers:
        signs = workers.signs
        worked_off(signs, [bare] * WARM)
        worked_off(signs, [waiting.pop() for _ in range(WARM)])
        for number in range(samples):
            # Distribute the messages evenly over the polling interval of the broker.
            pause = (number + 0.5) / samples * (Conf.POLL if Conf.ORM else 0.02)
            # Alternate the order of the two kinds of tasks.
            for kind in (BARE, OURS)[:: 1 if number % 2 else -1]:
                time.sleep(pause)
                send = bare if kind == BARE else waiting.pop()
                begun = time.monotonic()
                send()
                found[kind].append(signs.next("begun").at - begun)
                signs.next("settled")
    return found


def rates(count: int, rounds: int) -> dict[str, list[float]]:
    """Return the tasks per second that the cluster completes with a full queue, by kind."""
    found: dict[str, list[float]] = {BARE: [], OURS: []}
    with cluster.running() as workers:
        signs = workers.signs
        worked_off(signs, [bare] * WARM)
        worked_off(signs, decisions(WARM))
        for _ in range(rounds):
            found[BARE].append(rate(worked_off(signs, [bare] * count)))
            found[OURS].append(rate(worked_off(signs, decisions(count))))
    return found


def scaling(count: int, rounds: int, waits: float) -> dict[str, list[float]]:
    """Return the number of decisions per second that one worker and two workers complete."""
    found: dict[str, list[float]] = {"1": [], "2": []}
    for _ in range(rounds):
        for workers, kept in found.items():
            with cluster.running(TEST_Q_CLUSTER=json.dumps({"workers": int(workers)})) as begun:
                worked_off(begun.signs, decisions(WARM), int(workers))
                times = worked_off(begun.signs, decisions(count, waits), int(workers))
                kept.append(rate(times))
    return found


def rate(times: Sequence[float]) -> float:
    """Return the rate per second, excluding the warm-up."""
    first = int(len(times) * HEAD)
    return (len(times) - 1 - first) / (times[-1] - times[first])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["starts", "rates", "scaling"])
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    logging.disable(logging.INFO)  # django-q2 logs every message.
    measures: dict[str, Callable[[], Any]] = {
        "starts": lambda: starts(options.count),
        "rates": lambda: rates(options.count, options.rounds),
        "scaling": lambda: scaling(options.count, options.rounds, 0.05),
    }
    print(json.dumps(measures[options.what]()))


if __name__ == "__main__":
    main()
