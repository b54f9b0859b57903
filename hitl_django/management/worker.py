"""``hitl worker``: runs and supervises the queue's worker processes."""

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
    "Run the queue's worker processes, start them anew when they end or no longer work, and sweep; "
    "only sweep where the queue has workers of its own. "
    "SIGTERM or Ctrl-C leaves each run at its next step's edge and ends them all."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the verb."""
    parser.add_argument(
        "--grace",
        type=parse_seconds,
        default=30.0,
        metavar="SECONDS",
        help="how long the processes may take to stop before they are killed; default: 30",
    )
    parser.add_argument(
        "--health-file",
        type=Path,
        metavar="PATH",
        help="a file for probes: written anew while this process lives, with 'ready' in it while "
        "the worker processes run and the database answers, else 'waiting'",
    )


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Supervises the processes until a signal asks for the end."""
    queue = dispatcher.get_dispatcher().command()
    path: Path | None = options["health_file"]
    if path is not None and not path.parent.is_dir():
        raise CommandError(f"There is no folder {path.parent} for the health file.")
    health = HealthFile(path)

    def say(text: str) -> None:
        command.stdout.write(text)
        command.stdout.flush()

    (Supervisor(queue, options["grace"], say, health) if queue else Sweeper(say, health)).run()
