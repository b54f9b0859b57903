"""View of the OpenAPI document."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from django.core.signals import setting_changed
from django.http import Http404, HttpResponse
from django.utils.cache import get_conditional_response, set_response_etag
from django.utils.translation import get_language
from rest_framework.request import Request

from ..operations import ETAG, IF_NONE_MATCH, ResponseSpec, operation
from ..renderers import PlainJSONRenderer
from .base import Resource


class SchemaDetail(Resource):
    """The API's OpenAPI 3.1 document.

    This view requires the extra ``openapi``.
    """

    @operation(
        "get_schema",
        headers=(IF_NONE_MATCH,),
        responses={
            200: ResponseSpec("The OpenAPI document.", schema={"type": "object"}, headers=(ETAG,)),
            304: ResponseSpec("The document has not changed.", headers=(ETAG,)),
        },
        errors=(Http404,),
    )
    def get(self, request: Request) -> Any:
        """Retrieve this document."""
        if find_spec("drf_spectacular") is None:
            raise Http404
        from ..openapi.generator import find_root_url

        text = _render_document(find_root_url(), get_language())
        found = HttpResponse(text, content_type=PlainJSONRenderer.media_type)
        set_response_etag(found)
        return get_conditional_response(request, etag=found["ETag"], response=found)


@lru_cache(maxsize=8)
def _render_document(root: str, language: str | None) -> bytes:
    """Return the OpenAPI document as JSON.

    Generating the document is slow. The result is therefore cached, for each root URL of the API
    and each language.
    """
    from ..openapi import Generator

    rendered: bytes = PlainJSONRenderer().render(Generator().get_schema())
    return rendered


def _clear_cache(**kwargs: Any) -> None:
    _render_document.cache_clear()


#: The document contains limits, sizes and authentication schemes, which depend on settings.
setting_changed.connect(_clear_cache, dispatch_uid="hitl_django.schema")
