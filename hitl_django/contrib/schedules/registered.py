"""Schedules that are defined in code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from hitl_django.engine.errors import GraphDefinitionError

from . import cron

Overlap = Literal["skip", "allow"]
OVERLAPS: tuple[str, ...] = get_args(Overlap)


@dataclass(frozen=True, slots=True)
class RegisteredSchedule:
    """The arguments of ``schedule()``.

    Without a time zone, TIME_ZONE applies.
    """

    expression: str
    input: Any
    timezone: str | None
    overlap: str
    context: Any = None


_registered: dict[str, RegisteredSchedule] = {}


def schedule(
    graph: str,
    expression: str,
    *,
    input: Any = None,  # noqa: A002  (the engine's word)
    context: Any = None,
    timezone: str | None = None,
    overlap: Overlap = "skip",
) -> None:
    """Start runs of a graph at the times of a cron expression.

    Call this function once per graph, in the module that registers the graph. A later call replaces
    the schedule. Each sweep updates the row of the schedule, except for the column that pauses it.

    Args:
        graph: the name of the graph. Runs use its newest version.
        expression: minute, hour, day of the month, month and day of the week, in local time of the
            time zone.
        input: a JSON value, by default an empty state.
        context: a JSON value, for a graph with a context schema.
        timezone: the name of a time zone, by default Django's TIME_ZONE.
        overlap: "skip" skips a due time while the last run is active, "allow" starts another run.

    Raises:
        GraphDefinitionError: if an argument is invalid. If cronsim isn't installed, the expression
            is not checked, and a system check reports the missing package.
    """
    _registered[graph] = _check(graph, expression, input, timezone, overlap, context)


def unschedule(graph: str) -> None:
    """Remove the schedule of a graph.

    This function is for tests.
    """
    _registered.pop(graph, None)


def list_registered() -> Mapping[str, RegisteredSchedule]:
    """Return the schedules that are defined in code, by graph."""
    return dict(sorted(_registered.items()))


def _check(
    graph: str, expression: Any, given: Any, timezone: Any, overlap: Any, context: Any
) -> RegisteredSchedule:
    if not isinstance(expression, str):
        raise _refuse(graph, f"the expression is a text, not {expression!r}")
    if cron.is_installed() and (fault := cron.find_expression_fault(expression)):
        raise _refuse(graph, f"the expression {expression!r} {fault}")
    if timezone is not None and (fault := cron.find_timezone_fault(timezone)):
        raise _refuse(graph, f"timezone={timezone!r} {fault}")
    if overlap not in OVERLAPS:
        raise _refuse(graph, f"overlap must be one of {', '.join(OVERLAPS)}, not {overlap!r}")
    try:
        json.dumps([given, context], allow_nan=False)
    except (TypeError, ValueError) as error:
        raise _refuse(graph, f"input and context are JSON values: {error}") from None
    return RegisteredSchedule(
        expression, {} if given is None else given, timezone, overlap, context
    )


def _refuse(graph: str, reason: str) -> GraphDefinitionError:
    return GraphDefinitionError(f"The graph {graph!r} can't be scheduled: {reason}.")
