"""``hitl decide``: decides a question from a terminal or a script."""

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
    "Decide a question. Without --by it is decided for nobody, who may do everything and stands "
    "in the record as the system; with it, as that user and with what they may do."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the verb."""
    parser.add_argument("id", type=parse_id, help="the question's id")
    parser.add_argument("type", choices=list(DECISION_TYPES), help="what is decided")
    parser.add_argument("--value", metavar="JSON", help="the answer, or what it is edited to")
    parser.add_argument("--reason", default="", help="why, for the record")
    parser.add_argument("--by", metavar="USER", help="on whose behalf: a user's name")
    parser.add_argument(
        "--not-over-claim",
        action="store_true",
        help="refuse where somebody else holds the question",
    )
    add_json_argument(parser)


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Decides, or says why that can't be."""
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
        command.stdout.write(f"Decided: {decided.type}. Run {decided.run_id} goes on.")
    else:
        command.stdout.write(f"Recorded: {decided.type}. {waiting} more have to approve.")


def _parse_value(text: str | None) -> Any:
    if text is None:
        return UNSET
    try:
        return parse_strict(text)
    except ValueError as error:
        raise CommandError(f"--value is not JSON: {error}") from None


def find_user(name: str) -> Any:
    """Returns the user of this name; CommandError where there is none."""
    users = get_user_model()
    try:
        return users._default_manager.get_by_natural_key(name)
    except users.DoesNotExist:
        raise CommandError(f"There is no user {name!r}.") from None
