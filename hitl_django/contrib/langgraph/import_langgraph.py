"""``hitl import-langgraph``: brings threads out of databases of LangGraph's own savers."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from hitl_django.management.start import refuse_unknown_graph

HELP = (
    "Bring threads with their history out of a database of LangGraph's PostgresSaver or "
    "SqliteSaver, which is only read. Those that wait for people appear in the review queue. The "
    "command can be given again, and takes what is new. A thread that it can't take is named and "
    "left."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the verb."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--postgres", metavar="URL", help="the database of a PostgresSaver")
    source.add_argument("--sqlite", metavar="FILE", help="the file of a SqliteSaver")
    parser.add_argument(
        "--graph", help="the registered graph of all threads; without it their metadata name it"
    )
    parser.add_argument("--dry-run", action="store_true", help="do all of it, and undo it again")


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Import the threads. LangGraph is imported here, since the other verbs don't need it."""
    if options["graph"] is not None:
        refuse_unknown_graph(options["graph"])
    if find_spec("langgraph") is None:
        raise CommandError("LangGraph isn't installed here; nothing else reads what it stored.")
    from . import import_command

    import_command.perform(command, options)
