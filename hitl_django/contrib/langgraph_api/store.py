"""Views of the store.

The permission policy determines which namespaces a user may use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.utils.module_loading import import_string
from rest_framework.request import Request
from rest_framework.response import Response

from hitl_django.api.invalid_params import InvalidParam
from hitl_django.api.operations import operation
from hitl_django.api.problems import InvalidRequest
from hitl_django.conf import hitl
from hitl_django.contrib.store import DjangoStore
from hitl_django.errors import NotAllowedError, PayloadLimitError
from hitl_django.permissions import get_policy

from .bodies import ItemBody, ItemKeyBody, ItemQuery, ItemSearchBody, NamespacesBody
from .resource import AgentResource

USUAL_ITEMS, USUAL_NAMESPACES = 10, 100


class StoreItems(AgentResource):
    """View of one item of the store."""

    input_pointer = "/value"

    @operation("put_item", body=ItemBody, responses={})
    def put(self, request: Request) -> Response:
        body = self.read_body()
        store = open_store(request.user, body["namespace"], writes=True)
        more = {name: body[name] for name in ("index", "ttl") if name in body}
        with refuse_invalid("/namespace"):
            store.put(tuple(body["namespace"]), body["key"], body["value"], **more)
        return Response(status=204)

    @operation("get_item", query=ItemQuery, responses={})
    def get(self, request: Request) -> Response:
        query = self.read_query()
        namespace = query["namespace"].split(".")
        store = open_store(request.user, namespace)
        with refuse_invalid("/namespace"):
            found = store.get(tuple(namespace), query["key"], refresh_ttl=query.get("refresh_ttl"))
        return Response(None if found is None else found.dict())

    @operation("delete_item", body=ItemKeyBody, responses={})
    def delete(self, request: Request) -> Response:
        body = self.read_body()
        store = open_store(request.user, body["namespace"], writes=True)
        with refuse_invalid("/namespace"):
            store.delete(tuple(body["namespace"]), body["key"])
        return Response(status=204)


class ItemSearch(AgentResource):
    """View that searches the items in a namespace and in its sub-namespaces."""

    @operation("search_items", body=ItemSearchBody, responses={}, throttle="THROTTLE_READ")
    def post(self, request: Request) -> Response:
        body = self.read_body()
        store = open_store(request.user, body["namespace_prefix"])
        if body.get("query") and store.index_config is None:
            # Without an index, items in arbitrary order would look like search results.
            detail = "The store has no index for semantic search. See HITL['API_STORE_FACTORY']."
            raise InvalidRequest(InvalidParam("invalid", detail, pointer="/query"))
        with refuse_invalid("/filter"):
            found = store.search(
                tuple(body["namespace_prefix"]),
                query=body.get("query"),
                filter=body.get("filter"),
                limit=body.get("limit", USUAL_ITEMS),
                offset=body.get("offset", 0),
                refresh_ttl=body.get("refresh_ttl"),
            )
        return Response({"items": [item.dict() for item in found]})


class NamespaceList(AgentResource):
    """View of the namespaces that contain items."""

    @operation("list_namespaces", body=NamespacesBody, responses={}, throttle="THROTTLE_READ")
    def post(self, request: Request) -> Response:
        body = self.read_body()
        found = open_store(request.user, body.get("prefix", [])).list_namespaces(
            prefix=tuple(body.get("prefix", ())),
            suffix=tuple(body.get("suffix", ())),
            max_depth=body.get("max_depth"),
            limit=body.get("limit", USUAL_NAMESPACES),
            offset=body.get("offset", 0),
        )
        return Response({"namespaces": [[*namespace] for namespace in found]})


def open_store(user: Any, namespace: list[str], *, writes: bool = False) -> DjangoStore:
    """Return the store for reading or, with ``writes``, for writing in a namespace.

    Raises:
        NotAllowedError: if the user has no permission for the namespace and its sub-namespaces.
    """
    if not get_policy().may_use_store(user, tuple(namespace), writes=writes):
        raise NotAllowedError("You don't have permission to access this namespace.")
    if not hitl.API_STORE_FACTORY:
        return DjangoStore()
    make: Callable[[], DjangoStore] = import_string(hitl.API_STORE_FACTORY)
    return make()


@contextmanager
def refuse_invalid(pointer: str) -> Iterator[None]:
    """Convert errors of the store about names, values and filters to errors of the request.

    ``pointer`` is the JSON pointer to the part of the request body that these errors are about.
    """
    try:
        yield
    except PayloadLimitError:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidRequest(InvalidParam("invalid", str(error), pointer=pointer)) from error
