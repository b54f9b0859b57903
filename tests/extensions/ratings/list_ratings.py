"""``hitl ratings``: lists the ratings."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand

from .models import Rating

HELP = "List the ratings of interrupts."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stars", type=int)


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    wanted = {} if options["stars"] is None else {"stars": options["stars"]}
    for rating in Rating.objects.filter(**wanted).order_by("pk"):
        command.stdout.write(f"{rating.interrupt_id} {rating}")
