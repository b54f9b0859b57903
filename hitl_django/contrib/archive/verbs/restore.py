"""``hitl restore``: restores archived threads."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from hitl_django.db.alias import write_alias
from hitl_django.errors import PayloadError, ThreadExistsError, ThreadNotFound
from hitl_django.models import Thread

from ..services import restore_thread

HELP = (
    "Bring threads back from the archive, with all of their rows as they were. The command can be "
    "given again. The exit code is 1 where a thread could not be restored."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("threads", nargs="+", metavar="THREAD", help="thread id")


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Restore each of the given threads.

    If a thread can't be restored, the command continues with the next thread.
    """
    errors = []
    for thread_id in options["threads"]:
        try:
            command.stdout.write(f"{thread_id} {_restore(thread_id)}.")
        except CommandError as error:
            errors.append(str(error))
    if errors:
        raise CommandError("\n".join(errors))


def _restore(thread_id: str) -> str:
    try:
        restore_thread(thread_id)
    except ThreadNotFound as error:
        if _was_restored(thread_id):
            return "was restored before"
        raise CommandError(f"Unknown archived thread {thread_id!r}.") from error
    except (ThreadExistsError, PayloadError) as error:
        raise CommandError(str(error)) from error
    return "restored"


def _was_restored(thread_id: str) -> bool:
    rows = Thread.objects.using(write_alias())
    return rows.filter(thread_id=thread_id, restored_at__isnull=False).exists()
