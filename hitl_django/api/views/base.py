"""What every view of ours has in common, whatever the host's DRF settings say."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import ValidationError
from rest_framework.generics import GenericAPIView
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.settings import api_settings
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from ..filters import FilterBackend
from ..invalid_params import InvalidParam, convert_to_parameter, flatten_errors
from ..operations import Operation, operation_of
from ..paging import PARAMETERS, KeysetPagination
from ..parsers import BodyLimits, StrictJSONParser
from ..problems import InvalidRequest, handle
from ..renderers import JSONOnly, PlainJSONRenderer
from ..request_bodies import BodyRequest
from ..serializers.fields import Body, Query
from ..throttles import UserThrottle


class SignedIn(BasePermission):
    """Lets in who is signed in and active; what they may see and do, the policy says."""

    def has_permission(self, request: Request, view: Any) -> bool:
        user = request.user
        return bool(user and user.is_authenticated and user.is_active)


class Resource(APIView):
    """One address of the API.

    Authentication is the host's (``DEFAULT_AUTHENTICATION_CLASSES``), since only the host knows
    how its clients sign in, and the session, so that its own pages can call us; the session
    brings CSRF checks with it. The host's throttles hold beside ours. Everything else is stated
    here, or with ``operation`` at a method, and not taken from the host.
    """

    renderer_classes = (PlainJSONRenderer,)
    parser_classes = (StrictJSONParser,)
    permission_classes = (SignedIn,)
    content_negotiation_class = JSONOnly
    metadata_class = None
    versioning_class = None
    http_method_names = ["get", "post", "delete", "head", "options"]  # noqa: RUF012
    #: A host's own document leaves us out; ours is made by openapi.Generator.
    schema = None

    #: How much a body may hold.
    limits = BodyLimits()
    #: JSON pointer to the part of the body that the service is given, for its faults.
    part = ""

    def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Request:
        return BodyRequest(
            request,
            parsers=self.get_parsers(),
            authenticators=self.get_authenticators(),
            negotiator=self.get_content_negotiator(),
            parser_context=self.get_parser_context(request),
        )

    def get_authenticators(self) -> list[BaseAuthentication]:
        classes: list[Any] = list(api_settings.DEFAULT_AUTHENTICATION_CLASSES)
        if not any(issubclass(known, SessionAuthentication) for known in classes):
            classes.append(SessionAuthentication)
        return [kind() for kind in classes]

    def get_throttles(self) -> list[BaseThrottle]:
        declared = self.operation
        if declared is None:
            return super().get_throttles()
        usual = "THROTTLE_READ" if self.request.method in SAFE_METHODS else "THROTTLE_WRITE"
        return [*super().get_throttles(), UserThrottle(declared.throttle or usual)]

    def get_exception_handler(self) -> Callable[..., Response | None]:
        return handle

    @property
    def operation(self) -> Operation | None:
        """What is declared for the method of the request."""
        return operation_of(self, self.request.method or "")

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        # What is wrong with a request that has no handler is its method.
        faults = self.parameter_faults(request) if self.operation is not None else ()
        if faults:
            raise InvalidRequest(*faults)

    def parameters(self) -> frozenset[str]:
        """Return the names of the query parameters that it takes; any other is refused."""
        declared = self.operation
        query = declared.query if declared else None
        return frozenset(query().fields) if query else frozenset()

    def parameter_faults(self, request: Request) -> list[InvalidParam]:
        known, faults = self.parameters(), []
        for name, values in request.query_params.lists():
            if name not in known:
                faults.append(
                    InvalidParam("unknown_parameter", "There is no such one.", parameter=name)
                )
            elif len(values) > 1:
                faults.append(InvalidParam("repeated", "May be given once.", parameter=name))
            elif not values[0]:
                faults.append(InvalidParam("invalid", "May not be empty.", parameter=name))
        return faults

    def options(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """Answer with the methods only, and the same whether the object exists or not."""
        return Response(status=204)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        # What one person may see is nobody else's, and payloads are not ours to be sniffed.
        response.headers.setdefault("Cache-Control", "private, no-cache")
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    def body(self) -> dict[str, Any]:
        """Return the body's fields; a missing, misshapen or unknown one is refused by pointer."""
        declared = self.operation
        return self._taken(declared.body if declared else None, self.request.data)

    def query(self) -> dict[str, Any]:
        """Return the query's parameters; one that doesn't fit is refused by name."""
        declared = self.operation
        return self._taken(declared.query if declared else None, self.request.query_params)

    def _taken(self, declared: type[Serializer[Any]] | None, given: Any) -> dict[str, Any]:
        with _kept(declared or Body, self.request) as serializer:
            try:
                return dict(serializer.run_validation(dict(given.items())))
            except ValidationError as error:
                faults = flatten_errors(error.detail)
                if isinstance(serializer, Query):
                    faults = (convert_to_parameter(fault) for fault in faults)
                raise InvalidRequest(*faults) from None

    def render(self, serializer_class: type[Serializer[Any]], thing: Any, **options: Any) -> Any:
        """Return ``thing`` as the serializer shows it."""
        if options:
            return serializer_class(thing, context={"request": self.request}, **options).data
        with _kept(serializer_class, self.request) as serializer:
            return serializer.to_representation(thing)


_local = threading.local()


@contextmanager
def _kept(kind: type[Serializer[Any]], request: Request) -> Iterator[Any]:
    """Gives this thread's serializer of a class, which knows the request meanwhile.

    A new one copies each of its fields, which takes longer than what it is made for. Of what it is
    used for none keeps anything but the context.
    """
    kept: Any = _local.__dict__
    serializer = kept.pop(kind, None) or kind()
    serializer._context = {"request": request}
    try:
        yield serializer
    finally:
        serializer._context = {}
        kept[kind] = serializer


class Collection(Resource, GenericAPIView[Any]):
    """A list that is filtered, ordered and paged; subclasses say what the user may see."""

    filter_backends = (FilterBackend,)
    pagination_class = KeysetPagination
    filterset_class: Any

    def parameters(self) -> frozenset[str]:
        if self.request.method not in ("GET", "HEAD"):
            return super().parameters()
        return PARAMETERS | frozenset(self.filterset_class.base_filters)

    def page(self) -> Response:
        """Return one page of the list."""
        rows = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(self.get_serializer(rows, many=True).data)
