"""Base class of the views. It follows the conventions of LangGraph's clients."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from django.urls import reverse
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from hitl_django.api.invalid_params import InvalidParam
from hitl_django.api.views.base import Resource
from hitl_django.json_text.strict_json import parse_strict

from .authentication import ApiKeyAuthentication


class AgentResource(Resource):
    """Base class of the views at URLs of LangGraph's server."""

    http_method_names = ("get", "post", "put", "patch", "delete", "head", "options")
    #: Query parameters that form a list if they are repeated.
    lists: frozenset[str] = frozenset()

    def get_authenticators(self) -> list[BaseAuthentication]:
        return [*super().get_authenticators(), ApiKeyAuthentication()]

    def find_parameter_faults(self, request: Request) -> list[InvalidParam]:
        # Clients send parameters that have no effect, which LangGraph's server ignores.
        # Parameters that form a list may be repeated and empty.
        known = self.allowed_parameters() - self.lists
        found = super().find_parameter_faults(request)
        return [fault for fault in found if fault.parameter in known]

    def read_list(self, name: str) -> list[str]:
        """Return all values of a query parameter that may be repeated."""
        texts = self.request.query_params.getlist(name)
        return [part for text in texts for part in _split_list(text) if part]


def _split_list(text: str) -> list[str]:
    """Return the items of a list in a query parameter.

    The list is comma-separated, or JSON as sent by the JavaScript client.
    """
    if text.startswith("["):
        try:
            found = parse_strict(text)
        except ValueError:
            found = None
        if isinstance(found, list) and all(isinstance(part, str) for part in found):
            return found
    return text.split(",")


class UnknownPathView(AgentResource):
    """View of unknown URLs below the path at which the API is included. The response is 404."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise Http404


def build_path(request: Request, name: str, *args: Any) -> str:
    """Return the path of a view, relative to the path at which the API is included.

    Clients prepend their configured base URL.
    """
    match = request.resolver_match
    space = match.namespace if match is not None else "langgraph_api"
    root = reverse(f"{space}:ok").removesuffix("ok")
    return "/" + reverse(f"{space}:{name}", args=args).removeprefix(root)
