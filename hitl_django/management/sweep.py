"""``hitl sweep``: sweeps once, as the queue's schedule does."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand

from hitl_django.worker.sweeper import sweep

HELP = (
    "Sweep once: tell a worker about every run that has waited too long, and take back the runs "
    "of workers that fell silent. The queue's own schedule does the same twice a minute."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds no arguments."""


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Sweeps once, and reports it."""
    sweep()
    command.stdout.write("Swept.")
