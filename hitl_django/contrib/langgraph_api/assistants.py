"""Views of assistants."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django.api.invalid_params import InvalidParam
from hitl_django.api.operations import operation
from hitl_django.api.problems import InvalidRequest
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.registry import RegisteredGraph

from .bodies import (
    AssistantBody,
    AssistantChangeBody,
    AssistantCountBody,
    AssistantDeletionQuery,
    AssistantSearchBody,
    DrawingQuery,
    SubgraphsQuery,
    VersionBody,
    VersionsBody,
)
from .documents import build_assistant, build_drawing, build_version, select_keys
from .not_supported import NotSupported
from .resource import AgentResource
from .stored_assistants import (
    change_assistant,
    count_assistants,
    create_assistant,
    delete_assistant,
    find_visible_assistant,
    list_versions,
    search_assistants,
    set_version,
)

_XRAY: dict[str, Any] = {"true": True, "false": False}


def get_visible_graph(request: Request, assistant_id: str) -> RegisteredGraph:
    """Return the graph of an assistant.

    Raises:
        UnknownGraphError: if the user can't view the assistant or the graph.
    """
    return registry.get_graph(find_visible_assistant(request.user, assistant_id).graph)


class AssistantList(AgentResource):
    """View that creates assistants."""

    @operation("create_assistant", body=AssistantBody, responses={})
    def post(self, request: Request) -> Response:
        return Response(build_assistant(create_assistant(request.user, self.read_body())))


class AssistantSearch(AgentResource):
    """View that searches for assistants. By default, the newest assistants come first."""

    @operation(
        "search_assistants", body=AssistantSearchBody, responses={}, throttle="THROTTLE_READ"
    )
    def post(self, request: Request) -> Response:
        body = self.read_body()
        page, following = search_assistants(request.user, body)
        headers = None if following is None else {"X-Pagination-Next": str(following)}
        select = body.get("select", [])
        return Response(
            [select_keys(build_assistant(each), select) for each in page], headers=headers
        )


class AssistantCount(AgentResource):
    """View of the number of assistants."""

    @operation("count_assistants", body=AssistantCountBody, responses={}, throttle="THROTTLE_READ")
    def post(self, request: Request) -> Response:
        return Response(count_assistants(request.user, self.read_body()))


class AssistantDetail(AgentResource):
    """View of one assistant."""

    @operation("get_assistant", responses={})
    def get(self, request: Request, assistant_id: str) -> Response:
        return Response(build_assistant(find_visible_assistant(request.user, assistant_id)))

    @operation("change_assistant", body=AssistantChangeBody, responses={})
    def patch(self, request: Request, assistant_id: str) -> Response:
        changed = change_assistant(request.user, assistant_id, self.read_body())
        return Response(build_assistant(changed))

    @operation("delete_assistant", query=AssistantDeletionQuery, responses={})
    def delete(self, request: Request, assistant_id: str) -> Response:
        if self.read_query().get("delete_threads"):
            raise NotSupported(
                "Threads of an assistant aren't deleted with it. Delete each thread."
            )
        delete_assistant(request.user, assistant_id)
        return Response(status=204)


class AssistantVersions(AgentResource):
    """View of the versions of an assistant, newest first."""

    @operation("list_assistant_versions", body=VersionsBody, responses={}, throttle="THROTTLE_READ")
    def post(self, request: Request, assistant_id: str) -> Response:
        found = list_versions(request.user, assistant_id, self.read_body())
        return Response([build_version(each) for each in found])


class AssistantLatest(AgentResource):
    """View that restores the contents of a version of an assistant."""

    @operation("set_assistant_version", body=VersionBody, responses={})
    def post(self, request: Request, assistant_id: str) -> Response:
        version = self.read_body()["version"]
        return Response(build_assistant(set_version(request.user, assistant_id, version)))


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
