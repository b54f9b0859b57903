"""``hitl schedules``: lists the schedules."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand
from django.db.models import F

from hitl_django.db.alias import write_alias
from hitl_django.forms.local_time import to_local
from hitl_django.management.printing import add_json_argument, print_json, print_table

from .models import Schedule
from .services import ScheduleInfo

HELP = "List schedules by next due time. Schedules defined in code appear after the first sweep."
COLUMNS = ("id", "graph", "expression", "timezone", "next", "started", "skipped", "error")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json_argument(parser)


def perform(command: BaseCommand, options: Mapping[str, Any]) -> None:
    rows = Schedule.objects.using(write_alias()).order_by(F("next_at").asc(nulls_last=True), "pk")
    found = [ScheduleInfo.from_row(row) for row in rows]
    if options["json"]:
        for each in found:
            print_json(command, asdict(each))
    elif found:
        print_table(command, COLUMNS, map(_format_row, found))
    else:
        command.stderr.write("No results.")


def _format_row(each: ScheduleInfo) -> list[object]:
    due = "never"
    if not each.is_active:
        due = "paused"
    elif each.next_at is not None:
        due = f"{to_local(each.next_at):%Y-%m-%d %H:%M}"
    counts = [each.started, each.skipped]
    return [each.id, each.graph, each.expression, each.timezone, due, *counts, each.last_error]
