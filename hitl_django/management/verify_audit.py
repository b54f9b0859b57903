"""``hitl verify-audit``: whether the record is as it was written, here or in an exported file."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from hitl_django import audit
from hitl_django.json_text.sanitize import escape_invisible, format_count

from .printing import add_json_argument, print_json
from .start import open_input

HELP = (
    "Check that no entry of the record was changed, removed or moved: in the database, or in a "
    "file that 'hitl export-audit' wrote. The exit code is 1 where one was."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the verb."""
    parser.add_argument("--file", metavar="FILE", help="an exported record; - reads standard input")
    add_json_argument(parser)


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Names the first bad entry of each thread."""
    count = 0
    for fault in _find_faults(options["file"]):
        count += 1
        if options["json"]:
            print_json(command, fault)
        else:
            command.stderr.write(_format_fault(fault))
    if count:
        raise CommandError(f"The record of {format_count(count, 'thread', 'threads')} is broken.")
    if not options["json"]:
        command.stdout.write("The record holds.")


def _format_fault(fault: Mapping[str, Any]) -> str:
    line = f"line {fault['line']}: " if "line" in fault else ""
    return f"{line}{escape_invisible(fault['thread'])}: entry {fault['entry']}"


def _find_faults(file: str | None) -> Iterator[dict[str, Any]]:
    if file is None:
        for thread_id, seq in audit.find_faults():
            yield {"thread": thread_id, "entry": seq}
        return
    with open_input(file) as (source, _):
        yield from find_faults_in(source)


def find_faults_in(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yields the first fault of each thread in an exported record; each follows on its last."""
    ends: dict[str, tuple[int, str]] = {}
    broken = set[str]()
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            thread, seq, own = entry["thread_id"], entry["seq"], entry["hash"]
            before, hashed = entry["prev_hash"], entry["hashed"]
            named = json.loads(hashed)
            digest = hashlib.sha256((before + hashed).encode()).hexdigest()
            shown = {name: entry[name] for name in ("seq", "verb", "subject", "actor", "via")}
        except (ValueError, KeyError, TypeError):
            raise CommandError(f"Line {number} is no entry of a record.") from None
        if thread in broken:
            continue
        last, last_hash = ends.get(thread, (0, ""))
        tells_the_same = named["thread"] == thread and shown.items() <= named.items()
        if (seq, before, own) != (last + 1, last_hash, digest) or not tells_the_same:
            broken.add(thread)
            yield {"line": number, "thread": str(thread), "entry": seq}
        ends[thread] = seq, own
