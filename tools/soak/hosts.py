"""A machine that works hints off: a command, its processes, and the service manager over it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from tests.cluster.conftest import Cluster

COMMAND = ("hitl", "worker")
#: What the environment of all processes of one machine says, and of no others.
MARK = "SOAK_CLOCK"


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
        self._own = {**own, MARK: str(self.clock)}
        self._begin(environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def deploy(self, environment: Mapping[str, str]) -> None:
        """End what runs as it wants to be ended, and begins it with another environment."""
        self._end()
        self._begin(environment)

    def look(self) -> None:
        """Begin anew what has ended."""
        if self._cluster.process.poll() is not None:
            self.kill()
            self._begin(self._environment)

    def processes(self) -> list[psutil.Process]:
        """Return what runs here, whoever began it."""
        return list(self._marked())

    def memory(self) -> int:
        """Return the bytes that its largest process holds."""
        sizes = [0]
        for process in self._marked():
            with suppress(psutil.Error):
                sizes.append(process.memory_info().rss)
        return max(sizes)

    def kill(self) -> None:
        """Kill what runs here, and what it begins meanwhile."""
        while found := self.processes():
            for process in found:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            threading.Event().wait(0.01)
            self._cluster.process.poll()  # or it would be there for ever, as a zombie

    def _marked(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK) == self._own[MARK]:
                    yield process

    def _begin(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._cluster = Cluster([*COMMAND], {**environment, **self._own}, self.log)

    def _end(self) -> None:
        self.look()
        self._cluster.stop()
        self.kill()
