"""``hitl worker``: runs and supervises the worker processes of the task queue."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from hitl_django.task_queue import dispatcher
from hitl_django.worker.health_file import HealthFile
from hitl_django.worker.supervisor import Supervisor
from hitl_django.worker.sweep_loop import Sweeper

from .arguments import parse_seconds

HELP = (
    "Run the queue's worker processes, restart them when they exit or hang, and run the "
    "sweep. With a queue that has its own workers, run only the sweep. On SIGTERM or "
    "Ctrl-C each run is requeued after its current step."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--grace",
        type=parse_seconds,
        default=30.0,
        metavar="SECONDS",
        help="seconds to wait for processes to stop before killing them (default: 30)",
    )
    parser.add_argument(
        "--health-file",
        type=Path,
        metavar="PATH",
        help="file for health probes: rewritten while this process is alive; contains "
        "'ready' while the workers run and the database is reachable, otherwise "
        "'waiting'",
    )


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Supervise the worker processes and run the sweep until a signal stops the command.

    If this app doesn't start the workers of the queue, only the sweep is run.
    """
    queue = dispatcher.get_dispatcher()
    workers = queue.command()
    path: Path | None = options["health_file"]
    if path is not None and not path.parent.is_dir():
        raise CommandError(f"Directory {path.parent} for the health file doesn't exist.")
    health = HealthFile(path)

    def say(text: str) -> None:
        command.stdout.write(text)
        command.stdout.flush()

    if workers:
        Supervisor(workers, options["grace"], say, health, queue.worker_function()).run()
    else:
        Sweeper(say, health).run()
