"""Validation of API responses against the OpenAPI document."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from hitl_django.api.openapi import Generator
from hitl_django.api.openapi.paths import format_path
from hitl_django.api.urls import urlpatterns

Document = dict[str, Any]


@cache
def document() -> Document:
    made: Document = Generator().get_schema()
    return made


def declared(name: str, method: str) -> Document | None:
    (pattern,) = (each for each in urlpatterns if each.name == name)
    path: Document = document()["paths"][format_path(pattern)]
    return path.get("get" if method == "HEAD" else method.lower())


def check(name: str, method: str, response: Any) -> None:
    """Raise an error if a response doesn't match the document."""
    told = declared(name, method)
    if told is None or method == "OPTIONS":
        assert response.status_code in (204, 400, 401, 403, 404, 405), response.status_code
        return
    status = str(response.status_code)
    assert status in told["responses"], f"{method} {name}: {status} is undocumented"
    if method == "HEAD" or getattr(response, "streaming", False):
        return
    content = told["responses"][status].get("content")
    if content is None:
        assert response.content == b"", f"{method} {name}: {status} has no body"
        return
    media = response["Content-Type"].partition(";")[0]
    assert media in content, f"{method} {name}: {media} is undocumented"
    if media.endswith("json"):
        faults = [
            f"{fault.json_path}: {fault.message[:500]}"
            for fault in validator(told["operationId"], status, media).iter_errors(response.json())
        ]
        assert not faults, f"{method} {name} {status}: {faults}"


@cache
def validator(operation: str, status: str, media: str) -> Draft202012Validator:
    """Return the schema for a response body, in which undocumented members are errors."""
    (told,) = (
        method
        for path in document()["paths"].values()
        for method in path.values()
        if method["operationId"] == operation
    )
    schema = told["responses"][status]["content"][media]["schema"]
    root = {**closed(schema), "components": components()}
    return Draft202012Validator(root, format_checker=FormatChecker())


@cache
def components() -> Document:
    found: Document = closed(document()["components"])
    return found


def closed(schema: Any) -> Any:
    """Return a schema that allows no other properties than those it names."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items() if key != "examples"}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        inner.setdefault("additionalProperties", False)
    return inner
