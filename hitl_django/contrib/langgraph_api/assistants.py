"""Assistants: one per registered graph that the user may start or view."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django.api import querysets
from hitl_django.api.invalid_params import InvalidParam
from hitl_django.api.operations import operation
from hitl_django.api.problems import InvalidRequest
from hitl_django.errors import UnknownGraphError
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.registry import RegisteredGraph

from .bodies import AssistantCountBody, AssistantSearchBody, DrawingQuery, SubgraphsQuery
from .documents import build_assistant, build_assistant_id, build_drawing, select_keys
from .not_supported import NotSupported
from .resource import AgentResource

USUAL_ROWS = 10
_XRAY: dict[str, Any] = {"true": True, "false": False}


def find_graph_name(assistant_id: str) -> str:
    """Return the graph's name for an assistant id.

    Clients may also pass the name itself.
    """
    for name in registry.list_names():
        if assistant_id in (name, build_assistant_id(name)):
            return name
    raise UnknownGraphError(assistant_id, registry.list_names())


def resolve_graph_name(assistant_id: str) -> str:
    """Return the graph's name for an assistant id, or the id itself if no assistant has it."""
    try:
        return find_graph_name(assistant_id)
    except UnknownGraphError:
        return assistant_id


def get_visible_graph(request: Request, assistant_id: str) -> RegisteredGraph:
    """Return the graph of an assistant.

    The response is 404 if the graph isn't visible to the user.
    """
    name = find_graph_name(assistant_id)
    if not querysets.can_see_graph(request.user, name):
        raise UnknownGraphError(assistant_id, ())
    return registry.get_graph(name)


class AssistantList(AgentResource):
    """View for the creation of assistants, which this API doesn't support."""

    @operation("create_assistant", responses={})
    def post(self, request: Request) -> Response:
        raise NotSupported("Assistants can't be created: there is one per registered graph.")


class AssistantSearch(AgentResource):
    """View that searches for assistants."""

    @operation(
        "search_assistants", body=AssistantSearchBody, responses={}, throttle="THROTTLE_READ"
    )
    def post(self, request: Request) -> Response:
        body = self.read_body()
        found = _find(request, body)
        if key := body.get("sort_by"):
            found.sort(key=lambda each: each[key], reverse=body.get("sort_order") == "desc")
        start, limit = body.get("offset", 0), body.get("limit", USUAL_ROWS)
        headers = {"X-Pagination-Next": str(start + limit)} if start + limit < len(found) else None
        page = found[start : start + limit]
        return Response(
            [select_keys(each, body.get("select", [])) for each in page], headers=headers
        )


class AssistantCount(AgentResource):
    """View of the number of assistants."""

    @operation("count_assistants", body=AssistantCountBody, responses={}, throttle="THROTTLE_READ")
    def post(self, request: Request) -> Response:
        return Response(len(_find(request, self.read_body())))


class AssistantDetail(AgentResource):
    """View of one assistant."""

    @operation("get_assistant", responses={})
    def get(self, request: Request, assistant_id: str) -> Response:
        return Response(build_assistant(get_visible_graph(request, assistant_id)))

    @operation("change_assistant", responses={})
    def patch(self, request: Request, assistant_id: str) -> Response:
        raise NotSupported("Assistants can't be changed: there is one per registered graph.")

    @operation("delete_assistant", responses={})
    def delete(self, request: Request, assistant_id: str) -> Response:
        raise NotSupported("Assistants can't be deleted: there is one per registered graph.")


class AssistantGraph(AgentResource):
    """View of the nodes and edges of an assistant's graph."""

    @operation("draw_assistant", query=DrawingQuery, responses={})
    def get(self, request: Request, assistant_id: str) -> Response:
        graph = get_visible_graph(request, assistant_id).graph
        drawing = graph.get_graph(xray=_read_xray(self.read_query().get("xray", "false")))
        return Response(build_drawing(drawing))


class AssistantSchemas(AgentResource):
    """View of the JSON Schemas of an assistant's graph."""

    @operation("get_assistant_schemas", responses={})
    def get(self, request: Request, assistant_id: str) -> Response:
        registered = get_visible_graph(request, assistant_id)
        return Response(_build_schemas(registered.name, registered.graph))


class AssistantSubgraphs(AgentResource):
    """View of the JSON Schemas of the subgraphs of an assistant's graph."""

    @operation("list_assistant_subgraphs", query=SubgraphsQuery, responses={})
    def get(self, request: Request, assistant_id: str, namespace: str | None = None) -> Response:
        registered = get_visible_graph(request, assistant_id)
        recurse = self.read_query().get("recurse", False)
        found = {
            path: _build_schemas(registered.name, graph)
            for path, graph in registered.graph.get_subgraphs(namespace=namespace, recurse=recurse)
        }
        if namespace is not None and not found:
            raise Http404
        return Response(found)


def _find(request: Request, body: dict[str, Any]) -> list[dict[str, Any]]:
    names = querysets.list_visible_graphs(request.user)
    found = [build_assistant(registry.find_graph(name)) for name in names]
    wanted = body.get("metadata", {}).items()
    return [
        each
        for each in found
        if body.get("graph_id", each["graph_id"]) == each["graph_id"]
        and body.get("name", "").casefold() in each["name"].casefold()
        and wanted <= each["metadata"].items()
    ]


def _read_xray(text: str) -> int | bool:
    if text in _XRAY:
        return bool(_XRAY[text])
    if text.isascii() and text.isdigit() and len(text) < 4:
        return int(text)
    detail = "Must be true, false or a number."
    raise InvalidRequest(InvalidParam("invalid", detail, parameter="xray"))


def _build_schemas(name: str, graph: Any) -> dict[str, Any]:
    return {
        "graph_id": name,
        "input_schema": graph.get_input_jsonschema(),
        "output_schema": graph.get_output_jsonschema(),
        "state_schema": graph.get_output_jsonschema(),
        "config_schema": None,
        "context_schema": registry.describe_context(graph),
    }
