"""``hitl export-person``: exports all stored data about a user."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from hitl_django import services

from .decide import find_user
from .printing import print_json

HELP = "Export all rows that refer to a user, including archived threads, as JSON Lines."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("user", help="username")


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Print the rows about the user, one per line."""
    for row in services.export_person(find_user(options["user"])):
        print_json(command, asdict(row))
