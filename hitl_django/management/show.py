"""``hitl show``: shows the details of an interrupt or a run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from hitl_django.db.alias import write_alias
from hitl_django.models import Decision, Interrupt, Run

from .printing import add_json_argument, print_details, print_json

HELP = "Show an interrupt or a run, with its payload and decisions."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", type=parse_id, help="interrupt or run id")
    add_json_argument(parser)


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Print the details of the interrupt or run."""
    details = _describe(options["id"])
    (print_json if options["json"] else print_details)(command, details)


def parse_id(text: str) -> UUID:
    """Parse the id of an interrupt or run.

    Raises:
        ArgumentTypeError: if the text is not a UUID.
    """
    try:
        return UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid id.") from None


def _describe(row_id: UUID) -> dict[str, Any]:
    interrupts = Interrupt.objects.using(write_alias()).select_related("thread", "run")
    if (interrupt := interrupts.filter(pk=row_id).first()) is not None:
        return _describe_interrupt(interrupt)
    runs = Run.objects.using(write_alias()).select_related("thread")
    if (run := runs.filter(pk=row_id).first()) is not None:
        return _describe_run(run)
    raise CommandError(f"No interrupt or run with id {row_id}.")


def _describe_interrupt(interrupt: Interrupt) -> dict[str, Any]:
    decisions = Decision.objects.using(write_alias()).filter(interrupt=interrupt).order_by("pk")
    return {
        "interrupt": interrupt.pk,
        "title": interrupt.title,
        "why": interrupt.why,
        "status": interrupt.status,
        "graph": interrupt.graph,
        "node": interrupt.node,
        "run": interrupt.run_id,
        "thread": interrupt.thread.thread_id,
        "created_at": interrupt.created_at,
        "due_at": interrupt.due_at,
        "expires_at": interrupt.expires_at,
        "claimed_by": interrupt.claimed_by_label,
        "claimed_until": interrupt.claimed_until,
        "decisions_offered": interrupt.allowed_decisions,
        "payload": interrupt.payload,
        "response_schema": interrupt.response_schema,
        "decisions": [
            {
                "at": made.created_at,
                "by": made.by_label,
                "type": made.type,
                "value": made.value,
                "reason": made.reason,
            }
            for made in decisions
        ],
    }


def _describe_run(run: Run) -> dict[str, Any]:
    interrupts = Interrupt.objects.using(write_alias()).filter(run=run).order_by("created_at", "pk")
    return {
        "run": run.pk,
        "state": run.state,
        "graph": run.graph,
        "version": run.graph_version,
        "key": run.key,
        "thread": run.thread.thread_id,
        "started_at": run.created_at,
        "finished_at": run.finished_at,
        "step": run.step,
        "error": run.error,
        "interrupts": list(interrupts.values("id", "title", "status")),
    }
