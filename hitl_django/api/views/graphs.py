"""Views of the registered graphs: list, detail and diagram."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django import services
from hitl_django.engine.errors import ThreadNotFound
from hitl_django.errors import BrokenGraphError, UnknownGraphError
from hitl_django.graph_registry import registry, svg

from .. import querysets
from ..operations import ResponseSpec, operation
from ..serializers.graphs import DiagramQuery, GraphDetailSerializer, GraphSerializer
from .base import Resource

SVG = "image/svg+xml"


class GraphList(Resource):
    """List of graphs that the user may start, or whose runs or interrupts the user can view."""

    @operation(
        "list_graphs",
        responses={200: ResponseSpec("List of graphs.", GraphSerializer, paged=True)},
    )
    def get(self, request: Request) -> Response:
        """List the graphs that you can start, or whose runs or interrupts you can view."""
        graphs = [registry.find_graph(name) for name in querysets.list_visible_graphs(request.user)]
        return self.render_all(GraphSerializer, graphs)


class GraphDetail(Resource):
    """One graph, with its input and output schemas and its diagram."""

    @operation(
        "get_graph",
        responses={200: ResponseSpec("The graph.", GraphDetailSerializer)},
        errors=(UnknownGraphError, BrokenGraphError),
    )
    def get(self, request: Request, name: str) -> Response:
        """Retrieve a graph with its schemas, version and Mermaid diagram."""
        return Response(self.render(GraphDetailSerializer, get_visible_graph(request, name)))


class GraphDiagram(Resource):
    """The drawing of a graph, optionally with the position of a thread."""

    @operation(
        "get_graph_diagram",
        query=DiagramQuery,
        responses={
            200: ResponseSpec("The graph as SVG.", schema={"type": "string"}, media_type=SVG)
        },
        errors=(UnknownGraphError, BrokenGraphError, ThreadNotFound),
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        """Retrieve a graph's diagram as SVG.

        The diagram has CSS classes but no styles.
        """
        registered = get_visible_graph(request, name)
        thread_id = self.read_query().get("thread")
        if thread_id is None:
            picture = svg.get_picture(registered.graph)
            drawn: str = svg.draw_svg(picture, title=str(registered.title))
        elif self.find(querysets.visible_threads, thread_id=thread_id).graph != name:
            raise Http404
        else:
            drawn = services.thread_picture(thread_id, by=request.user)
        # If the SVG is opened as a document, it must not run scripts or load resources.
        headers = {"Content-Security-Policy": "default-src 'none'; sandbox"}
        return HttpResponse(drawn, content_type=SVG, headers=headers)


def get_visible_graph(request: Request, name: str) -> registry.RegisteredGraph:
    """Return a graph that the user may start, or whose runs or interrupts the user can view.

    Raises:
        UnknownGraphError: if the graph doesn't exist or isn't visible to the user.
    """
    if not querysets.can_see_graph(request.user, name):
        raise UnknownGraphError(name, ())
    return registry.get_graph(name)
