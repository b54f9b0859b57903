"""Validation of responses by JSON Schema, Draft 2020-12.

Patterns are matched in linear time (``engine.state.patterns``). A schema with an unsupported
pattern is invalid. References to other documents are invalid, and nothing is fetched. Two older
forms are applied as in draft-07: a list of schemas as ``items``, and the keyword ``dependencies``.
The work of a validation is limited (``schema_keywords``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy as _

from .json_pointer import format_pointer
from .reasons import ValidationMessage, explain

if TYPE_CHECKING:
    from jsonschema import ValidationError

MAX_FAULTS = 50
#: Keywords that contain values instead of schemas.
VALUES = ("const", "default", "enum", "examples")
TOO_COMPLEX = _("is too complex to validate: send fewer or less deeply nested values")


def find_properties(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the properties of an object schema, or None for any other schema."""
    found = schema.get("properties")
    if schema.get("type", "object") != "object" or not isinstance(found, dict):
        return None
    return found


def find_faults(schema: dict[str, Any], value: Any) -> list[tuple[str, str]]:
    """Return the validation errors in document order, each as a JSON pointer and a reason."""
    # The library is large, and most processes validate nothing.
    from hitl_django.engine.state.response_schemas import make_resolver

    from . import schema_keywords

    found: list[tuple[str, str]] = []
    try:
        with schema_keywords.limit_work():
            if _has_dialect(schema):
                schema = _remove_dialect(schema)
            validator = schema_keywords.VALIDATOR(schema, _resolver=make_resolver(schema))
            for error in validator.iter_errors(value):
                found.append((format_pointer(error.absolute_path), _reason(error)))
                if len(found) == MAX_FAULTS:
                    break
    except schema_keywords.BudgetSpentError:
        found = found or [("", ValidationMessage.make(TOO_COMPLEX))]
    # The schema has an invalid reference or a keyword of the wrong type.
    except Exception as error:
        unusable = _("the request’s response schema can’t be applied (%(error)s)")
        return [("", ValidationMessage.make(unusable, error=type(error).__name__))]
    return sorted(set(found))


def _reason(error: ValidationError) -> str:
    keyword, rule = str(error.validator), error.validator_value
    return explain(keyword, rule, error.instance, error.schema) or str(error.message)


def _remove_dialect(schema: Any) -> Any:
    """Return the schema without ``$schema`` at any level.

    If the schema contained a ``$schema``, jsonschema would use its own keywords instead of those in
    ``schema_keywords``.
    """
    if isinstance(schema, list):
        return [_remove_dialect(below) for below in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: below if key in VALUES else _remove_dialect(below)
        for key, below in schema.items()
        if not (key == "$schema" and isinstance(below, str))
    }


def _has_dialect(schema: Any) -> bool:
    left = [schema]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            if isinstance(part.get("$schema"), str):
                return True
            left += part.values()
        elif isinstance(part, list):
            left += part
    return False
