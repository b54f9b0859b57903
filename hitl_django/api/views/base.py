"""Base classes of the API's views, independent of the project's DRF settings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from django.http import Http404
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

from hitl_django import services
from hitl_django.permissions import find_row

from .. import querysets
from ..expansions import EXPAND, Expansion, expand, read_names
from ..filters import MetadataFilterSet, StrictFilterBackend
from ..invalid_params import InvalidParam, convert_to_parameter, flatten_errors
from ..operations import REPLAYED, Operation, get_operation
from ..paging import PARAMETERS, KeysetPagination
from ..parsers import BodyLimits, StrictJSONParser
from ..preconditions import read_idempotency_key
from ..problems import InvalidRequest, handle_exception
from ..renderers import JSONOnlyNegotiation, PlainJSONRenderer
from ..request_bodies import BodyRequest
from ..request_ids import HEADER as REQUEST_ID
from ..request_ids import find_request_id
from ..serializers.fields import Query, StrictSerializer
from ..throttles import UserThrottle

Row = TypeVar("Row", bound=Model)
Made = TypeVar("Made")


class IsSignedIn(BasePermission):
    """Permission of active users who are signed in.

    The policy decides about all other permissions.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        user = request.user
        return bool(user and user.is_authenticated and user.is_active)


class Resource(APIView):
    """View of one path, with an operation for each method.

    Users authenticate with the project's ``DEFAULT_AUTHENTICATION_CLASSES`` or with the session, so
    that pages of the project can call the API. Session authentication includes the CSRF check. The
    project's throttles apply in addition to the throttles of this class. All other settings
    of REST framework are ignored. This class or the method's ``operation`` defines their values.
    """

    renderer_classes = (PlainJSONRenderer,)
    parser_classes = (StrictJSONParser,)
    permission_classes = (IsSignedIn,)
    content_negotiation_class = JSONOnlyNegotiation
    metadata_class = None
    versioning_class = None
    http_method_names: Sequence[str] = ("get", "post", "patch", "delete", "head", "options")
    #: The project's own document excludes these views. openapi.Generator generates the document
    #: about them.
    schema = None

    #: Limits of a request body.
    limits = BodyLimits()
    #: JSON pointer to the part of the body that the service receives. Error locations are relative
    #: to it.
    input_pointer = ""

    #: Id of the request, included in the response and in logs.
    request_id = ""
    #: Rate limit of the operation, or None if the method has no operation.
    throttle: UserThrottle | None = None

    def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Request:
        self.request_id = find_request_id(request)
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
        self.throttle = UserThrottle(declared.throttle or usual)
        return [*super().get_throttles(), self.throttle]

    def get_exception_handler(self) -> Callable[..., Response | None]:
        return handle_exception

    @property
    def operation(self) -> Operation | None:
        """The operation declared for the request's method."""
        return get_operation(self, self.request.method or "")

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        # If the method isn't allowed, report only that error.
        faults = self.find_parameter_faults(request) if self.operation is not None else ()
        if faults:
            raise InvalidRequest(*faults)

    def allowed_parameters(self) -> frozenset[str]:
        """Return the names of the accepted query parameters.

        A request with any other parameter is refused.
        """
        declared = self.operation
        query = declared.query if declared else None
        return frozenset(query().fields) if query else frozenset()

    def allows_parameter(self, name: str) -> bool:
        """Return whether a parameter with a variable name, such as ``metadata.KEY``, is valid."""
        return False

    def find_parameter_faults(self, request: Request) -> list[InvalidParam]:
        """Return an error for each query parameter that is unknown, empty or repeated."""
        known, faults = self.allowed_parameters(), []
        for name, values in request.query_params.lists():
            if name not in known and not self.allows_parameter(name):
                faults.append(InvalidParam("unknown_parameter", "Not found.", parameter=name))
            elif len(values) > 1:
                faults.append(InvalidParam("repeated", "Can only be given once.", parameter=name))
            elif not values[0]:
                faults.append(InvalidParam("invalid", "Must not be empty.", parameter=name))
        return faults

    def options(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """Return the allowed methods. The object in the URL doesn't need to exist."""
        return Response(status=204)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        # Responses are private to one user. Browsers must not guess the media type of payloads.
        response.headers.setdefault("Cache-Control", "private, no-cache")
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers[REQUEST_ID] = self.request_id
        if self.throttle is not None:
            for name, value in self.throttle.build_headers().items():
                response.headers[name] = value
        return response

    def find(self, select: Callable[[Any], QuerySet[Row]], **key: Any) -> Row:
        """Return the row with this key, among the rows visible to the user.

        ``select`` is a function of querysets.py.

        Raises:
            Http404: if the row doesn't exist, or the user can't view it.
        """
        return find_row(select(self.request.user), Http404, **key)

    def read_body(self) -> dict[str, Any]:
        """Return the fields of the body.

        Errors are located by JSON pointer.
        """
        declared = self.operation
        return self._validate(declared.body if declared else None, self.request.data)

    def read_query(self) -> dict[str, Any]:
        """Return the query parameters, except for a list's filters.

        Errors are located by parameter name.
        """
        declared = self.operation
        query = declared.query if declared else None
        names = Resource.allowed_parameters(self)
        given = {name: text for name, text in self.request.query_params.items() if name in names}
        return self._validate(query, given)

    def _validate(self, declared: type[Serializer[Any]] | None, given: Any) -> dict[str, Any]:
        with _borrow_serializer(declared or StrictSerializer, self.request) as serializer:
            try:
                return dict(serializer.run_validation(dict(given.items())))
            except ValidationError as error:
                faults = flatten_errors(error.detail)
                if isinstance(serializer, Query):
                    faults = (convert_to_parameter(fault) for fault in faults)
                raise InvalidRequest(*faults) from None

    def find_run(self, run_id: str) -> services.RunInfo:
        """Return the RunInfo of a run.

        Raises:
            Http404: if the run doesn't exist, or the user can't view it.
        """
        return services.RunInfo.from_row(self.find(querysets.visible_runs, pk=run_id))

    def run_idempotent(
        self,
        act: Callable[[], Made],
        again: Callable[[str], Made],
        show: Callable[[Made], Response],
    ) -> Response:
        """Call ``act`` once per ``Idempotency-Key`` of the user, and render the created object.

        ``act`` creates the object, and ``show`` renders it. If the key was used before, ``again``
        receives the id of the object created then, and returns this object in its current state.
        Without the header, every request calls ``act``.
        """
        key = read_idempotency_key(self.request)
        if not key:
            return show(act())
        body: Any = self.request.data
        fingerprint = [self.request.method, self.request.path, dict(body)]
        outcome = services.run_idempotent(
            act, get_id, key=key, request=fingerprint, by=self.request.user
        )
        if outcome.earlier_id is None:
            return show(outcome.result)
        response = show(again(outcome.earlier_id))
        response.headers[REPLAYED.name] = "true"
        return response

    def render_all(self, serializer_class: type[Serializer[Any]], things: Any) -> Response:
        """Return a response with all ``things`` on a single page."""
        results = self.render(serializer_class, things, many=True)
        return Response({"next": None, "previous": None, "results": results})

    def render_made(
        self, serializer_class: type[Serializer[Any]], thing: Any, *, status: int = 202
    ) -> Response:
        """Return the response for the created object ``thing``, with its URL in ``Location``."""
        shown = self.render(serializer_class, thing)
        return Response(shown, status=status, headers={"Location": shown["url"]})

    def render(
        self, serializer_class: type[Serializer[Any]], thing: Any, *, many: bool = False
    ) -> Any:
        """Return the serialized form of ``thing``.

        With ``many``, ``thing`` is an iterable, and the result is a list of its serialized items.
        """
        with _borrow_serializer(serializer_class, self.request) as serializer:
            if many:
                return [serializer.to_representation(one) for one in thing]
            return serializer.to_representation(thing)


def get_id(made: Any) -> str:
    """Return the id of a created object, to store it with the ``Idempotency-Key``.

    The result is "" for an object without an id. The URL of the request identifies such an object.
    """
    return str(getattr(made, "id", ""))


_local = threading.local()


@contextmanager
def _borrow_serializer(kind: type[Serializer[Any]], request: Request) -> Iterator[Any]:
    """Yield a serializer of the class ``kind``, with the request in the serializer's context.

    The serializer is kept for the next call in the same OS thread. Creating a serializer copies all
    of its fields, which takes longer than rendering. Serializers have no state except the context,
    so they can be reused.
    """
    cache: Any = _local.__dict__
    serializer = cache.pop(kind, None) or kind()
    serializer._context = {"request": request}
    try:
        yield serializer
    finally:
        serializer._context = {}
        cache[kind] = serializer


class Collection(Resource, GenericAPIView[Any]):
    """View of a list with filters, an order and pages.

    ``get_queryset`` returns the rows visible to the user.
    """

    filter_backends = (StrictFilterBackend,)
    pagination_class = KeysetPagination
    filterset_class: Any
    #: Query parameters that select a page.
    page_parameters = PARAMETERS
    #: Related objects that a page can include, by their name in ``expand``.
    expansions: Mapping[str, Expansion] = {}

    def allowed_parameters(self) -> frozenset[str]:
        named = super().allowed_parameters()
        if self.request.method not in ("GET", "HEAD"):
            return named
        named |= {EXPAND} if self.expansions else frozenset()
        return named | self.page_parameters | frozenset(self.filterset_class.base_filters)

    def allows_parameter(self, name: str) -> bool:
        by_metadata = issubclass(self.filterset_class, MetadataFilterSet)
        reads = self.request.method in ("GET", "HEAD")
        return reads and by_metadata and MetadataFilterSet.is_metadata(name)

    def render_page(self) -> Response:
        """Return one page of the list."""
        names = read_names(self.request.query_params.get(EXPAND), self.expansions)
        kind: Any = self.get_serializer_class()
        rows: Any = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        page = self.get_paginated_response(self.render(kind, rows, many=True))
        if names:
            user = self.request.user
            page.data["expanded"] = expand(rows, names, self.expansions, user, self.render)
        return page
