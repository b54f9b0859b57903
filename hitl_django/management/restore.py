"""``hitl restore``: brings archived threads back."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from hitl_django import services
from hitl_django.errors import PayloadError, ThreadExistsError, ThreadNotFound

HELP = "Bring threads back from the archive, with all of their rows as they were."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the verb."""
    parser.add_argument("threads", nargs="+", metavar="THREAD", help="the id of a thread")


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Restores the threads, one after the other."""
    for thread_id in options["threads"]:
        try:
            services.restore_thread(thread_id)
        except ThreadNotFound as error:
            raise CommandError(f"There is no archived thread {thread_id!r}.") from error
        except (ThreadExistsError, PayloadError) as error:
            raise CommandError(str(error)) from error
        command.stdout.write(f"{thread_id} restored.")
