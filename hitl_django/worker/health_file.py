"""The file by which whoever runs ``hitl worker`` learns that it lives, and that it is ready.

A probe of a container needs neither Django nor the database, nor anybody's password for that: it
looks at the file's age and at its one word.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

logger = logging.getLogger("hitl_django")

READY, WAITING = "ready", "waiting"


class HealthFile:
    """A file with one word, written anew at each look; None in the place of its path writes none.

    ``ready``: the worker processes run, and the database answered the last sweep. ``waiting``: one
    of the two isn't so. A file that grows old: the supervisor itself stands still.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def write(self, *, is_ready: bool) -> None:
        """Write the word, whole at every moment that somebody reads it."""
        if self.path is None:
            return
        new = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            new.write_text(f"{READY if is_ready else WAITING}\n")
            new.replace(self.path)
        except OSError:
            logger.exception("could not write the health file")  # the probe says so, too

    def remove(self) -> None:
        """Remove the file: nobody works any more."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
