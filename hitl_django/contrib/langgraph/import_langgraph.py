"""``hitl import-langgraph``: imports threads from databases of LangGraph's savers."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from hitl_django.engine.extras import MissingExtraError, require_extra
from hitl_django.management.start import refuse_unknown_graph

HELP = (
    "Import threads and their history from a LangGraph PostgresSaver or SqliteSaver "
    "database, which is only read. Interrupted threads appear in the review queue. Can "
    "be repeated to import new data. Threads that can't be imported are reported."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--postgres", metavar="URL", help="PostgresSaver database")
    source.add_argument("--sqlite", metavar="FILE", help="SqliteSaver file")
    parser.add_argument(
        "--graph",
        help="registered graph for all threads; by default it is read from each thread's metadata",
    )
    parser.add_argument("--dry-run", action="store_true", help="run the import, then roll it back")


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Import the threads.

    The function imports LangGraph only when it is called, because other commands don't need
    LangGraph.
    """
    if options["graph"] is not None:
        refuse_unknown_graph(options["graph"])
    try:
        with require_extra("langgraph"):
            from . import import_command
    except MissingExtraError as error:
        raise CommandError(str(error)) from None

    import_command.perform(command, options)
