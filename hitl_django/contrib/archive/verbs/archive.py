"""``hitl archive``: archives ended threads."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand

from hitl_django.db.alias import write_alias
from hitl_django.json_text.sanitize import format_count
from hitl_django.management.arguments import parse_days
from hitl_django.management.progress import Progress

from ..moves import select_archivable
from ..retention import archive_ended

HELP = (
    "Archive threads whose last run ended at least this long ago. Each becomes one "
    "compressed row; 'hitl restore' reverses it."
)
PORTION = 100  # Number of threads between two progress messages.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--older-than",
        type=parse_days,
        required=True,
        metavar="DAYS",
        help="minimum age since the last run ended, for example 90d",
    )
    parser.add_argument("--graph", help="only threads of this graph")
    parser.add_argument(
        "--dry-run", action="store_true", help="only print how many threads would be archived"
    )


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Archive all threads that are old enough, in batches.

    With ``--dry-run``, only print the number of these threads.
    """
    days, graph, total = options["older_than"], options["graph"], 0
    if options["dry_run"]:
        found = select_archivable(write_alias(), days)
        total = (found.filter(graph=graph) if graph else found).count()
        command.stdout.write(f"{format_count(total, 'thread', 'threads')} would be archived.")
        return
    progress = Progress(command.stderr)
    for done in iter(lambda: archive_ended(days, PORTION, graph), 0):
        total += done
        progress.show(total, format_count(total, "thread", "threads"))
    progress.clear()
    command.stdout.write(f"{format_count(total, 'thread', 'threads')} archived.")
