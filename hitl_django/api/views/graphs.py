"""What can be started."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from ... import registry
from ...engine.errors import UnknownGraphError
from ...policy import get_policy
from ..operations import Shown, operation
from ..resource import Resource
from ..serializers import GraphSerializer


class GraphList(Resource):
    """The graphs that the user may start."""

    @operation("list_graphs", answers={200: Shown("All of them.", GraphSerializer, paged=True)})
    def get(self, request: Request) -> Response:
        """Lists the graphs that you may start."""
        policy = get_policy()
        names = [name for name in registry.names() if policy.may_start(request.user, name)]
        graphs = [registry.get(name) for name in names]
        results = self.render(GraphSerializer, graphs, many=True)
        return Response({"next": None, "previous": None, "results": results})


class GraphDetail(Resource):
    """One graph, with the JSON schema of its input."""

    @operation(
        "get_graph",
        answers={200: Shown("The graph.", GraphSerializer)},
        errors=(UnknownGraphError,),
    )
    def get(self, request: Request, name: str) -> Response:
        """Shows a graph with the JSON Schema of its input."""
        if not get_policy().may_start(request.user, name):
            raise UnknownGraphError(name, ())
        return Response(self.render(GraphSerializer, registry.get(name)))
