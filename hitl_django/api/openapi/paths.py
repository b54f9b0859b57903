"""One operation of the document: its parameters, its body, its answers."""

from __future__ import annotations

import re
from typing import Any

import django_filters as filters
from django.urls.converters import UUIDConverter

from hitl_django.conf import hitl

from ..operations import Header, Operation, Shown
from ..paging import CURSOR, PAGE_SIZE
from ..serializers.fields import WITHOUT_NUL
from . import problems
from .schemas import Schemas

_PLACE = re.compile(r"<(?:\w+:)?(\w+)>")
_UUID = {"type": "string", "format": "uuid"}


def template_of(pattern: Any) -> str:
    """Returns the address of a URL pattern as the document writes it."""
    return "/" + _PLACE.sub(r"{\1}", str(pattern.pattern))


def operation_object(
    pattern: Any, view: Any, method: str, declared: Operation, schemas: Schemas
) -> dict[str, Any]:
    """Returns the operation object of one method."""
    doc = getattr(view, method).__doc__ or ""
    summary, _, description = doc.strip().partition("\n\n")
    told: dict[str, Any] = {
        "operationId": declared.id,
        "tags": [str(pattern.pattern).partition("/")[0]],
        "summary": " ".join(summary.split()).removesuffix("."),
        "parameters": [
            *_path_parameters(pattern),
            *_query_parameters(view, declared, schemas),
            *map(_header_parameter, declared.headers),
        ],
        "responses": _responses(pattern, declared, schemas),
    }
    if description:
        told["description"] = re.sub(r"\n +", "\n", description.strip())
    if declared.body is not None:
        told["requestBody"] = _request_body(declared, schemas)
    return told


def _path_parameters(pattern: Any) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _schema_of(converter)}
        for name, converter in pattern.pattern.converters.items()
    ]


def _schema_of(converter: Any) -> dict[str, Any]:
    if isinstance(converter, UUIDConverter):
        return dict(_UUID)
    return {"type": "string", "minLength": 1, "maxLength": 255}


def _query_parameters(view: Any, declared: Operation, schemas: Schemas) -> list[dict[str, Any]]:
    found = []
    if declared.query is not None:
        for name, field in declared.query().fields.items():
            schema = schemas.of_field(field)
            about = schema.pop("description", "")
            found.append(_parameter(name, schema, about, required=field.required))
    if (filterset := getattr(view, "filterset_class", None)) and any(
        shown.paged for shown in declared.answers.values()
    ):
        for name, each in filterset.base_filters.items():
            found.append(_parameter(name, _schema_of_filter(each), str(each.label or "")))
        sizes = {"type": "integer", "minimum": 1, "maximum": hitl.MAX_PAGE_SIZE}
        sizes["default"] = hitl.PAGE_SIZE
        place = "A place in the list: take it from `next` or `previous`."
        found.append(_parameter(CURSOR, {"type": "string", "minLength": 1}, place))
        found.append(_parameter(PAGE_SIZE, sizes, "How many at once."))
    return found


def _schema_of_filter(each: filters.Filter) -> dict[str, Any]:
    if hasattr(each, "json_schema"):
        return dict(each.json_schema())
    if isinstance(each, filters.ChoiceFilter):
        return {"type": "string", "enum": [str(value) for value, _ in each.extra["choices"]]}
    if isinstance(each, filters.UUIDFilter):
        return dict(_UUID)
    schema: dict[str, Any] = {"type": "string", "minLength": 1, "pattern": WITHOUT_NUL}
    if "max_length" in each.extra:
        schema["maxLength"] = each.extra["max_length"]
    return schema


def _parameter(
    name: str, schema: dict[str, Any], about: str, *, required: bool = False
) -> dict[str, Any]:
    told: dict[str, Any] = {"name": name, "in": "query", "required": required, "schema": schema}
    if about:
        told["description"] = about
    return told


def _header_parameter(header: Header) -> dict[str, Any]:
    return {"name": header.name, "in": "header", "description": header.about,
            "schema": dict(header.schema)}  # fmt: skip


def _request_body(declared: Operation, schemas: Schemas) -> dict[str, Any]:
    assert declared.body is not None
    content: dict[str, Any] = {"schema": schemas.ref(declared.body)}
    if declared.example is not None:
        content["example"] = declared.example
    taken = declared.body()
    required = bool(getattr(taken, "either", ())) or any(
        field.required for field in taken.fields.values()
    )
    return {"required": required, "content": {"application/json": content}}


def _responses(pattern: Any, declared: Operation, schemas: Schemas) -> dict[str, Any]:
    told = {str(status): _shown(shown, schemas) for status, shown in declared.answers.items()}
    has_place = bool(pattern.pattern.converters)
    for status, found in problems.answers_of(declared, has_place=has_place).items():
        told[str(status)] = problems.response(status, found, schemas)
    return told


def _shown(shown: Shown, schemas: Schemas) -> dict[str, Any]:
    told: dict[str, Any] = {"description": shown.about}
    if shown.by is not None:
        ref = schemas.page(shown.by) if shown.paged else schemas.ref(shown.by)
        told["content"] = {shown.media: {"schema": ref}}
    elif shown.schema is not None:
        told["content"] = {shown.media: {"schema": dict(shown.schema)}}
    for media in shown.also:
        told["content"][media] = {"schema": {"type": "string"}}
    if shown.headers:
        told["headers"] = {each.name: problems.header_object(each) for each in shown.headers}
    return told
