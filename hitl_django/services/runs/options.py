"""What a run is started with besides its input: breakpoints, durability, metadata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hitl_django.engine.errors import InvalidInputError
from hitl_django.graph_registry.registry import DURABILITIES, RegisteredGraph

from .threads import check_metadata

ALL = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Breakpoints and durability of one run, in place of its graph's, and metadata of its own.

    A breakpoint before or after a node, or with ``"*"`` each, is a question whether to go on. None
    is what the graph says.
    """

    interrupt_before: str | Sequence[str] | None = None
    interrupt_after: str | Sequence[str] | None = None
    durability: str | None = None
    metadata: dict[str, Any] | None = None

    def encode(self, registered: RegisteredGraph) -> dict[str, Any] | None:
        """Returns them as they are stored; InvalidInputError where the graph can't have them."""
        nodes = registered.graph.nodes
        for what in ("interrupt_before", "interrupt_after"):
            names = getattr(self, what) or ()
            unknown = [] if names == ALL else [name for name in names if name not in nodes]
            if unknown:
                raise InvalidInputError(
                    f"The graph {registered.name!r} has no node {unknown[0]!r}.",
                    [(what, "names no node of the graph")],
                )
        if self.durability is not None and self.durability not in DURABILITIES:
            raise InvalidInputError(
                f"durability is one of {', '.join(DURABILITIES)}, not {self.durability!r}.",
                [("durability", "is none")],
            )
        check_metadata(self.metadata)
        given = {
            name: value
            for name in self.__dataclass_fields__
            if (value := getattr(self, name)) is not None
        }
        return given or None
