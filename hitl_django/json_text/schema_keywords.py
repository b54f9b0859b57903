"""JSON Schema keywords for the validation of responses, with limited work.

The work of some schemas grows exponentially: a recursive union is tried in every combination on
each level. ``uniqueItems`` compares all pairs. Therefore all work is counted: one unit for each
keyword applied to a part of the value, and more for keywords that process long parts. When the
limit is reached, validation stops.

Common cases are also optimized. Unique items are found in one pass. Each branch of a union stops at
its first error, and ``const`` and ``enum`` are checked first. If no branch matches, the reported
errors are those of the branch for the value's type.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from itertools import chain
from typing import Any

from jsonschema import Draft202012Validator, ValidationError, validators

from hitl_django.engine.state.patterns import Pattern, compile_pattern

from . import text_formats

Errors = Iterable[ValidationError]
Keyword = Callable[[Any, Any, Any, Any], Errors]

#: The maximum units of work for a validation, about 0.3 s of CPU time. With an ordinary model's
#: schema, a response with the maximum number of values uses half of this limit.
BUDGET = 110_000
#: The maximum length of an error message, and of a text checked for a format.
LONGEST_MESSAGE, LONGEST_FORMATTED = 300, 8_000


class BudgetSpentError(Exception):
    """The validation of a value takes more work than allowed."""


class InapplicableSchemaError(Exception):
    """A keyword of the schema can't be applied."""


class Budget:
    """The remaining work of a validation, and a cache of results about parts of the schema."""

    __slots__ = ("known", "left")

    def __init__(self) -> None:
        self.left = BUDGET
        self.known: dict[int, tuple[list[Any], frozenset[str]]] = {}

    def spend(self, units: int) -> None:
        """Subtract units of work from the remaining work.

        Raises:
            BudgetSpentError: not enough work remains.
        """
        self.left -= units
        if self.left < 0:
            raise BudgetSpentError


_budget: ContextVar[Budget | None] = ContextVar("hitl_schema_budget", default=None)


@contextmanager
def limit_work() -> Iterator[Budget]:
    """Limit the work of validations inside the block.

    A nested block uses the limit of the outer block.
    """
    known = _budget.get()
    if known is not None:
        yield known
        return
    token = _budget.set(made := Budget())
    try:
        yield made
    finally:
        _budget.reset(token)


def _spend(units: int) -> None:
    open_budget = _budget.get()
    if open_budget is not None:
        open_budget.spend(units)


def _size(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def _required(validator: Any, names: Any, instance: Any, schema: Any) -> Errors:
    # jsonschema reports the object, but a form needs the missing field.
    if not isinstance(instance, dict):
        return
    for name in names:
        if name not in instance:
            yield ValidationError("is required", path=[name])


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, str):
        return
    if not _compile(pattern).matches(instance):
        yield ValidationError(f"doesn't match the pattern {pattern!r}")


def _compile(pattern: str) -> Pattern:
    compiled = compile_pattern(pattern)
    if compiled is None:
        raise InapplicableSchemaError(f"The pattern {pattern!r} can't be applied.")
    return compiled


def _multiple_of(validator: Any, step: Any, instance: Any, schema: Any) -> Errors:
    if not validator.is_type(instance, "number"):
        return
    _spend((len(repr(instance)) + len(repr(step))) // 20)
    if _as_fraction(instance) % _as_fraction(step):
        yield ValidationError(f"is not a multiple of {step}")


def _as_fraction(number: Any) -> Fraction:
    """Return a number as a fraction. A float is converted from its decimal notation.

    For example, 0.1 becomes 1/10, although the float itself is slightly larger.
    """
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def _properties(validator: Any, properties: Any, instance: Any, schema: Any) -> Errors:
    """Validate the properties of an object.

    Properties that distinguish the branches of a union come first.
    """
    if not isinstance(instance, dict):
        return
    found = [(name, below) for name, below in properties.items() if name in instance]
    for name, below in sorted(found, key=_is_deep):
        yield from validator.descend(instance[name], below, path=name, schema_path=name)


def _is_deep(found: tuple[str, Any]) -> bool:
    below = found[1]
    return not (isinstance(below, dict) and ("const" in below or "enum" in below))


def _any_of(validator: Any, branches: Any, instance: Any, schema: Any) -> Errors:
    for branch in _select_by_discriminator(branches, instance, schema):
        yield from validator.descend(instance, branch)
        return
    attempts = _Attempts()
    for branch in branches:
        if attempts.fits(validator.descend(instance, branch)):
            return
    yield from attempts.faults()


def _one_of(validator: Any, branches: Any, instance: Any, schema: Any) -> Errors:
    for branch in _select_by_discriminator(branches, instance, schema):
        yield from validator.descend(instance, branch)
        return
    attempts = _Attempts()
    fitting = sum(attempts.fits(validator.descend(instance, branch)) for branch in branches)
    if fitting == 0:
        yield from attempts.faults()
    elif fitting > 1:
        yield ValidationError(f"matches {fitting} of the given schemas")


class _Attempts:
    """Validation of a value by each branch of a union.

    If only one branch allows the value's type, the value is validated completely by this branch.
    """

    def __init__(self) -> None:
        self.likely = 0
        self.kept: Errors = ()

    def fits(self, errors: Iterator[ValidationError]) -> bool:
        """Return whether a branch has no errors for the value.

        If the branch has errors but allows the value's type, keep the errors for ``faults``.
        """
        first = next(errors, None)
        if first is None:
            return True
        if not _is_of_another_kind(first):
            self.likely += 1
            # The errors of other branches are dropped immediately, because each error references
            # all errors below it.
            self.kept = chain([first], errors) if self.likely == 1 else ()
        return False

    def faults(self) -> Errors:
        """Return the errors of a value that matches no branch of a union.

        If only one branch allows the value's type, these are the errors of this branch. Otherwise,
        it's a single error for the whole union.
        """
        return self.kept or [ValidationError("matches none of the given schemas")]


def _is_of_another_kind(fault: ValidationError) -> bool:
    """Return whether an error means that the branch requires another type or constant."""
    if fault.validator == "type":
        return not fault.path
    return fault.validator == "const" and len(fault.path) <= 1


def _select_by_discriminator(branches: Any, instance: Any, schema: Any) -> list[Any]:
    """Return a list with the branch that an OpenAPI discriminator selects, or an empty list."""
    discriminator = schema.get("discriminator")
    if not isinstance(discriminator, dict) or not isinstance(instance, dict):
        return []
    mapping, name = discriminator.get("mapping"), discriminator.get("propertyName")
    word = instance.get(name) if isinstance(name, str) else None
    if not isinstance(mapping, dict) or not isinstance(word, str) or word not in mapping:
        return []
    return [
        each for each in branches if isinstance(each, dict) and each.get("$ref") == mapping[word]
    ]


def _enum(validator: Any, values: Any, instance: Any, schema: Any) -> Errors:
    if _to_canonical_text(instance) not in _get_canonical_texts(values):
        yield ValidationError("is not one of the given values")


def _const(validator: Any, value: Any, instance: Any, schema: Any) -> Errors:
    if _to_canonical_text(instance) != _to_canonical_text(value):
        yield ValidationError("is a different value")


def _unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Errors:
    if (
        wanted
        and isinstance(instance, list)
        and len({*map(_to_canonical_text, instance)}) < len(instance)
    ):
        yield ValidationError("contains duplicates")


def _get_canonical_texts(values: list[Any]) -> frozenset[str]:
    """Return the values of an enum as canonical texts.

    The result is cached during the validation.
    """
    open_budget = _budget.get()
    known = {} if open_budget is None else open_budget.known
    # The list is stored with its texts, because the id of a deleted list may be reused.
    if id(values) not in known:
        known[id(values)] = values, frozenset(map(_to_canonical_text, values))
    return known[id(values)][1]


def _to_canonical_text(value: Any) -> str:
    """Return a text that is the same for all values that are equal in JSON Schema (1 and 1.0).

    Sets contain these texts instead of the values. An attacker could find many numbers with the
    same hash, which make a set slow. Hashes of texts are randomized.
    """
    if isinstance(value, str):
        return '"' + value
    text = json.dumps(_plain(value), sort_keys=True)
    _spend(len(text) // 100)
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value


def _format(validator: Any, name: Any, instance: Any, schema: Any) -> Errors:
    check = text_formats.CHECKS.get(name) if isinstance(name, str) else None
    if check is None or not isinstance(instance, str):
        return
    if len(instance) > LONGEST_FORMATTED or not check(instance):
        yield ValidationError(f"is not in {name!r} format")


def _items(validator: Any, items: Any, instance: Any, schema: Any) -> Errors:
    """Apply ``items``, which may also be a list (``prefixItems`` since draft 2020-12)."""
    if not isinstance(items, list):
        yield from Draft202012Validator.VALIDATORS["items"](validator, items, instance, schema)
    elif isinstance(instance, list):
        for index, (item, below) in enumerate(zip(instance, items, strict=False)):
            yield from validator.descend(item, below, path=index, schema_path=index)


def _additional_items(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
    first = schema.get("items")
    if not isinstance(first, list) or not isinstance(instance, list):
        return
    if rule is False and len(instance) > len(first):
        yield ValidationError(f"has more than {len(first)} entries")
        return
    for index in range(len(first), len(instance)):
        yield from validator.descend(instance[index], rule, path=index)


def _dependencies(validator: Any, rules: Any, instance: Any, schema: Any) -> Errors:
    """Apply ``dependencies``, a keyword that draft 2019-09 has replaced."""
    if not isinstance(instance, dict):
        return
    for name, rule in rules.items():
        if name not in instance:
            continue
        if isinstance(rule, list):
            yield from _required(validator, rule, instance, schema)
        else:
            yield from validator.descend(instance, rule, schema_path=name)


def _pattern_properties(validator: Any, rules: Any, instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, dict):
        return
    for pattern, below in rules.items():
        compiled = _compile(pattern)
        for name, value in instance.items():
            if compiled.matches(name):
                yield from validator.descend(value, below, path=name, schema_path=pattern)


def _additional_properties(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
    patterned = schema.get("patternProperties")
    if not isinstance(patterned, dict) or not isinstance(instance, dict):
        yield from _ADDITIONAL_PROPERTIES(validator, rule, instance, schema)
        return
    _spend(2 * len(patterned) * len(instance))
    patterns = [_compile(pattern) for pattern in patterned]
    others = [
        name
        for name in instance
        if name not in schema.get("properties", {})
        and not any(pattern.matches(name) for pattern in patterns)
    ]
    for name in others:
        if rule is False:
            yield ValidationError("isn't allowed here", path=[name])
        else:
            yield from validator.descend(instance[name], rule, path=name)


def _unevaluated_properties(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
    if "patternProperties" in schema:
        raise InapplicableSchemaError("unevaluatedProperties beside patternProperties")
    yield from _UNEVALUATED_PROPERTIES(validator, rule, instance, schema) or ()


_ADDITIONAL_PROPERTIES = Draft202012Validator.VALIDATORS["additionalProperties"]
_UNEVALUATED_PROPERTIES = Draft202012Validator.VALIDATORS["unevaluatedProperties"]


def _counted(keyword: str, apply: Keyword) -> Keyword:
    """Return a function that counts the work of a keyword and then applies it."""
    cost = COSTS.get(keyword)

    def counted(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
        _spend(1 if cost is None else 1 + cost(rule, instance))
        for error in apply(validator, rule, instance, schema) or ():
            if len(error.message) > LONGEST_MESSAGE:
                # The message quotes the invalid part, which may be most of the value.
                _spend(len(error.message) // 200)
                error.message = _shorten_message(error.message)
            yield error

    return counted


def _shorten_message(message: str) -> str:
    """Remove the middle of a message, because messages may quote long values."""
    return f"{message[: LONGEST_MESSAGE // 2]}…{message[-LONGEST_MESSAGE // 3 :]}"


def _entries(rule: Any, instance: Any) -> int:
    return 2 * len(instance) if isinstance(instance, list) else 0


def _members(rule: Any, instance: Any) -> int:
    return 2 * len(instance) if isinstance(instance, dict) else 0


def _rules(rule: Any, instance: Any) -> int:
    return 2 * _size(rule)


def _characters(name: Any, text: Any) -> int:
    if not isinstance(text, str):
        return 0
    return len(text) // 10


def _pairs(rule: Any, instance: Any) -> int:
    # jsonschema looks up each part in a list of all evaluated parts.
    return _size(instance) + _size(instance) ** 2 // 50 if isinstance(instance, list | dict) else 0


#: The additional cost of each keyword, for the processed parts of the schema or value.
COSTS: dict[str, Callable[[Any, Any], int]] = {
    "$ref": lambda rule, instance: 6,
    "$dynamicRef": lambda rule, instance: 60,
    "additionalItems": _entries,
    "additionalProperties": _members,
    "allOf": _rules,
    "anyOf": lambda rule, instance: _size(rule),
    "contains": _entries,
    "dependencies": _rules,
    "dependentRequired": lambda rule, instance: (
        sum(map(_size, rule.values())) // 16 if isinstance(rule, dict) else 0
    ),
    "dependentSchemas": _rules,
    "const": lambda rule, instance: 1,
    "enum": lambda rule, instance: 1,
    "format": _characters,
    "if": lambda rule, instance: 2,
    "items": _entries,
    "not": lambda rule, instance: 2,
    "oneOf": lambda rule, instance: _size(rule),
    "pattern": lambda rule, instance: len(instance) // 200 if isinstance(instance, str) else 0,
    "patternProperties": lambda rule, instance: _size(rule) * _members(rule, instance),
    "prefixItems": _rules,
    "properties": lambda rule, instance: (
        _size(rule) // 40 + min(2 * _size(rule), _members(rule, instance))
    ),
    "propertyNames": _members,
    "required": lambda rule, instance: _size(rule) // 16,
    "unevaluatedItems": _pairs,
    "unevaluatedProperties": _pairs,
    "uniqueItems": _entries,
}

_OWN: dict[str, Keyword] = {
    "additionalItems": _additional_items,
    "additionalProperties": _additional_properties,
    "anyOf": _any_of,
    "const": _const,
    "dependencies": _dependencies,
    "enum": _enum,
    "format": _format,
    "items": _items,
    "multipleOf": _multiple_of,
    "oneOf": _one_of,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "properties": _properties,
    "required": _required,
    "unevaluatedProperties": _unevaluated_properties,
    "uniqueItems": _unique_items,
}

VALIDATOR = validators.extend(
    Draft202012Validator,
    {
        keyword: _counted(keyword, apply)
        for keyword, apply in {**Draft202012Validator.VALIDATORS, **_OWN}.items()
    },
)
