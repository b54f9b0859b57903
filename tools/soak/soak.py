"""The soak test, which injects faults, waits until all runs have ended, and reports the result."""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from django.db import connection

from tests import clock, databases
from tests.chaos import invariants
from tests.chaos.proxy import Proxy

from .faults import FAULTS, World
from .hosts import Host
from .people import Site, surely
from .watch import LONG, Watch, format_reading, percentiles

MACHINES = 2
#: Factor for all waiting times with ``--quick``.
QUICK = 0.05
#: Seconds between two faults (minimum and maximum), and seconds without faults after every ten
#: faults.
APART, CALM = (20, 60), 180
FAULTS_IN_A_ROW = 10
#: Seconds until all effects of a fault are over: the lease, the sweep interval and a reserve.
RECOVERY = 90
REVIEWED_WITHIN = 60
#: Maximum number of seconds that a due run may wait for a worker, and that all runs may take to
#: end.
LEFT_ALONE, PATIENCE = 300, 900
#: Seconds between two checks of the machines, between two checks of the threads, and between two
#: lines of the report.
LOOK, CHECK, REPORT = 1, 60, 600
HOUR = 3600


class Soak:
    """The soak test of a site and its machines.

    ``run`` returns the exit code of the command.
    """

    def __init__(self, folder: Path, options: argparse.Namespace, server: Any) -> None:
        self.folder, self.server = folder, server
        self.hours, self.seed = options.hours, options.seed
        self.pace = QUICK if options.quick else 1.0
        self.chance = Random(self.seed)
        self.done: Counter[str] = Counter()
        self.site = Site(self.seed, options.rate, REVIEWED_WITHIN * self.pace)
        self.faults = [
            fault
            for fault in FAULTS[connection.vendor]
            if not options.only or fault.__name__ in options.only
        ]
        self._begun = self._checked = self._reported = time.monotonic()

    def run(self) -> int:
        print(f"{connection.vendor}, {self.hours:g} hours, --seed {self.seed}", flush=True)
        with ExitStack() as stack:
            proxy = stack.enter_context(Proxy(lambda: "pass")) if self.server else None
            environment = {**os.environ, "PYTHONWARNINGS": "default"}
            hosts = [
                stack.enter_context(self._machine(number, environment, proxy))
                for number in range(MACHINES)
            ]
            world = World(hosts, self.site, self.chance, self.pace, environment, self.server, proxy)
            left_alone = timedelta(seconds=LEFT_ALONE)
            self.watch = Watch(
                self.site.under_way, hosts, Path(os.environ["SOAK_BOOK"]), left_alone
            )
            stack.callback(self.site.end)
            self.watch.read()
            self.site.open()
            self._go_wrong(world)
            self._come_to_the_end()
        return self._conclude()

    def _machine(self, number: int, environment: dict[str, str], proxy: Proxy | None) -> Host:
        place = self.folder / f"machine-{number}"
        place.mkdir()
        clock.set_off(place / "clock", 0)
        own = {}
        # The first machine has a separate connection that faults can interrupt.
        if proxy is not None and number == 0:
            own = {"DATABASE_URL": databases.to_url(connection, **proxy.settings())}
        return Host(place, environment, own)

    def _go_wrong(self, world: World) -> None:
        end = time.monotonic() + self.hours * HOUR
        # Inject all faults once, and then random faults.
        first = self.chance.sample(self.faults, len(self.faults))
        while time.monotonic() < end or first:
            for _ in range(FAULTS_IN_A_ROW):
                fault = first.pop() if first else self.chance.choice(self.faults)
                self._stand_by(self.chance.uniform(*APART) * self.pace)
                fault(world)
                self.done[fault.__name__] += 1
                if time.monotonic() > end and not first:
                    return
            self._stand_by(RECOVERY * self.pace)
            calm = time.time()
            self._stand_by((CALM - RECOVERY) * self.pace)
            self.watch.calm.append((calm, time.time()))

    def _come_to_the_end(self) -> None:
        self.site.close()
        self._stand_by(PATIENCE, lambda: not self.site.under_way)
        if self.site.under_way:
            self.watch.faults.append(f"not at their end: {self.watch.left()}")

    def _stand_by(self, seconds: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Keep the machines running and check the runs.

        This ends when the time is over or the condition is met.
        """
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not is_over():
            self.site.is_over.wait(min(LOOK, left))
            for host in self.watch.hosts:
                host.look()
            if time.monotonic() > self._checked + CHECK * self.pace:
                self.watch.check()
                self.watch.read()
                self._checked = time.monotonic()
            if time.monotonic() > self._reported + REPORT:
                self._report()
                self._reported = time.monotonic()

    def _report(self) -> None:
        hours = (time.monotonic() - self._begun) / HOUR
        print(
            f"{hours:.2f} h: {self.done.total()} faults, {self.site.started} runs started, "
            f"{self.watch.ended} at their end, {self.site.answered} answers; "
            f"{format_reading(self.watch.readings[-1])}; {len(self.watch.faults)} wrong",
            flush=True,
        )

    def _conclude(self) -> int:
        self.watch.check()
        wrong = [*self.site.faults, *self.watch.faults, *surely(invariants.faults)]
        wrong += surely(invariants.unfinished)
        if self.hours >= LONG:
            wrong += self.watch.growth()
        self._report()
        for counts in (self.done, self.site.counts):
            for name, count in sorted(counts.items()):
                print(f"    {name}: {count}")
        print(percentiles(self.watch.answers()))
        for line in wrong:
            print(f"WRONG: {line}")
        print("All is well." if not wrong else f"{len(wrong)} things are wrong.")
        return 1 if wrong else 0
