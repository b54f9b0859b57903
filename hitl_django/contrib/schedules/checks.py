"""System checks of schedules defined in code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig
from django.core import checks

from hitl_django.errors import InvalidInputError
from hitl_django.graph_registry import registry

from . import cron
from .registered import list_registered


@checks.register("hitl_django")
def check_cron(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[checks.CheckMessage]:
    """If cronsim isn't installed, report schedules that are defined in code."""
    graphs = list(list_registered())
    if not graphs or cron.is_installed():
        return []
    return [
        checks.Error(
            f"Graphs have a schedule, and no cron expression can be read: {', '.join(graphs)}.",
            hint=f"Run: {cron.MISSING.command}",
            id="hitl_schedules.E001",
        )
    ]


@checks.register("hitl_django")
def check_graphs(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Report code-defined schedules with an unknown graph or an invalid context."""
    known = {*registry.list_names()} - {*registry.list_duplicates()}
    found: list[checks.CheckMessage] = []
    for graph, scheduled in list_registered().items():
        if graph in known:
            found += _check_context(graph, scheduled.context)
        elif graph not in registry.list_duplicates():
            found.append(
                checks.Error(
                    f"No graph {graph!r} is registered, and the code has a schedule for it.",
                    hint="Register the graph, or remove the call of schedule().",
                    id="hitl_schedules.E003",
                )
            )
    return found


def _check_context(graph: str, context: Any) -> Iterator[checks.CheckMessage]:
    try:
        registry.get_graph(graph).graph.encode_context(context)
    except InvalidInputError as error:
        yield checks.Error(
            f"The schedule of the graph {graph!r} can't start it. {error}",
            hint="Give schedule() the context, or the fields of the context a default.",
            id="hitl_schedules.E002",
        )
    except Exception:
        return  # Another check reports that the graph can't be built.
