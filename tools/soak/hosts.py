"""A worker machine: a command with its processes, and their service manager."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from tests.cluster.conftest import Cluster

COMMAND = ("hitl", "worker")
#: Environment variable that identifies the processes of a machine.
MARK = "SOAK_CLOCK"


class Host:
    """Service manager that keeps ``hitl worker`` running during the block.

    If the main process ends, the remaining processes are killed before a new main process is
    started. ``own`` contains the environment variables that differ between machines.
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
        """Stop the processes gracefully, and start them with another environment."""
        self._end()
        self._begin(environment)

    def look(self) -> None:
        """Restart the command if it has ended."""
        if self._cluster.process.poll() is not None:
            self.kill()
            self._begin(self._environment)

    def processes(self) -> list[psutil.Process]:
        """Return all processes of this machine."""
        return list(self._marked())

    def memory(self) -> int:
        """Return the memory of the machine's largest process in bytes."""
        sizes = [0]
        for process in self._marked():
            with suppress(psutil.Error):
                sizes.append(process.memory_info().rss)
        return max(sizes)

    def kill(self) -> None:
        """Kill all processes, including processes that are started in the meantime."""
        while found := self.processes():
            for process in found:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            threading.Event().wait(0.01)
            self._cluster.process.poll()  # Otherwise the process would remain as a zombie.

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
