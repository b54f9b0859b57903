"""``hitl export-audit``: exports the audit log with its hashes."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from hitl_django import services
from hitl_django.engine.errors import InvalidInputError
from hitl_django.forms.local_time import today

from .printing import print_json
from .progress import Progress

HELP = (
    "Export the audit log of each thread that had a decision in a period, as JSON Lines. "
    "'hitl verify-audit --file' verifies the hashes without a database."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since", type=date.fromisoformat, required=True, metavar="DATE", help="first day"
    )
    parser.add_argument(
        "--until", type=date.fromisoformat, metavar="DATE", help="last day (default: today)"
    )
    parser.add_argument("--graph", help="only threads of this graph")


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Print the entries of the audit log, one per line."""
    last = options["until"] or today()
    try:
        period = services.Period.build(options["since"], last, max_days=None)
    except InvalidInputError as error:
        raise CommandError(str(error)) from None
    record = services.export_audit_log(None, period, graph=options["graph"])
    progress = Progress(command.stderr)
    for entry in progress.count(record, "entry", "entries"):
        progress.clear()
        print_json(command, asdict(entry))
