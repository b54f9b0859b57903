"""``hitl verify-backup``: verifies that a restored database contains all data of its runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import Exists, OuterRef

from hitl_django import audit
from hitl_django.checkpoints import DjangoSaver
from hitl_django.db.alias import write_alias
from hitl_django.engine.errors import PayloadError
from hitl_django.json_text.sanitize import escape_invisible, format_count
from hitl_django.models import Checkpoint, Interrupt, Run, Thread

from .printing import add_json_argument, print_json
from .progress import Progress

HELP = (
    "Verify a restored database: read the newest state of each thread, its interrupts "
    "and its audit log, and report what is missing or corrupt. Read-only. Exits with 1 "
    "if there are problems."
)
#: Maximum number of threads that one query reads.
PAGE = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json_argument(parser)


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Print each damaged thread with its faults, and fail if any thread is damaged."""
    threads = Thread.objects.using(write_alias()).order_by("pk")
    progress = Progress(command.stderr, threads.count())
    checked = broken = 0
    for thread in progress.count(threads.iterator(chunk_size=PAGE), "thread", "threads"):
        faults = list(find_faults(thread))
        checked += 1
        broken += bool(faults)
        if faults:
            progress.clear()
        for fault in faults:
            if options["json"]:
                print_json(command, {"thread": thread.thread_id, "fault": fault})
            else:
                command.stdout.write(f"{escape_invisible(thread.thread_id)}: {fault}")
    if broken:
        raise CommandError(
            f"{broken} of {format_count(checked, 'thread', 'threads')} have problems."
        )
    if not options["json"]:
        command.stdout.write(
            f"{format_count(checked, 'thread', 'threads')} checked: no problems found."
        )


def find_faults(thread: Thread) -> Iterator[str]:
    """Yield a text for each missing or damaged part of a thread.

    The texts contain no stored values.
    """
    yield from _find_unreadable(thread)
    yield from _find_missing_interrupts(thread)
    seq = audit.find_first_fault(thread)
    if seq is not None:
        yield f"audit log is broken at entry {seq}"


def _find_unreadable(thread: Thread) -> Iterator[str]:
    """Yield each namespace whose newest checkpoint or pending writes can't be read."""
    saver = DjangoSaver()
    rows = Checkpoint.objects.using(write_alias()).filter(thread=thread)
    for ns in rows.order_by("ns").values_list("ns", flat=True).distinct():
        where = f"state in {escape_invisible(ns)!r}" if ns else "its state"
        config: Any = {"configurable": {"thread_id": thread.thread_id, "checkpoint_ns": ns}}
        try:
            saver.get_tuple(config)
        except PayloadError as error:
            yield f"can't read {where}: {type(error).__name__}"


def _find_missing_interrupts(thread: Thread) -> Iterator[str]:
    """Yield a text for each mismatch between interrupted runs and pending interrupts.

    A mismatch is an interrupted run without a pending interrupt, or a pending interrupt of a run
    that has ended.
    """
    pending = Interrupt.objects.using(write_alias()).filter(
        thread=thread, status=Interrupt.Status.PENDING
    )
    runs = Run.objects.using(write_alias()).filter(thread=thread)
    own = pending.filter(run=OuterRef("pk"))
    waiting = Run.match_at_rest([Run.State.INTERRUPTED])
    for pk in runs.filter(waiting).exclude(Exists(own)).values_list("pk", flat=True):
        yield f"run {pk} is interrupted, but has no pending interrupt"
    for pk in pending.filter(run__state__in=Run.ENDED).values_list("pk", flat=True):
        yield f"interrupt {pk} is pending, but its run has ended"
