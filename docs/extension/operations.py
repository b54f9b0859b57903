"""Reference of the HTTP API, from its OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from typing import Any

from . import markdown, schemas, sources

Object = Mapping[str, Any]
#: Status and code of a problem.
Problem = tuple[int, str]

_JSON = "application/json"
_PROBLEM = "application/problem+json"


@cache
def document() -> Any:
    """Return the OpenAPI document."""
    return sources.load(sources.OPENAPI)().get_schema()


def operations() -> Iterator[tuple[str, str, Object]]:
    """Yield the method, the path and the object of every operation."""
    for address, methods in document()["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), address, operation


def overview() -> str:
    """Return the table of all operations."""
    return markdown.table(
        ["operation", "endpoint"],
        (
            [
                f"[{operation['summary']}](#{_label(operation)})",
                markdown.code(f"{method} {address}"),
            ]
            for method, address, operation in operations()
        ),
    )


def page() -> str:
    """Return the sections of all operations, grouped by the first part of the path."""
    tags = groupby(operations(), key=lambda each: each[2]["tags"][0])
    return markdown.page(
        markdown.page([f"## `{tag}/`", *(_section(*each) for each in found)]) for tag, found in tags
    )


def _label(operation: Object) -> str:
    return f"http-{operation['operationId']}"


def _section(method: str, address: str, operation: Object) -> str:
    body = operation.get("requestBody")
    return markdown.page(
        [
            markdown.target(_label(operation), operation["summary"], 3),
            markdown.directive("code-block", "http", f"{method} {address} HTTP/1.1"),
            f"Operation `{operation['operationId']}`. {_get_description(operation)}",
            _parameters(operation.get("parameters", [])),
            f"**Body:** {_format_content(body)}." if body else "",
            _answers(operation),
            _own_problems(operation),
        ]
    )


def _get_description(operation: Object) -> str:
    """Return the description of an operation without its summary, which is the heading."""
    description: str = operation["description"]
    return "" if description.removesuffix(".") == operation["summary"] else description


def _parameters(parameters: list[Object]) -> str:
    if not parameters:
        return ""
    return markdown.table(
        ["parameter", "in", "type", "description"],
        (
            [
                markdown.code(each["name"]),
                each["in"] + (", required" if each.get("required") else ""),
                schemas.type_of(each["schema"]),
                schemas.described(each["schema"], each.get("description", "")),
            ]
            for each in parameters
        ),
    )


def _format_content(holder: Object) -> str:
    return ", or ".join(
        schemas.type_of(shown.get("schema", {}))
        + ("" if media == _JSON else f" ({markdown.code(media)})")
        for media, shown in holder["content"].items()
    )


def _answers(operation: Object) -> str:
    return markdown.table(
        ["status", "meaning", "content"],
        (
            [
                str(status),
                _about(response),
                _format_content(response) if "content" in response else "",
            ]
            for status, response in operation["responses"].items()
            if _PROBLEM not in response.get("content", {})
        ),
    )


def _about(response: Object) -> str:
    headers = (
        f"{markdown.code(name)}: {header['description']}"
        for name, header in response.get("headers", {}).items()
        if "$ref" not in header  # headers of all responses
    )
    return " ".join([response["description"], *headers])


def _list_problems(operation: Object) -> set[Problem]:
    return {
        (int(status), code)
        for status, response in operation["responses"].items()
        if _PROBLEM in response.get("content", {})
        for code in re.findall(r"`(\w+)`", response["description"])
    }


@cache
def _list_common_problems(*, has_body: bool) -> frozenset[Problem]:
    found = [
        _list_problems(each) for _, _, each in operations() if "requestBody" in each or not has_body
    ]
    return frozenset(set.intersection(*found))


def _listed(found: Iterable[Problem]) -> str:
    by_status = groupby(sorted(found), key=lambda problem: problem[0])
    return "; ".join(
        f"{status} {markdown.listed(code for _, code in problems)}"
        for status, problems in by_status
    )


def _own_problems(operation: Object) -> str:
    usual = _list_common_problems(has_body="requestBody" in operation)
    own = _list_problems(operation) - usual
    name = markdown.code(operation["operationId"])
    return f"Operation {name} can also return {_listed(own)}." if own else ""


def problems() -> str:
    """Return the common problems of many operations."""
    always, of_bodies = _list_common_problems(has_body=False), _list_common_problems(has_body=True)
    return markdown.page(
        [
            f"All operations can return {_listed(always)}.",
            f"Operations with a request body can also return {_listed(of_bodies - always)}.",
        ]
    )


def objects() -> str:
    """Return the sections of all objects in bodies and responses."""
    found = document()["components"]["schemas"]
    return markdown.page(
        schemas.section(name, schema)
        for name, schema in sorted(found.items())
        if not schemas.is_problem(name)
    )
