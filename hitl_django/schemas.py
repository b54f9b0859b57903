"""Response schemas as JSON Schema, Draft 2020-12.

Patterns are matched by pydantic's engine, whose time grows with the text only: in Python's ``re`` a
pattern that backtracks would let one answer hold a web process for minutes. A pattern which that
engine doesn't know (lookaround) is not applied, nor are ``patternProperties``. Nothing is fetched:
a reference to anywhere but the schema itself is a fault of the schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker, ValidationError, validators
from pydantic_core import SchemaError, SchemaValidator, core_schema
from referencing import Registry

MAX_FAULTS = 50
MAX_REASON = 300


def properties(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the properties of an object schema, or None for any other."""
    found = schema.get("properties")
    if schema.get("type", "object") != "object" or not isinstance(found, dict):
        return None
    return found


def faults(schema: dict[str, Any], value: Any) -> list[tuple[str, str]]:
    """Lists what of the value doesn't fit, as (JSON pointer, reason), in document order."""
    validator = _Validator(schema, registry=Registry(), format_checker=_FORMATS)
    found: list[tuple[str, str]] = []
    try:
        for error in validator.iter_errors(value):
            found.append((_pointer(error.absolute_path), _reason(error)))
            if len(found) == MAX_FAULTS:
                break
    except Exception as error:  # a schema with a dead reference or a keyword of the wrong type
        return [("", f"the question's response schema can't be applied ({type(error).__name__})")]
    return sorted(set(found))


def _required(validator: Any, names: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    # jsonschema blames the object; a form needs to know the field.
    if not isinstance(instance, dict):
        return
    for name in names:
        if name not in instance:
            yield ValidationError("is required", path=[name])


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, str):
        return
    matcher = _matcher(pattern)
    if matcher is not None and not matcher.isinstance_python(instance):
        yield ValidationError(f"doesn't match the pattern {pattern!r}")


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> SchemaValidator | None:
    try:
        return SchemaValidator(
            core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True)
        )
    except SchemaError:
        return None


def _ignored(*args: Any) -> Iterator[ValidationError]:
    return iter(())


def _unless_patterned(keyword: str) -> Any:
    """Applies a keyword that looks at property names, except beside ``patternProperties``."""
    applied = Draft202012Validator.VALIDATORS[keyword]

    def apply(validator: Any, rule: Any, instance: Any, schema: Any) -> Any:
        return () if "patternProperties" in schema else applied(validator, rule, instance, schema)

    return apply


def _pointer(path: Any) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _reason(error: ValidationError) -> str:
    message = str(error.message)
    return message if len(message) <= MAX_REASON else message[:MAX_REASON] + "…"


_Validator = validators.extend(
    Draft202012Validator,
    {
        "required": _required,
        "pattern": _pattern,
        "patternProperties": _ignored,
        "additionalProperties": _unless_patterned("additionalProperties"),
        "unevaluatedProperties": _unless_patterned("unevaluatedProperties"),
    },
)

# "regex" would compile what the reviewer typed.
_FORMATS = FormatChecker(set(FormatChecker.checkers) - {"regex"})
