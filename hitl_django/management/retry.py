"""``hitl retry``: retries failed or parked runs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import islice
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from hitl_django import services
from hitl_django.json_text.sanitize import format_count
from hitl_django.services.runs.operate import RETRYABLE

from .arguments import parse_count
from .printing import add_json_argument, print_json
from .progress import Progress
from .start import describe_error

HELP = (
    "Retry failed or parked runs, for example after a fix was deployed. Each resumes "
    "from its last saved step. Exits with 1 if some could not be queued."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state",
        required=True,
        choices=[str(state) for state in RETRYABLE],
        help="state to filter by",
    )
    parser.add_argument("--graph", help="only runs of this graph")
    parser.add_argument("--limit", type=parse_count, help="maximum number of runs, oldest first")
    add_json_argument(parser)


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Retry each run, and report failures with their reasons."""
    found = services.list_retryable(options["state"], graph=options["graph"])
    done = failed = 0
    progress = Progress(command.stderr)
    retrying = services.retry_all(islice(found, options["limit"]), via="command")
    for retried in progress.count(retrying, "run", "runs"):
        error = None if retried.error is None else describe_error(retried.error)
        done, failed = done + (error is None), failed + (error is not None)
        if options["json"]:
            progress.clear()
            print_json(command, {"run": retried.run_id, "error": error})
        elif error is not None:
            progress.clear()
            command.stderr.write(f"{retried.run_id}  {error}")
    if not options["json"]:
        command.stdout.write(f"{format_count(done, 'run', 'runs')} queued.")
    if failed:
        raise CommandError(f"{format_count(failed, 'run', 'runs')} could not be queued.")
