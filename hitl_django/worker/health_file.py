"""The health file of ``hitl worker``, for liveness and readiness probes.

A container's probe checks the age and the content of the file. The probe needs neither Django nor
the database.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

logger = logging.getLogger("hitl_django")

READY, WAITING = "ready", "waiting"


class HealthFile:
    """A file with one word that describes the worker's health.

    The word is ``ready`` if the worker processes are running and the last sweep has succeeded,
    otherwise ``waiting``. The file is written after each check, so an old file means that the
    supervisor itself has stopped. If no path is given, nothing is written.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def write(self, *, is_ready: bool) -> None:
        """Write ``ready`` or ``waiting`` to the file atomically."""
        if self.path is None:
            return
        new = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            new.write_text(f"{READY if is_ready else WAITING}\n")
            new.replace(self.path)
        except OSError:
            logger.exception("could not write the health file")  # The probe also fails.

    def remove(self) -> None:
        """Remove the file when the worker ends."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
