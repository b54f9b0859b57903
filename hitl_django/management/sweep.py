"""``hitl sweep``: runs the sweep once, as the schedule of the task queue does."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand

from hitl_django.worker.sweeper import sweep

HELP = (
    "Run the sweep once: requeue runs that have waited too long for a worker, recover "
    "runs of dead workers, and process due dates. The queue's schedule does this twice a "
    "minute."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments, because the verb has none."""


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Run the sweep once, and print a summary of its actions."""
    sweep()
    command.stdout.write("Swept.")
