"""Soak test: two machines under load for hours, with injected faults.

    python -m tools.soak --hours 24

Runs are started continuously. Three of ten runs have up to five interrupts, which eight reviewers
decide. One of the faults in ``faults.py`` occurs once or twice a minute. The database is a separate
PostgreSQL server or, with ``--sqlite``, a file. Every ended thread is checked for the invariants.
After ten faults, there is a pause in which the delay between a decision and its node is measured.
At the end of the test, all started runs must have ended.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom
from typing import Any

from tests.__main__ import new_server

TIMINGS = {"LEASE_SECONDS": 30, "HEARTBEAT_SECONDS": 10, "SWEEP_SECONDS": 30}
QUICK_TIMINGS = {"LEASE_SECONDS": 4, "HEARTBEAT_SECONDS": 0.5, "SWEEP_SECONDS": 2}


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    # As with Ctrl-C, the started processes must be stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="hitl-soak-") as name, store(options) as server:
        folder = Path(name)
        os.environ |= {
            "DATABASE_URL": server.get_uri() if server else f"sqlite:///{folder}/soak.sqlite3",
            "DJANGO_SETTINGS_MODULE": "tools.soak.settings",
            "SOAK_BOOK": str(folder / "book"),
            "SOAK_HITL": json.dumps(QUICK_TIMINGS if options.quick else TIMINGS),
        }
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)

        from .soak import Soak  # Models can't be imported before Django's setup.

        return Soak(folder, options, server).run()


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--hours", type=float, default=24, help="how long things go wrong; 24")
    parser.add_argument("--rate", type=float, default=1.4, help="runs started a second; 1.4")
    parser.add_argument("--sqlite", action="store_true", help="on a file instead of PostgreSQL")
    parser.add_argument("--quick", action="store_true", help="everything 20 times as fast")
    parser.add_argument("--only", metavar="FAULT", action="append", help="leave out all others")
    parser.add_argument("--seed", type=int, default=SystemRandom().getrandbits(32))
    return parser.parse_args(arguments)


@contextmanager
def store(options: argparse.Namespace) -> Iterator[Any]:
    """Yield the PostgreSQL server, or None for SQLite."""
    if options.sqlite:
        yield None
        return
    with new_server() as server:
        yield server


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
