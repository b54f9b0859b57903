"""Serializers of registered graphs."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from hitl_django.engine.drawing import draw_mermaid
from hitl_django.engine.types import DURABILITIES
from hitl_django.graph_registry.registry import BrokenGraph
from hitl_django.permissions import get_policy, may_start

from .fields import (
    HyperlinkField,
    JSONObjectField,
    MethodField,
    Query,
    StrictCharField,
    StrictChoiceField,
)


class GraphSerializer(serializers.Serializer):
    """A registered graph."""

    name = serializers.CharField()
    url = HyperlinkField("graph", source="name")
    version = serializers.CharField()
    fingerprint = serializers.CharField(allow_null=True)
    durability = StrictChoiceField(
        choices=list(DURABILITIES),
        help_text="When checkpoints are stored: after each super-step, while the next "
        "one runs, or when the run pauses or ends.",
    )
    title = serializers.CharField()
    input_schema = JSONObjectField(
        source="graph.get_input_jsonschema",
        allow_null=True,
        help_text="JSON Schema of the run input.",
    )
    output_schema = JSONObjectField(
        source="graph.get_output_jsonschema",
        allow_null=True,
        help_text="JSON Schema of the run output.",
    )
    may_start = MethodField(
        serializers.BooleanField(help_text="Whether you can start runs of this graph via the API.")
    )
    fault = MethodField(
        serializers.CharField(
            allow_null=True,
            help_text="Why the graph can't be loaded; details for operators only. Null "
            "if it loads.",
        )
    )

    def get_may_start(self, graph: Any) -> bool:
        return may_start(self.context["request"].user, graph.name, "api")

    def get_fault(self, graph: Any) -> str | None:
        if not isinstance(graph, BrokenGraph):
            return None
        may_know = get_policy().may_view_workers(self.context["request"].user)
        return graph.reason if may_know else "The graph can't be loaded."


class GraphDetailSerializer(GraphSerializer):
    """A graph with its schemas and its diagram."""

    mermaid = MethodField(serializers.CharField(help_text="Nodes and edges as a Mermaid diagram."))
    diagram = HyperlinkField("graph-diagram", source="name")

    def get_mermaid(self, registered: Any) -> str:
        return draw_mermaid(registered.graph)


class DiagramQuery(Query):
    """Query parameters of a graph's drawing."""

    thread = StrictCharField(
        max_length=255,
        required=False,
        help_text="A thread of this graph: highlights visited, waiting and next nodes.",
    )
