"""Base classes of the API's views: the same whatever the host's DRF settings are."""

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
    """Lets in users who are signed in and active; what they may see and do, the policy decides."""

    def has_permission(self, request: Request, view: Any) -> bool:
        user = request.user
        return bool(user and user.is_authenticated and user.is_active)


class Resource(APIView):
    """A view of the API: one path, with an operation for each of its methods.

    Authentication is the host's (``DEFAULT_AUTHENTICATION_CLASSES``), since only the host knows
    how its clients sign in, and the session, so that its own pages can call us; the session
    brings CSRF checks with it. The host's throttles hold beside ours. Everything else is stated
    here, or with ``operation`` at a method, and not taken from the host.
    """

    renderer_classes = (PlainJSONRenderer,)
    parser_classes = (StrictJSONParser,)
    permission_classes = (IsSignedIn,)
    content_negotiation_class = JSONOnlyNegotiation
    metadata_class = None
    versioning_class = None
    http_method_names: Sequence[str] = ("get", "post", "patch", "delete", "head", "options")
    #: A host's own document leaves us out; ours is made by openapi.Generator.
    schema = None

    #: How much a body may hold.
    limits = BodyLimits()
    #: JSON pointer to the part of the body that the service is given, to which its faults lead.
    input_pointer = ""

    #: Names the request, in what is answered and in the log.
    request_id = ""
    #: The rate that holds for the operation; None where there is no operation.
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
        """The operation that is declared for the method of the request."""
        return get_operation(self, self.request.method or "")

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        # What is wrong with a request that has no handler is its method.
        faults = self.find_parameter_faults(request) if self.operation is not None else ()
        if faults:
            raise InvalidRequest(*faults)

    def allowed_parameters(self) -> frozenset[str]:
        """Return the names of the query parameters that it takes; any other is refused."""
        declared = self.operation
        query = declared.query if declared else None
        return frozenset(query().fields) if query else frozenset()

    def allows_parameter(self, name: str) -> bool:
        """Return whether it takes a parameter that isn't named beforehand."""
        return False

    def find_parameter_faults(self, request: Request) -> list[InvalidParam]:
        """Return a fault for each parameter that is unknown, empty or given more than once."""
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
        """Answers with the methods only, and the same whether the object exists or not."""
        return Response(status=204)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        # What one person may see is nobody else's, and payloads are not ours to be sniffed.
        response.headers.setdefault("Cache-Control", "private, no-cache")
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers[REQUEST_ID] = self.request_id
        if self.throttle is not None:
            for name, value in self.throttle.build_headers().items():
                response.headers[name] = value
        return response

    def find(self, select: Callable[[Any], QuerySet[Row]], **key: Any) -> Row:
        """Return the row with a key, of those that ``select`` (querysets.py) lets the user see.

        Raises Http404 where there is none: what the user may not see is as if it didn't exist.
        """
        return find_row(select(self.request.user), Http404, **key)

    def read_body(self) -> dict[str, Any]:
        """Return the body's fields; a missing, misshapen or unknown one is refused by pointer."""
        declared = self.operation
        return self._validate(declared.body if declared else None, self.request.data)

    def read_query(self) -> dict[str, Any]:
        """Return the query's parameters; one that doesn't fit is refused by name.

        Of a list they are those beside its filters.
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
        """Return a run as a service does, of those that the user may see."""
        return services.RunInfo.from_row(self.find(querysets.visible_runs, pk=run_id))

    def run_idempotent(
        self,
        act: Callable[[], Made],
        again: Callable[[str], Made],
        show: Callable[[Made], Response],
    ) -> Response:
        """Act once for each ``Idempotency-Key`` of the user, and shows what was made.

        Of what was made before ``again`` is given the id, and finds it as it is now. Without the
        header it acts each time.
        """
        key = read_idempotency_key(self.request)
        if not key:
            return show(act())
        body: Any = self.request.data
        asked = [self.request.method, self.request.path, dict(body)]
        outcome = services.run_idempotent(act, get_id, key=key, request=asked, by=self.request.user)
        if outcome.earlier is None:
            return show(outcome.made)
        response = show(again(outcome.earlier))
        response.headers[REPLAYED.name] = "true"
        return response

    def render_all(self, serializer_class: type[Serializer[Any]], things: Any) -> Response:
        """Return the answer of a list that is never paged, in the shape of one that is."""
        results = self.render(serializer_class, things, many=True)
        return Response({"next": None, "previous": None, "results": results})

    def render_made(
        self, serializer_class: type[Serializer[Any]], thing: Any, *, status: int = 202
    ) -> Response:
        """Return the answer that shows what was made, and where it is from now on."""
        shown = self.render(serializer_class, thing)
        return Response(shown, status=status, headers={"Location": shown["url"]})

    def render(self, serializer_class: type[Serializer[Any]], thing: Any, **options: Any) -> Any:
        """Return ``thing`` as the serializer shows it."""
        if options:
            return serializer_class(thing, context={"request": self.request}, **options).data
        with _borrow_serializer(serializer_class, self.request) as serializer:
            return serializer.to_representation(thing)


def get_id(made: Any) -> str:
    """Return the id of what a service made; "" where the request's address names it."""
    return str(getattr(made, "id", ""))


_local = threading.local()


@contextmanager
def _borrow_serializer(kind: type[Serializer[Any]], request: Request) -> Iterator[Any]:
    """Yield this thread's serializer of a class, with the request in its context.

    A new one copies each of its fields, which takes longer than what it is made for. Of what it is
    used for none keeps anything but the context.
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
    """A list that is filtered, ordered and paged; ``get_queryset`` has what the user may see."""

    filter_backends = (StrictFilterBackend,)
    pagination_class = KeysetPagination
    filterset_class: Any
    #: The parameters of a page that it takes.
    page_parameters = PARAMETERS
    #: What may be shown beside a page's rows, by the name that ``expand`` takes.
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
        rows: Any = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        page = self.get_paginated_response(self.get_serializer(rows, many=True).data)
        if names:
            user = self.request.user
            page.data["expanded"] = expand(rows, names, self.expansions, user, self.render)
        return page
