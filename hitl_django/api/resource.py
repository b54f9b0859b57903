"""What every view of ours has in common, whatever the host's DRF settings say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.generics import GenericAPIView
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.settings import api_settings
from rest_framework.views import APIView

from .errors import InvalidRequest, handle
from .faults import Fault, from_serializer
from .filters import FilterBackend
from .paging import PARAMETERS, KeysetPagination
from .parsers import StrictJSONParser
from .renderers import JSONOnly, PlainJSONRenderer
from .strictjson import Limits


class SignedIn(BasePermission):
    """Lets in who is signed in and active; what they may see and do, the policy says."""

    def has_permission(self, request: Request, view: Any) -> bool:
        user = request.user
        return bool(user and user.is_authenticated and user.is_active)


class Resource(APIView):
    """One address of the API.

    Authentication is the host's (``DEFAULT_AUTHENTICATION_CLASSES``), since only the host knows
    how its clients sign in, and the session, so that its own pages can call us; the session
    brings CSRF checks with it. Everything else is stated here and not taken from the host.
    Throttling alone stays as the host configured it.
    """

    renderer_classes = (PlainJSONRenderer,)
    parser_classes = (StrictJSONParser,)
    permission_classes = (SignedIn,)
    content_negotiation_class = JSONOnly
    metadata_class = None
    versioning_class = None
    http_method_names = ["get", "post", "head", "options"]  # noqa: RUF012

    #: Query parameters it takes; any other is refused.
    parameters: frozenset[str] = frozenset()
    #: How much a body may hold.
    limits = Limits()
    #: JSON pointer to the part of the body that the service is given, for its faults.
    part = ""

    def get_authenticators(self) -> list[BaseAuthentication]:
        classes: list[Any] = list(api_settings.DEFAULT_AUTHENTICATION_CLASSES)
        if not any(issubclass(known, SessionAuthentication) for known in classes):
            classes.append(SessionAuthentication)
        return [kind() for kind in classes]

    def get_exception_handler(self) -> Callable[..., Response | None]:
        return handle

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        faults = [*self._parameter_faults(request)]
        if faults:
            raise InvalidRequest(*faults)

    def _parameter_faults(self, request: Request) -> list[Fault]:
        faults = []
        for name, values in request.query_params.lists():
            if name not in self.parameters:
                faults.append(Fault("unknown_parameter", "There is no such one.", parameter=name))
            elif len(values) > 1:
                faults.append(Fault("repeated", "May be given once.", parameter=name))
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

    def body(self, serializer_class: type[Serializer[Any]]) -> dict[str, Any]:
        """Return the body's fields; a missing, misshapen or unknown one is refused by pointer."""
        serializer = serializer_class(data=self.request.data)
        if not serializer.is_valid():
            raise InvalidRequest(*from_serializer(serializer.errors))
        return dict(serializer.validated_data)

    def render(self, serializer_class: type[Serializer[Any]], thing: Any, **options: Any) -> Any:
        """Return ``thing`` as the serializer shows it."""
        return serializer_class(thing, context={"request": self.request}, **options).data


class Collection(Resource, GenericAPIView[Any]):
    """A list that is filtered, ordered and paged; subclasses say what the user may see."""

    filter_backends = (FilterBackend,)
    pagination_class = KeysetPagination
    filterset_class: Any

    @property
    def parameters(self) -> frozenset[str]:  # type: ignore[override]
        if self.request.method not in ("GET", "HEAD"):
            return frozenset()
        return PARAMETERS | frozenset(self.filterset_class.base_filters)

    def page(self) -> Response:
        """Return one page of the list."""
        rows = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(self.get_serializer(rows, many=True).data)
