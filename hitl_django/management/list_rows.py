"""``hitl list``: lists pending interrupts or runs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.core.management.base import BaseCommand, CommandError
from django.db.models import F, QuerySet

from hitl_django.db.alias import write_alias
from hitl_django.forms.local_time import to_local
from hitl_django.models import Interrupt, Run

from .printing import add_json_argument, print_json, print_table

HELP = (
    "List interrupts (pending ones by default) or runs. Interrupts are sorted oldest "
    "first, runs newest first."
)


class _Listed(NamedTuple):
    rows: QuerySet[Any]
    state: str  # Column that --state filters.
    states: Sequence[str]
    columns: Mapping[str, Any]  # Columns by their printed names.
    shown: Sequence[str]  # Columns of the table.


def _list_kinds() -> dict[str, _Listed]:
    using = write_alias()
    interrupts = {
        "id": F("pk"), "title": F("title"), "status": F("status"), "graph": F("graph"),
        "node": F("node"), "created_at": F("created_at"), "due_at": F("due_at"),
        "claimed_by": F("claimed_by_label"), "decisions": F("allowed_decisions"),
        "run_id": F("run_id"), "thread_id": F("thread__thread_id"),
    }  # fmt: skip
    runs = {
        "id": F("pk"), "state": F("state"), "graph": F("graph"), "version": F("graph_version"),
        "key": F("key"), "step": F("step"), "error": F("error"), "started_at": F("created_at"),
        "finished_at": F("finished_at"), "thread_id": F("thread__thread_id"),
    }  # fmt: skip
    return {
        "interrupts": _Listed(
            Interrupt.objects.using(using).order_by("created_at", "pk"),
            "status",
            Interrupt.Status.values,
            interrupts,
            ("id", "created_at", "graph", "title"),
        ),
        "runs": _Listed(
            Run.objects.using(using).order_by("-created_at", "-pk"),
            "state",
            Run.State.values,
            runs,
            ("id", "started_at", "state", "graph", "error"),
        ),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", choices=("interrupts", "runs"), default="interrupts")
    parser.add_argument("--state", help="filter by state")
    parser.add_argument("--graph", help="filter by graph")
    parser.add_argument(
        "--limit", type=int, default=50, metavar="N", help="maximum number of rows (default: 50)"
    )
    add_json_argument(parser)


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Print the rows as a table or as JSON Lines."""
    listed = _list_kinds()[options["what"]]
    rows = _select(listed, options)
    outside = {f"out_{name}": column for name, column in listed.columns.items()}
    found = [
        {name: row[f"out_{name}"] for name in listed.columns}
        for row in rows.annotate(**outside).values(*outside)[: max(options["limit"], 0)]
    ]
    if options["json"]:
        for row in found:
            print_json(command, row)
    elif found:
        table = ([_format(row[name]) for name in listed.shown] for row in found)
        print_table(command, listed.shown, table)
    else:
        command.stderr.write("No results.")


def _select(listed: _Listed, options: Mapping[str, Any]) -> QuerySet[Any]:
    state = options["state"]
    if state is not None and state not in listed.states:
        raise CommandError(f"state must be one of {', '.join(listed.states)}, not {state!r}.")
    if state is None and options["what"] == "interrupts":
        state = Interrupt.Status.PENDING
    rows = listed.rows if state is None else listed.rows.filter(**{listed.state: state})
    return rows.filter(graph=options["graph"]) if options["graph"] else rows


def _format(value: Any) -> str:
    if hasattr(value, "strftime"):
        return f"{to_local(value):%Y-%m-%d %H:%M}"
    return "" if value is None else str(value)
