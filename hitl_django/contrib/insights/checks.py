"""System checks of the rates of spot checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core import checks

from hitl_django.graph_registry import registry

from .sampling import list_graphs


@checks.register("hitl_django")
def check_graphs(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Report spot checks of graphs that aren't registered."""
    known = registry.list_names()
    return [
        checks.Warning(
            f"No graph {graph!r} is registered, and the code has spot checks for it.",
            hint="Register the graph, or remove the call of spot_check().",
            id="hitl_insights.W001",
        )
        for graph in list_graphs()
        if graph not in known
    ]
