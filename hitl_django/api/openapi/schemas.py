"""JSON Schemas of serializers, and the OpenAPI components with these schemas.

Each field's ``json_schema`` describes the field's values. Schemas inferred by drf-spectacular would
depend on the project's settings, and would omit strict rules and null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.plumbing import ComponentRegistry, ResolvedComponent
from rest_framework import serializers

from ..expansions import Expansion
from ..serializers.fields import MethodField, StrictSerializer

NULL = {"type": "null"}
_PLAIN: dict[type[serializers.Field], dict[str, Any]] = {
    serializers.BooleanField: {"type": "boolean"},
    serializers.IntegerField: {"type": "integer"},
    serializers.FloatField: {"type": "number"},
    serializers.CharField: {"type": "string"},
}


class ComponentSchemas:
    """The components of one OpenAPI document."""

    def __init__(self, registry: ComponentRegistry) -> None:
        self.registry = registry

    def add(self, name: str, schema: dict[str, Any], made_from: Any) -> dict[str, Any]:
        """Register a schema as a component with this name, and return a reference to the component.

        ``made_from`` is the object from which the schema was generated. If a component with this
        name was already generated from the same object, the existing component is kept.
        """
        component = ResolvedComponent(name, ResolvedComponent.SCHEMA, schema, made_from)
        self.registry.register_on_missing(component)
        reference: dict[str, Any] = component.ref
        return reference

    def reference(self, serializer: type[serializers.Serializer[Any]]) -> dict[str, Any]:
        """Return a reference to the serializer's component.

        The component is created if it doesn't exist.
        """
        name = serializer.__name__.removesuffix("Serializer")
        return self.add(name, self.describe_serializer(serializer()), serializer)

    def reference_page(
        self,
        serializer: type[serializers.Serializer[Any]],
        expansions: Mapping[str, Expansion],
    ) -> dict[str, Any]:
        """Return a reference to the schema of one page of objects that the serializer renders.

        With ``expansions``, the page also has the objects to which its rows refer.
        """
        link = {"type": ["string", "null"], "format": "uri"}
        shown: dict[str, Any] = {
            "next": {**link, "description": "URL of the next page; null on the last page."},
            "previous": {
                **link,
                "description": "URL of the previous page; null on the first page.",
            },
            "results": {"type": "array", "items": self.reference(serializer)},
        }
        always = [*shown]
        if expansions:
            shown["expanded"] = self._describe_expanded(expansions)
        schema = {"type": "object", "properties": shown, "required": always}
        name = serializer.__name__.removesuffix("Serializer")
        return self.add(f"{name}Page", schema, serializer)

    def _describe_expanded(self, expansions: Mapping[str, Expansion]) -> dict[str, Any]:
        shown = {}
        for name, expansion in expansions.items():
            one = self.reference(expansion.serializer)
            several = {"type": "array", "items": one}
            members = several if expansion.is_many else one
            shown[name] = {"type": "object", "additionalProperties": members}
        words = (
            "The objects requested with `expand`, keyed by id, each included once. "
            "Objects you can't view are omitted."
        )
        return {"type": "object", "properties": shown, "description": words}

    def describe_serializer(self, serializer: serializers.Serializer[Any]) -> dict[str, Any]:
        """Return the schema of a serializer.

        The schema describes the input if the serializer reads a request body, otherwise the output.
        """
        description = self._describe_class(serializer)
        fields = serializer.fields
        if not isinstance(serializer, StrictSerializer):
            sometimes: frozenset[str] = getattr(serializer, "sometimes", frozenset())
            always = [name for name, _ in fields.items() if name not in sometimes]
            return self._object(fields, always) | description
        if serializer.either:
            return {
                "oneOf": [self._form(serializer, group) for group in serializer.either]
            } | description
        required = [name for name, field in fields.items() if field.required]
        return self._closed(fields, required) | description

    def _form(self, serializer: StrictSerializer, group: tuple[str, ...]) -> dict[str, Any]:
        others = {name for names in serializer.either for name in names}.difference(group)
        fields = {name: field for name, field in serializer.fields.items() if name not in others}
        required = [name for name, field in fields.items() if field.required or name == group[0]]
        name = f"{type(serializer).__name__}By{group[0].capitalize()}"
        return self.add(name, self._closed(fields, required), (type(serializer), group))

    def _describe_class(self, serializer: serializers.Serializer[Any]) -> dict[str, Any]:
        doc = (type(serializer).__doc__ or "").strip().partition("\n\n")[0]
        return {"description": " ".join(doc.split())} if doc else {}

    def _closed(self, fields: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
        return {**self._object(fields, required), "additionalProperties": False}

    def _object(self, fields: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: self.describe_field(field) for name, field in fields.items()},
        }
        return {**schema, "required": required} if required else schema

    def describe_field(self, field: Any) -> dict[str, Any]:
        """Return the schema of one field."""
        schema = self._describe_type(field)
        if field.allow_null and schema:
            schema = _or_null(schema)
        if field.help_text:
            schema = {**schema, "description": str(field.help_text)}
        return schema

    def _describe_type(self, field: Any) -> dict[str, Any]:
        if isinstance(field, serializers.ListSerializer | serializers.ListField):
            items = self._describe_type(field.child)
            bounds = {
                "minItems": getattr(field, "min_length", None),
                "maxItems": getattr(field, "max_length", None),
            }
            given = {name: bound for name, bound in bounds.items() if bound is not None}
            return {"type": "array", "items": items, **given}
        if isinstance(field, serializers.DictField):
            return {"type": "object", "additionalProperties": self._describe_type(field.child)}
        if isinstance(field, serializers.Serializer):
            return self.reference(type(field))
        if isinstance(field, MethodField):
            return self.describe_field(field.shape)
        if hasattr(field, "json_schema"):
            return dict(field.json_schema())
        return dict(next(_PLAIN[kind] for kind in type(field).__mro__ if kind in _PLAIN))

    def resolve(self, schema: Any) -> Any:
        """Return the schema with each serializer class replaced by a reference."""
        if isinstance(schema, dict):
            return {key: self.resolve(value) for key, value in schema.items()}
        if isinstance(schema, list):
            return [self.resolve(item) for item in schema]
        return self.reference(schema) if isinstance(schema, type) else schema


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" in schema:
        return {**schema, "type": [schema["type"], "null"], "enum": [*schema["enum"], None]}
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, NULL]}
