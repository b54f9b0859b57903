"""``hitl verify-audit``: verifies the audit log in the database or in an exported file."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from hitl_django import audit
from hitl_django.audit import ChainCheck
from hitl_django.json_text.sanitize import escape_invisible, format_count
from hitl_django.services.audit_comparison import find_forged_rows

from .printing import add_json_argument, print_json
from .progress import Progress
from .start import open_input

HELP = (
    "Check that no entry of the audit log was changed, removed or reordered: in the database, or "
    "in a file written by 'hitl export-audit'. In the database, also compare interrupts and "
    "decisions with their entries. Exits with 1 if anything was changed."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--file", metavar="FILE", help="exported audit log; - reads standard input")
    add_json_argument(parser)


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Report each thread with an invalid audit log, and fail if there are any.

    Audit logs in the database are also compared with the rows of interrupts and decisions.
    """
    broken: set[str] = set()
    progress = Progress(command.stderr)
    for found in _check(options["file"], progress):
        progress.clear()
        broken.add(found["thread"])
        if options["json"]:
            print_json(command, found)
        else:
            command.stderr.write(_format_fault(found))
    if broken:
        raise CommandError(
            f"The audit log of {format_count(len(broken), 'thread', 'threads')} is broken."
        )
    if not options["json"]:
        command.stdout.write("The audit log is intact.")


def _format_fault(fault: Mapping[str, Any]) -> str:
    line = f"line {fault['line']}: " if "line" in fault else ""
    what = fault.get("row") or fault.get("unreadable") or f"entry {fault.get('entry')}"
    return f"{line}{escape_invisible(fault['thread'])}: {what}"


def _check(file: str | None, progress: Progress) -> Iterator[dict[str, Any]]:
    if file is None:
        for checked in progress.count(audit.check_threads(), "thread", "threads"):
            if checked.unreadable:
                yield {"unreadable": checked.unreadable, "thread": checked.thread_id}
            elif checked.fault is not None:
                yield {"entry": checked.fault, "thread": checked.thread_id}
        for thread_id, words in find_forged_rows():
            yield {"row": words, "thread": thread_id}
        return
    with open_input(file) as (source, _):
        yield from check_lines(progress.count(source, "entry", "entries"))


def check_lines(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield a dict for each thread with an invalid entry in an exported log.

    The dict contains the thread's id, the number of its first invalid entry, and the line number of
    this entry. Each entry is verified against the previous entry of its thread.
    """
    chains = defaultdict[str, ChainCheck](ChainCheck)
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            chains[entry["thread_id"]].add_exported(entry, (number, entry["seq"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise CommandError(f"Line {number} is not an audit log entry.") from None
    for thread, chain in chains.items():
        if (found := chain.find_fault()) is not None:
            line, entry = found[1]
            yield {"line": line, "entry": entry, "thread": str(thread)}
