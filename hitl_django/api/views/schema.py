"""The OpenAPI document."""

from __future__ import annotations

from importlib.util import find_spec

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from ..operations import Shown, operation
from ..resource import Resource


class SchemaDetail(Resource):
    """What the API takes and answers, as OpenAPI 3.1; needs the extra ``openapi``."""

    @operation(
        "get_schema",
        answers={200: Shown("The document.", schema={"type": "object"})},
        errors=(Http404,),
    )
    def get(self, request: Request) -> Response:
        """Shows this document."""
        if find_spec("drf_spectacular") is None:
            raise Http404
        from ..openapi import Generator

        return Response(Generator().get_schema(request))
