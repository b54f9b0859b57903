"""Output of commands: tables for people, and JSON Lines for programs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.core.management.base import BaseCommand
from django.core.serializers.json import DjangoJSONEncoder

from hitl_django.json_text.sanitize import escape_invisible, shorten

#: Maximum width of a column.
WIDEST = 60


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON Lines")


def print_json(command: BaseCommand, row: Mapping[str, Any]) -> None:
    """Print one object on one line."""
    command.stdout.write(json.dumps(row, cls=DjangoJSONEncoder, ensure_ascii=False))


def print_table(command: BaseCommand, columns: Sequence[str], rows: Iterable[Any]) -> None:
    """Print rows below a header.

    Each column is as wide as its content.
    """
    cells = [[shorten(escape_invisible(str(cell)), WIDEST) for cell in row] for row in rows]
    if not cells:
        return
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for line in (list(columns), *cells):
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        command.stdout.write("  ".join(padded).rstrip())


def print_details(command: BaseCommand, details: Mapping[str, Any]) -> None:
    """Print names with their values.

    A value may have several lines. Empty values are omitted.
    """
    width = max(map(len, details))
    for name, value in details.items():
        if value in (None, "", [], {}):
            continue
        if isinstance(value, (dict, list)):
            text = json.dumps(value, cls=DjangoJSONEncoder, ensure_ascii=False, indent=2)
        else:
            text = str(value)
        first, *more = map(_escape_line, text.splitlines() or [""])
        command.stdout.write(f"{name.ljust(width)}  {first}")
        for line in more:
            command.stdout.write(f"{'':{width}}  {line}")


def _escape_line(line: str) -> str:
    """Return the line without control characters. Its indentation is preserved."""
    return " " * (len(line) - len(line.lstrip(" "))) + escape_invisible(line)
