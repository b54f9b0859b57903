"""Generator of the OpenAPI document, for drf-spectacular's command and the API's own view."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.urls import NoReverseMatch, get_resolver, reverse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import normalize_result_object

from ..operations import Operation, get_operation
from . import paths, problems
from .examples import add_examples
from .schemas import ComponentSchemas

#: The module's name, as Django expects it. Importing the module here would be circular.
URLCONF = "hitl_django.api.urls"
VERSION = "1"
DESCRIPTION = (
    "Start runs, list their interrupts and submit decisions.\n\nObjects you "
    "don't have permission to view return 404. Request bodies are a single "
    "JSON object in UTF-8;\nunknown fields and parameters are rejected. Errors "
    "are `application/problem+json`\n(RFC 9457): use `code` in programs; "
    "`detail` is for people and may change. Lists use cursor "
    "pagination:\nfollow `next`. With session authentication, write requests "
    "need the `X-CSRFToken` header.\n"
)


class Generator(SchemaGenerator):
    """Generator of this API's OpenAPI document.

    ``manage.py spectacular --generator-class hitl_django.api.openapi.Generator`` prints the
    document. The component registry and the authentication schemes are those of drf-spectacular.
    Nothing is inferred from views.
    """

    def get_schema(self, request: Any = None, public: bool = False) -> Any:
        schemas = ComponentSchemas(self.registry)
        found: dict[str, dict[str, Any]] = {}
        for pattern, view, method, declared in iterate_operations():
            described = paths.build_operation(pattern, view, method, declared, schemas)
            described["security"] = self._find_security(view, method)
            found.setdefault(paths.format_path(pattern), {})[method] = described
        components = self.registry.build({})
        components["headers"] = problems.build_common_headers()
        add_examples(components["schemas"])
        return normalize_result_object(
            {
                "openapi": "3.1.0",
                "info": {"title": "hitl-django", "version": VERSION, "description": DESCRIPTION},
                "servers": [{"url": find_root_url()}],
                "paths": found,
                "components": components,
            }
        )

    def _find_security(self, view: Any, method: str) -> list[dict[str, Any]]:
        inspector = AutoSchema()
        inspector.view, inspector.method = view, method.upper()
        inspector.registry = self.registry
        required: list[dict[str, Any]] = inspector.get_auth()
        return required


def iterate_operations() -> Iterator[tuple[Any, Any, str, Operation]]:
    """Yield the URL pattern, view, method and operation of each declared operation."""
    for pattern in get_resolver(URLCONF).url_patterns:
        view = pattern.callback.cls()  # type: ignore[union-attr]
        for method in view.http_method_names:
            if method not in ("head", "options") and (found := get_operation(view, method)):
                yield pattern, view, method, found


def find_root_url() -> str:
    """Return the URL to which all paths are relative.

    The URL itself is relative to the URL of the document.
    """
    try:
        return reverse("hitl_django:schema").removesuffix("schema/").rstrip("/")
    except NoReverseMatch:  # The command runs in a project that doesn't include these URLs.
        return "/"
