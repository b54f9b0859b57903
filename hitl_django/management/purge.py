"""``hitl purge``: deletes threads that ended long ago, or prunes their history."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from hitl_django.json_text.sanitize import format_count
from hitl_django.worker import retention

from .arguments import parse_days
from .progress import Progress

HELP = (
    "Delete threads whose last run ended more than this many days ago, with their "
    "interrupts, decisions and audit log. With --prune, delete only old checkpoints and "
    "keep the newest state. Asks for confirmation unless you pass --yes."
)
PORTION = 100  # Number of threads between two progress messages.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--days",
        type=parse_days,
        required=True,
        help="minimum age in days since the last run ended",
    )
    parser.add_argument("--graph", help="only threads of this graph")
    parser.add_argument(
        "--prune", action="store_true", help="keep the threads and their newest state"
    )
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--dry-run", action="store_true", help="only print the number of threads")
    asked.add_argument("--yes", action="store_true", help="don't ask for confirmation")


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Delete or prune all threads that ended long enough ago, after a confirmation."""
    if not options["yes"] and not _confirm(command, options):
        return
    days, graph = options["days"], options["graph"]
    verb, total = "pruned" if options["prune"] else "deleted", 0
    progress = Progress(command.stderr)
    deleting = iter(lambda: retention.delete_ended(days, PORTION, graph), 0)
    for done in retention.prune_ended(days, graph) if options["prune"] else deleting:
        total += done
        progress.show(total, format_count(total, "thread", "threads"))
    progress.clear()
    command.stdout.write(f"{format_count(total, 'thread', 'threads')} {verb}.")


def _confirm(command: BaseCommand, options: Mapping[str, Any]) -> bool:
    """Print the number of threads, and return whether the user confirms.

    Raises:
        CommandError: if there is no terminal.
    """
    count = retention.count_prunable if options["prune"] else retention.count_deletable
    threads = format_count(count(options["days"], options["graph"]), "thread", "threads")
    verb = "prune" if options["prune"] else "delete"
    if options["dry_run"]:
        command.stdout.write(f"{threads} to {verb}. Nothing was changed.")
        return False
    if not sys.stdin.isatty():
        raise CommandError(f"{threads} to {verb}. Without a terminal, confirm this with --yes.")
    if input(f"{threads} to {verb}. This can't be undone. Type 'yes' to continue: ") == "yes":
        return True
    command.stdout.write("Nothing was changed.")
    return False
