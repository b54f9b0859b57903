"""Execution of ``hitl import-langgraph``: it imports each thread and prints failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DataError

from hitl_django.engine.errors import HitlError
from hitl_django.json_text.sanitize import escape_invisible, format_count
from hitl_django.management.progress import Progress
from hitl_django.management.start import describe_error, silence_logs
from hitl_django.models import Run

from .thread_import import import_thread
from .thread_source import SourceError, ThreadSource, open_postgres, open_sqlite

#: Name of the counter for an imported thread, by the state of its new run.
_COUNTED = {
    None: "there",
    Run.State.QUEUED: "waiting",
    Run.State.SUCCEEDED: "ended",
    Run.State.FAILED: "stopped",
    Run.State.PARKED: "stopped",
}


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Import the threads of a database, and print the results."""
    graph, dry_run = options["graph"], options["dry_run"]
    counts: Counter[str] = Counter()
    with _open_source(options) as source, silence_logs(options["verbosity"]):
        threads = source.list_threads()
        progress = Progress(command.stderr, len(threads))
        for done, thread_id in enumerate(threads, start=1):
            try:
                state = import_thread(source, thread_id, graph, dry_run=dry_run)
                counts[_COUNTED[state]] += 1
            except (HitlError, DataError) as error:
                counts["left"] += 1
                progress.clear()
                name = escape_invisible(thread_id)
                command.stderr.write(f"thread {name}: {escape_invisible(describe_error(error))}")
            progress.show(done, _format_counts(counts))
        progress.clear()

    command.stdout.write(_format_counts(counts) + (" Nothing was stored." if dry_run else ""))
    if counts["left"]:
        total = format_count(counts.total(), "thread", "threads")
        raise CommandError(f"{counts['left']} of {total} could not be imported.")


@contextmanager
def _open_source(options: Mapping[str, Any]) -> Iterator[ThreadSource]:
    """Open the database named on the command line.

    Raises:
        CommandError: the database can't be used.
    """
    path = options["sqlite"]
    opened = open_postgres(options["postgres"]) if path is None else open_sqlite(Path(path))
    try:
        with opened as source:
            yield source
    except SourceError as error:
        raise CommandError(str(error)) from error


def _format_counts(counts: Mapping[str, int]) -> str:
    return (
        f"{counts['ended']} ended, {counts['waiting']} waiting, {counts['stopped']} "
        f"stopped, {counts['there']} already imported, {counts['left']} not imported."
    )
