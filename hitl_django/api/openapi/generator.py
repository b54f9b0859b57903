"""The generator of the document, for drf-spectacular's command and for our own view."""

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

#: By its name, as Django takes it: the view of this document is one of those that it names.
URLCONF = "hitl_django.api.urls"
VERSION = "1"
DESCRIPTION = """\
Starts runs, lists the questions they ask, takes decisions.

What you may not see is answered as if it did not exist (404). Bodies are one JSON object in UTF-8;
a field or a parameter that is not named here is refused. Errors are `application/problem+json`
(RFC 9457): `code` is stable and for programs, `detail` is for people. Lists are paged by cursor:
follow `next`. With a session's cookie, a write needs the header `X-CSRFToken` as well.
"""


class Generator(SchemaGenerator):
    """Makes the document of our API: ``manage.py spectacular --generator-class
    hitl_django.api.openapi.Generator`` writes it out.

    Of drf-spectacular it takes the registry of components and the authentication schemes of the
    host's classes; nothing in it is guessed from a view.
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
    """Yields every declared operation, as (URL pattern, view, method, operation)."""
    for pattern in get_resolver(URLCONF).url_patterns:
        view = pattern.callback.cls()  # type: ignore[union-attr]
        for method in view.http_method_names:
            if method not in ("head", "options") and (found := get_operation(view, method)):
                yield pattern, view, method, found


def find_root_url() -> str:
    """Returns the URL that all paths are relative to; it is relative to the document's own."""
    try:
        return reverse("hitl_django:schema").removesuffix("schema/").rstrip("/")
    except NoReverseMatch:  # the command, in a project that doesn't mount us
        return "/"
