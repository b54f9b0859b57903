"""JSON schemas of types supported by pydantic."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema


class _Generator(GenerateJsonSchema):
    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> dict[str, Any]:
        described = super().datetime_schema(schema)
        if schema.get("tz_constraint") == "naive" and described.get("format") == "date-time":
            # The format is named as in OpenAPI's format registry. Pydantic rejects values with an
            # offset.
            described["format"] = "date-time-local"
        return described


def describe_type(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """Return the JSON schema of the type that a pydantic TypeAdapter validates."""
    return dict(adapter.json_schema(schema_generator=_Generator))
