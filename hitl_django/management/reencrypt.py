"""``hitl reencrypt``: encrypts stored data with the first of ENCRYPTION_KEYS."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from hitl_django.encryption import find_key_ring
from hitl_django.json_text.sanitize import format_count
from hitl_django.worker import reencryption
from hitl_django.worker.reencryption import RowCounts

from .progress import Progress

HELP = (
    "Re-encrypt stored data with the first of ENCRYPTION_KEYS, and report how many rows "
    "still need another key. Workers can keep running. Can be repeated."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--check",
        action="store_true",
        help="only check; exits with 1 if a row needs another key",
    )


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Encrypt the rows with the first of ENCRYPTION_KEYS, or only check them with ``--check``.

    Raises:
        CommandError: if rows need another key or can't be decrypted.
    """
    if find_key_ring() is None:
        raise CommandError("HITL['ENCRYPTION_KEYS'] is empty.")
    if not options["check"]:
        done = _sum_batches(command, reencryption.rewrite_rows(), "rewritten")
        command.stdout.write(f"{format_count(done['rewritten'], 'row', 'rows')} rewritten.")
    left = _sum_batches(command, reencryption.count_rows(), "checked")
    if left["plain"]:
        command.stdout.write(f"{format_count(left['plain'], 'row is', 'rows are')} not encrypted.")
    if left["old"] or left["unreadable"]:
        needing = format_count(left["old"], "row needs", "rows need")
        damaged = format_count(left["unreadable"], "row", "rows")
        raise CommandError(
            f"{needing} a key other than the first"
            + (f", and {damaged} can't be decrypted." if left["unreadable"] else ".")
        )
    command.stdout.write("All rows use the first key.")


def _sum_batches(command: BaseCommand, batches: Iterator[RowCounts], verb: str) -> Counter[str]:
    """Return the totals of all batches, and show the progress."""
    progress, total = Progress(command.stderr, None), Counter[str]()
    for batch in batches:
        for name in ("rows", "old", "plain", "rewritten", "unreadable"):
            total[name] += getattr(batch, name)
        count = total["rewritten"] if verb == "rewritten" else total["rows"]
        progress.show(0, f"{format_count(count, 'row', 'rows')} {verb}, at {batch.table}")
    progress.clear()
    return total
