"""OpenAPI operation objects: the parameters, body and responses of one method of a path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import django_filters as filters
from django.urls.converters import UUIDConverter

from hitl_django.conf import hitl

from ..expansions import EXPAND, Expansion
from ..filters import MAX_METADATA, METADATA, MetadataFilterSet
from ..operations import HeaderSpec, Operation, ResponseSpec
from ..paging import CURSOR, PAGE_SIZE
from ..serializers.fields import WITHOUT_NUL
from . import problems
from .schemas import ComponentSchemas

_PLACEHOLDER = re.compile(r"<(?:\w+:)?(\w+)>")
_UUID = {"type": "string", "format": "uuid"}
#: Each member of the object is a separate query parameter.
METADATA_PARAMETER: dict[str, Any] = {
    "name": "metadata",
    "in": "query",
    "required": False,
    "style": "form",
    "explode": True,
    "description": "`metadata.KEY=value`: filters by thread metadata. The value is "
    "compared with a string, an integer, `true` or `false`. At most "
    f"{MAX_METADATA} keys.",
    "schema": {
        "type": "object",
        "maxProperties": MAX_METADATA,
        "propertyNames": {"pattern": f"^{METADATA.pattern}$"},
        "additionalProperties": {"type": "string", "minLength": 1, "pattern": WITHOUT_NUL},
    },
}


def format_path(pattern: Any) -> str:
    """Return the path of a URL pattern in OpenAPI syntax."""
    return "/" + _PLACEHOLDER.sub(r"{\1}", str(pattern.pattern))


def build_operation(
    pattern: Any, view: Any, method: str, declared: Operation, schemas: ComponentSchemas
) -> dict[str, Any]:
    """Return the OpenAPI operation object of one method.

    Summary and description are from the method's docstring, everything else from the ``declared``
    operation.
    """
    doc = getattr(view, method).__doc__ or ""
    summary, _, description = doc.strip().partition("\n\n")
    operation: dict[str, Any] = {
        "operationId": declared.id,
        "tags": [str(pattern.pattern).partition("/")[0]],
        "summary": " ".join(summary.split()).removesuffix("."),
        "description": re.sub(r"\n +", "\n", description.strip()) or " ".join(summary.split()),
        "parameters": [
            *_path_parameters(pattern),
            *_query_parameters(view, declared, schemas),
            *map(_header_parameter, declared.headers),
        ],
        "responses": _responses(pattern, view, declared, schemas),
    }
    if declared.body is not None:
        operation["requestBody"] = _request_body(declared, schemas)
    return operation


def _path_parameters(pattern: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _describe_parameter(name),
            "schema": _describe_converter(converter),
        }
        for name, converter in pattern.pattern.converters.items()
    ]


def _describe_parameter(name: str) -> str:
    if name == "name":
        return "Graph name."
    return f"The {name.removesuffix('_id').replace('_', ' ')}'s id."


def _describe_converter(converter: Any) -> dict[str, Any]:
    if isinstance(converter, UUIDConverter):
        return dict(_UUID)
    return {"type": "string", "minLength": 1, "maxLength": 255}


def _query_parameters(
    view: Any, declared: Operation, schemas: ComponentSchemas
) -> list[dict[str, Any]]:
    found = []
    if declared.query is not None:
        for name, field in declared.query().fields.items():
            schema = schemas.describe_field(field)
            description = schema.pop("description", "")
            found.append(_parameter(name, schema, description, required=field.required))
    if (filterset := getattr(view, "filterset_class", None)) and any(
        spec.paged for spec in declared.responses.values()
    ):
        for name, each in filterset.base_filters.items():
            found.append(_parameter(name, _describe_filter(each), str(each.label or "")))
        if issubclass(filterset, MetadataFilterSet):
            found.append(METADATA_PARAMETER)
        sizes = {"type": "integer", "minimum": 1, "maximum": hitl.MAX_PAGE_SIZE}
        sizes["default"] = hitl.PAGE_SIZE
        position = "Pagination cursor from `next` or `previous`."
        if CURSOR in view.page_parameters:
            found.append(_parameter(CURSOR, {"type": "string", "minLength": 1}, position))
        found.append(_parameter(PAGE_SIZE, sizes, "Page size."))
        if view.expansions:
            found.append(_describe_expand(view.expansions))
    return found


def _describe_expand(expansions: Mapping[str, Expansion]) -> dict[str, Any]:
    name = "|".join(expansions)
    schema = {"type": "string", "pattern": f"^({name})(,({name}))*$"}
    words = (
        "Related objects to include under `expanded`, keyed by id. Comma-separated: "
        f"{', '.join(expansions)}."
    )
    return _parameter(EXPAND, schema, words)


def _describe_filter(each: filters.Filter) -> dict[str, Any]:
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
    name: str, schema: dict[str, Any], description: str, *, required: bool = False
) -> dict[str, Any]:
    return {
        "name": name,
        "in": "query",
        "required": required,
        "description": description,
        "schema": schema,
    }


def _header_parameter(header: HeaderSpec) -> dict[str, Any]:
    return {"name": header.name, "in": "header", "description": header.description,
            "schema": dict(header.schema)}  # fmt: skip


def _request_body(declared: Operation, schemas: ComponentSchemas) -> dict[str, Any]:
    assert declared.body is not None
    content: dict[str, Any] = {"schema": schemas.reference(declared.body)}
    if declared.example is not None:
        content["example"] = declared.example
    body = declared.body()
    required = bool(getattr(body, "either", ())) or any(
        field.required for field in body.fields.values()
    )
    return {"required": required, "content": {"application/json": content}}


def _responses(
    pattern: Any, view: Any, declared: Operation, schemas: ComponentSchemas
) -> dict[str, Any]:
    expansions: Mapping[str, Expansion] = getattr(view, "expansions", {})
    responses = {
        str(status): _build_success(spec, expansions, schemas)
        for status, spec in declared.responses.items()
    }
    names_object = bool(pattern.pattern.converters)
    for status, found in problems.list_problem_types(declared, names_object=names_object).items():
        responses[str(status)] = problems.build_response(status, found, schemas)
    return responses


def _build_success(
    spec: ResponseSpec, expansions: Mapping[str, Expansion], schemas: ComponentSchemas
) -> dict[str, Any]:
    response: dict[str, Any] = {"description": spec.description}
    if spec.serializer is not None:
        ref = (
            schemas.reference_page(spec.serializer, expansions)
            if spec.paged
            else schemas.reference(spec.serializer)
        )
        response["content"] = {spec.media_type: {"schema": ref}}
    elif spec.schema is not None:
        response["content"] = {spec.media_type: {"schema": dict(spec.schema)}}
    for media_type in spec.other_media_types:
        response["content"][media_type] = {"schema": {"type": "string"}}
    response["headers"] = problems.build_headers(spec.headers)
    return response
