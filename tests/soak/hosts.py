"""A machine that works hints off: a command, its processes, and the service manager over it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from tests.cluster.conftest import Cluster

COMMAND = ("hitl", "worker")


class Host:
    """Keeps ``hitl worker`` running while the block lasts, as a service manager does.

    When its main process ends, what is left of its unit is killed before the next one is begun.
    ``own`` is what of the environment is this machine's alone.
    """

    def __init__(
        self, folder: Path, environment: Mapping[str, str], own: Mapping[str, str]
    ) -> None:
        self.log = folder / "worker.log"
        self.clock = folder / "clock"
        self._own = {**own, "SOAK_CLOCK": str(self.clock)}
        self._unit: dict[int, psutil.Process] = {}
        self._begin(environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def deploy(self, environment: Mapping[str, str]) -> None:
        """Ends what runs as it wants to be ended, and begins it with another environment."""
        self._end()
        self._begin(environment)

    def look(self) -> None:
        """Takes note of its processes; begins anew what has ended."""
        if self._cluster.process.poll() is not None:
            self._clear()
            self._begin(self._environment)
        for process in self.processes():
            self._unit[process.pid] = process

    def processes(self) -> list[psutil.Process]:
        """Returns what runs here, the main process first."""
        with suppress(psutil.NoSuchProcess):
            main = psutil.Process(self._cluster.process.pid)
            return [main, *main.children(recursive=True)]
        return []

    def memory(self) -> int:
        """Returns the bytes that its largest process holds."""
        sizes = [0]
        for process in self.processes():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                sizes.append(process.memory_info().rss)
        return max(sizes)

    def _begin(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._cluster = Cluster([*COMMAND], {**environment, **self._own}, self.log)

    def _end(self) -> None:
        self.look()
        self._cluster.stop()
        self._clear()

    def _clear(self) -> None:
        for process in self._unit.values():
            with suppress(psutil.NoSuchProcess):
                process.kill()  # psutil looks whether the number is still that process's
        self._unit.clear()
