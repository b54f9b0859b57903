"""``hitl doctor``: reports problems of the installation, with advice."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from .diagnosis import examine_installation
from .printing import add_json_argument, print_json

HELP = (
    "Check the database, settings, queue, workers and runs, and report problems with "
    "advice. Exits with 1 if there are errors; warnings exit with 0."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(skip_checks=True)  # The diagnosis includes the system checks.
    parser.add_argument(
        "--audit",
        action="store_true",
        help="also verify every audit log entry and every encrypted row; slow on large databases",
    )
    add_json_argument(parser)


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Print each finding, and fail if there is an error."""
    styles = {
        "ok": command.style.SUCCESS,
        "note": command.style.NOTICE,
        "warning": command.style.WARNING,
        "error": command.style.ERROR,
    }
    errors = 0
    for found in examine_installation(audited=options["audit"]):
        errors += found.level == "error"
        if found.level == "note" and options["verbosity"] < 1:
            continue
        if options["json"]:
            print_json(command, asdict(found))
            continue
        command.stdout.write(f"{found.level:<8} {found.message}", styles[found.level])
        if found.advice:
            command.stdout.write(f"{'':<8} {found.advice}")
    if errors:
        raise CommandError(f"{errors} problems found." if errors > 1 else "1 problem found.")
