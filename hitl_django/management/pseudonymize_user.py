"""``hitl pseudonymize-user``: replaces a user by a pseudonym in all stored data."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand

from hitl_django import services
from hitl_django.json_text.sanitize import format_count
from hitl_django.services.pseudonyms import KEPT

from .decide import find_user

HELP = (
    "Replace a user with a pseudonym in all rows and in the archive. The audit log stays valid. "
    "Can be repeated; run it again if it was interrupted."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("user", help="username")
    parser.add_argument(
        "--yes",
        action="store_true",
        help="make the changes; without it only the number of rows is printed",
    )


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Pseudonymize the user, or only report the affected rows."""
    user = find_user(options["user"])
    if not options["yes"]:
        _preview(command, user)
        return
    forgotten = services.pseudonymize_user(user, via="command")
    _print_counts(command, forgotten.rows)
    command.stdout.write(f"The user is now stored as {forgotten.pseudonym}.")


def _preview(command: BaseCommand, user: Any) -> None:
    counts = Counter[str]()
    about = 0
    for row in services.export_person(user):
        counts[row.table] += not {*row.columns} <= {*KEPT}
        about += "subject" in row.columns
    _print_counts(command, counts)
    if about:
        threads = format_count(about, "thread is", "threads are")
        command.stdout.write(f"{threads} about this user. Erase them to remove their contents.")
    command.stdout.write("Nothing was changed. Use --yes to replace the user with a pseudonym.")


def _print_counts(command: BaseCommand, counts: Mapping[str, int]) -> None:
    for table, count in sorted(counts.items()):
        if count:
            command.stdout.write(f"{table}: {format_count(count, 'row', 'rows')}")
