"""``hitl decide``: decides an interrupt from a terminal or a script."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from hitl_django import services
from hitl_django.decision_types import DECISION_TYPES
from hitl_django.engine.errors import HitlError
from hitl_django.json_text.strict_json import parse_strict
from hitl_django.services import UNSET

from .printing import add_json_argument, print_json
from .show import parse_id
from .start import describe_error

HELP = (
    "Decide an interrupt. Without --by the decision is made by the system, without "
    "permission checks. With --by it is made by that user, with their permissions."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", type=parse_id, help="interrupt id")
    parser.add_argument("type", choices=list(DECISION_TYPES), help="decision type")
    parser.add_argument("--value", metavar="JSON", help="the response, or the edited value")
    parser.add_argument("--reason", default="", help="reason, saved in the audit log")
    parser.add_argument("--by", metavar="USER", help="username to decide as")
    parser.add_argument(
        "--not-over-claim",
        action="store_true",
        help="fail if someone else has claimed the interrupt",
    )
    add_json_argument(parser)


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Decide the interrupt, or report why the decision failed."""
    try:
        decided = services.decide(
            options["id"],
            options["type"],
            _parse_value(options["value"]),
            by=None if options["by"] is None else find_user(options["by"]),
            via="command",
            reason=options["reason"],
            ignore_claim=not options["not_over_claim"],
        )
    except HitlError as error:
        raise CommandError(describe_error(error)) from None
    if options["json"]:
        print_json(command, asdict(decided))
        return
    waiting = decided.quorum - decided.approvals
    if decided.complete:
        command.stdout.write(f"Decided: {decided.type}. Run {decided.run_id} resumes.")
    else:
        command.stdout.write(f"Recorded: {decided.type}. {waiting} more approvals required.")


def _parse_value(text: str | None) -> Any:
    if text is None:
        return UNSET
    try:
        return parse_strict(text)
    except ValueError as error:
        raise CommandError(f"--value is not valid JSON: {error}") from None


def find_user(name: str) -> Any:
    """Return the user with this username.

    Raises:
        CommandError: if the user doesn't exist.
    """
    users = get_user_model()
    try:
        return users._default_manager.get_by_natural_key(name)
    except users.DoesNotExist:
        raise CommandError(f"Unknown user {name!r}.") from None
