"""State classes: conversion of annotations to channels, and of dicts to state objects."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NotRequired,
    Required,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import typing_extensions

from ..channels import BaseChannel, BinaryOperatorAggregate, LastValue
from ..constants import ROOT
from ..errors import InvalidInputError, InvalidUpdateError
from .complexity import TOO_COMPLEX, contains_itself, is_too_complex
from .messages import find_message_fault, is_message_reducer

if TYPE_CHECKING:
    from pydantic import ValidationError

T = TypeVar("T")

#: The maximum number of faults listed for a value, because each validator may report a fault.
MAX_FAULTS = 50


class ManagedValue:
    """A value that nodes read like state, and that the loop computes from the super-step number."""

    def __init__(self, compute: Callable[[int, int], Any], name: str) -> None:
        self.compute, self.name = compute, name

    def __repr__(self) -> str:
        return self.name


IsLastStep = Annotated[bool, ManagedValue(lambda step, stop: step == stop - 1, "IsLastStep")]
RemainingSteps = Annotated[int, ManagedValue(lambda step, stop: stop - step, "RemainingSteps")]


def _cached(make: Callable[[Any], T]) -> Callable[[Any], T]:
    """Cache the results of a function by annotation, except for unhashable annotations."""

    @lru_cache(maxsize=256)
    def known(annotation: Any, text: str) -> T:
        return make(annotation)

    def find(annotation: Any) -> T:
        # ``int | str`` equals ``str | int``, but the order of a union is the order in its schema.
        text = "" if isinstance(annotation, type) else repr(annotation)
        try:
            return known(annotation, text)
        except TypeError:
            return make(annotation)

    return find


@_cached
def get_hints(schema: Any) -> dict[str, Any] | None:
    """Return the annotated fields of a state class, or None if the class has no annotations.

    If the annotations can't be evaluated, raise the error for a TypedDict, a pydantic model or a
    dataclass, and return None for any other class. For example, a Django model may have annotations
    that only type checkers can evaluate.
    """
    try:
        return _evaluate_hints(schema)
    except (NameError, TypeError):
        if is_typeddict(schema) or is_model(schema) or dataclasses.is_dataclass(schema):
            raise
        return None


def _evaluate_hints(schema: Any) -> dict[str, Any] | None:
    if not isinstance(schema, type):
        return None
    declares = bool(getattr(schema, "__annotations__", None))
    if not declares and not is_model(schema) and not dataclasses.is_dataclass(schema):
        return None
    return get_type_hints(schema, include_extras=True)


def is_model(schema: Any) -> bool:
    return isinstance(schema, type) and hasattr(schema, "model_validate")


def build_channels(schema: Any) -> tuple[dict[str, BaseChannel], dict[str, ManagedValue]]:
    """Return the channels and managed values declared by a state class."""
    hints = _evaluate_hints(schema)
    if hints is None:
        return {ROOT: build_channel(ROOT, schema)}, {}
    channels: dict[str, BaseChannel] = {}
    managed: dict[str, ManagedValue] = {}
    for name, annotation in hints.items():
        value = get_managed_value(annotation)
        if value is not None:
            managed[name] = value
        else:
            channels[name] = build_channel(name, annotation)
    return channels, managed


def _unwrapped(annotation: Any) -> Any:
    while get_origin(annotation) in (Required, NotRequired):
        annotation = get_args(annotation)[0]
    return annotation


def get_managed_value(annotation: Any) -> ManagedValue | None:
    """Return the managed value in an annotation, or None if there is none."""
    metadata = getattr(_unwrapped(annotation), "__metadata__", ())
    return metadata[-1] if metadata and isinstance(metadata[-1], ManagedValue) else None


def build_channel(name: str, annotation: Any) -> BaseChannel:
    """Return the channel for one field of a state class.

    If the last metadata item of the annotation is a channel or a reducer, it determines the
    channel. Otherwise, the channel is a LastValue.
    """
    annotation = _unwrapped(annotation)
    metadata = getattr(annotation, "__metadata__", ())
    if not metadata:
        return LastValue(annotation, name)
    typ, rule = _unwrapped(annotation.__origin__), metadata[-1]
    if isinstance(rule, BaseChannel):
        return rule.bound(name, typ)
    if isinstance(rule, type) and issubclass(rule, BaseChannel):
        return rule(typ).bound(name, typ)
    if callable(rule) and not isinstance(rule, type):
        _check_reducer(rule)
        return BinaryOperatorAggregate(typ, rule, name)
    return LastValue(typ, name)


def _check_reducer(reducer: Callable[..., Any]) -> None:
    try:
        parameters = inspect.signature(reducer).parameters.values()
    except ValueError:
        # A builtin function may have no signature, such as operator.add in old Python versions.
        return
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) != 2 and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        raise ValueError(
            f"Invalid reducer signature. Expected (a, b) -> c. Got {inspect.signature(reducer)}"
        )


def get_coercion(schema: Any) -> Callable[[dict[str, Any]], Any] | None:
    """Return a function that converts a state dict to an instance of ``schema``.

    Return None if the schema is a dict type. For a dataclass, the function sets missing fields to
    None if their type allows None.
    """
    if not (is_model(schema) or dataclasses.is_dataclass(schema)):
        return None
    blank = dict.fromkeys(_list_blank_fields(schema))
    return (
        (lambda values: schema(**{**blank, **values})) if blank else lambda values: schema(**values)
    )


def _add_made_defaults(schema: Any, properties: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema properties of a dataclass, with the defaults of ``default_factory``.

    pydantic leaves these defaults out, so a form would start empty. A default that can't be
    converted to JSON is left out.
    """
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    found = dict(properties)
    for field in dataclasses.fields(schema):
        if field.default_factory is not dataclasses.MISSING and field.name in found:
            with suppress(PydanticSerializationError):
                default = to_jsonable_python(field.default_factory())
                found[field.name] = dict(sorted({"default": default, **found[field.name]}.items()))
    return found


def _list_blank_fields(schema: Any) -> list[str]:
    """Return the fields of a dataclass that have no default and whose type allows None."""
    if is_model(schema) or not dataclasses.is_dataclass(schema):
        return []
    hints = get_hints(schema) or {}
    return [
        field.name
        for field in dataclasses.fields(schema)
        if field.init
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
        and type(None) in get_args(_plain_type(hints.get(field.name)))
    ]


def list_updates(output: Any, keys: frozenset[str]) -> list[tuple[str, Any]]:
    """Return the channel writes in a node's result, which is a dict or a state object."""
    if isinstance(output, Mapping):
        return [(key, value) for key, value in output.items() if key in keys]
    fields = _list_updated_fields(output)
    if fields is None:
        raise InvalidUpdateError(f"Expected dict, got {output}")
    return [(name, getattr(output, name)) for name in fields if name in keys]


def _list_updated_fields(value: Any) -> Sequence[str] | None:
    """Return the names of the fields that a state object sets, or None if it isn't a state object.

    A field of a pydantic model counts if it was set explicitly, or if its value or its default
    isn't None. All fields of other classes count.
    """
    if is_model(type(value)):
        given = value.model_fields_set
        return [
            name
            for name, field in type(value).model_fields.items()
            if name in given or getattr(value, name) is not None or field.default is not None
        ]
    hints = get_hints(type(value))
    return None if hints is None else [name for name in hints if hasattr(value, name)]


@_cached
def _adapter_for(annotation: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(_make_portable(annotation))


def _make_portable(annotation: Any) -> Any:
    """Return an annotation in which each TypedDict has a form that pydantic supports.

    Before Python 3.12, pydantic rejects a TypedDict of the standard library.
    """
    if sys.version_info >= (3, 12):
        return annotation
    if is_typeddict(annotation):
        hints = get_type_hints(annotation, include_extras=True)
        optional = annotation.__optional_keys__
        fields = {
            name: NotRequired[_make_portable(_unwrapped(hint))]
            if name in optional
            else _make_portable(_unwrapped(hint))
            for name, hint in hints.items()
        }
        return typing_extensions.TypedDict(annotation.__name__, fields)  # type: ignore[operator]
    arguments = get_args(annotation)
    if get_origin(annotation) in (list, dict, tuple, set) and arguments:
        return get_origin(annotation)[tuple(_make_portable(argument) for argument in arguments)]
    if get_origin(annotation) in (Union, UnionType):
        return Union[tuple(_make_portable(argument) for argument in arguments)]  # noqa: UP007
    return annotation


def build_json_schema(schema: Any) -> dict[str, Any]:
    """Return the JSON schema of a response type or a state class.

    If pydantic doesn't support the type of a state class's field, the schema allows any value for
    the field.
    """
    from pydantic import PydanticSchemaGenerationError, PydanticUserError

    from .json_schemas import describe_type

    if isinstance(schema, dict):
        return schema
    try:
        return describe_type(_adapter_for(schema))
    except (PydanticSchemaGenerationError, PydanticUserError):
        hints = get_hints(schema)
        if hints is None:
            return {}
        fields = {name: _plain_type(hint) for name, hint in hints.items()}
        properties = {
            name: {} if get_hints(field) is not None and not is_typeddict(field) else _loose(field)
            for name, field in fields.items()
        }
        return {"title": schema.__name__, "type": "object", "properties": properties}


def describe_state(schema: Any, name: str) -> dict[str, Any]:
    """Return the JSON schema of a graph's input or output.

    ``name`` is the title of dataclasses and of types without a name.
    """
    described = {"title": name, **build_json_schema(schema)}
    if dataclasses.is_dataclass(schema):
        described["title"] = name
        if "properties" in described:
            described["properties"] = _add_made_defaults(schema, described["properties"])
    blank = _list_blank_fields(schema)
    if blank and "required" in described:
        described["required"] = [key for key in described["required"] if key not in blank]
        described["properties"] = {
            key: dict(sorted({"default": None, **part}.items())) if key in blank else part
            for key, part in described["properties"].items()
        }
    return dict(sorted(described.items()))


def _loose(annotation: Any) -> dict[str, Any]:
    from pydantic import PydanticSchemaGenerationError, PydanticUserError

    from .json_schemas import describe_type

    try:
        return describe_type(_adapter_for(annotation))
    except (PydanticSchemaGenerationError, PydanticUserError):
        return {}


def coerce(schema: Any, value: Any) -> Any:
    """Return ``value`` as an instance of ``schema``.

    Raises:
        pydantic.ValidationError: the value is invalid, or validating a recursive union would take
            too long.
    """
    described = _recursive_schema(schema)
    if described is not None and is_too_complex(described, value):
        from pydantic_core import PydanticCustomError, ValidationError

        fault = PydanticCustomError("too_complex", TOO_COMPLEX)
        raise ValidationError.from_exception_data(str(schema), [{"type": fault, "input": None}])
    return _adapter_for(schema).validate_python(value)


def check_type(annotation: Any) -> None:
    """Raise TypeError unless ``coerce`` can convert values to the type."""
    from pydantic import PydanticSchemaGenerationError, PydanticUserError

    try:
        _adapter_for(annotation)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        reason = str(error).partition("\n")[0]
        raise TypeError(reason) from error


def list_faults(error: ValidationError) -> list[tuple[tuple[int | str, ...], str]]:
    """Return up to MAX_FAULTS faults of a ValidationError, each with its location and message."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [(fault["loc"], fault["msg"]) for fault in found[:MAX_FAULTS]]


@_cached
def _recursive_schema(annotation: Any) -> dict[str, Any] | None:
    described = build_json_schema(annotation)
    return described if contains_itself(described) else None


def check_input(fields: Mapping[str, Any] | None, schema: Any, value: Any) -> None:
    """Raise InvalidInputError unless ``value`` fits ``schema``.

    ``fields`` are the annotated fields of the schema. Each given field is validated on its own. A
    missing field is valid, because nodes may set it. An unknown field is invalid. If ``fields`` is
    None, the value is validated as a whole.
    """
    if value is None:
        raise InvalidInputError("The graph's input is missing.", [("$", "is missing")])
    faults = _faults(schema, value, "$") if fields is None else _field_faults(fields, schema, value)
    if faults:
        reason = "; ".join(f"{path}: {reason}" for path, reason in faults)
        raise InvalidInputError(f"Invalid graph input: {reason}.", faults)


def convert_to_json(value: Any) -> Any:
    """Convert a value, such as a dataclass or a model, to plain JSON.

    Secret values, such as pydantic's SecretStr, are included in plain text.

    Raises:
        TypeError: a part of the value has no JSON form.
    """
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return to_jsonable_python(_reveal(value))
    except PydanticSerializationError as error:
        raise TypeError(str(error)) from error


def _reveal(value: Any) -> Any:
    if is_model(type(value)):
        fields = type(value).model_fields
        return {
            field.alias or name: _reveal(getattr(value, name)) for name, field in fields.items()
        }
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: _reveal(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _reveal(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_reveal(each) for each in value]
    return value.get_secret_value() if hasattr(value, "get_secret_value") else value


def list_context_faults(
    schema: Any, value: Any, *, is_partial: bool = False
) -> list[tuple[str, str]]:
    """Validate a run's context, and return the faults as (path, reason) pairs.

    In a partial context, missing fields are valid, unless the schema is a pydantic model.
    """
    fields = get_hints(schema)
    if is_partial and fields is not None:
        return _field_faults(fields, schema, value)
    if isinstance(value, Mapping) and fields is not None:
        unknown = [(f"$.{name}", "unknown field") for name in value if name not in fields]
        if unknown and not is_model(schema):
            return unknown
    return _faults(schema, value, "$")


def coerce_context(schema: Any, value: Any) -> Any:
    """Return a valid context as an instance of the context schema."""
    from pydantic import PydanticSchemaGenerationError, PydanticUserError

    try:
        return coerce(schema, value)
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError):
        # Pydantic doesn't support the type.
        coercion = get_coercion(schema)
        return value if coercion is None else coercion(value)


def _field_faults(fields: Mapping[str, Any], schema: Any, value: Any) -> list[tuple[str, str]]:
    if not isinstance(value, Mapping):
        if isinstance(schema, type) and not is_typeddict(schema) and isinstance(value, schema):
            return []
        return [("$", f"expected an object, got {type(value).__name__}")]
    faults = [(f"$.{name}", "unknown field") for name in value if name not in fields]
    if is_model(schema):
        return faults or _faults(schema, dict(value), "$")
    for name, annotation in fields.items():
        if name not in value:
            continue
        has_messages, plain = _describe_field(annotation)
        if has_messages:
            fault = find_message_fault(value[name])
            faults += [(f"$.{name}", fault)] if fault else []
        else:
            faults += _faults(plain, value[name], f"$.{name}")
    return faults


@_cached
def _describe_field(annotation: Any) -> tuple[bool, Any]:
    """Return whether the field is a list of messages, and its type without metadata."""
    metadata = getattr(_unwrapped(annotation), "__metadata__", ())
    return any(map(is_message_reducer, metadata)), _plain_type(annotation)


def _plain_type(annotation: Any) -> Any:
    annotation = _unwrapped(annotation)
    return _unwrapped(annotation.__origin__) if hasattr(annotation, "__metadata__") else annotation


def _faults(annotation: Any, value: Any, path: str) -> list[tuple[str, str]]:
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, ValidationError

    try:
        coerce(annotation, value)
    except ValidationError as error:
        return [
            (path + "".join(_step(part) for part in place), reason)
            for place, reason in list_faults(error)
        ]
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError):
        return []  # Pydantic doesn't support the type, so the value can't be checked.
    return []


def _step(part: str | int) -> str:
    return f"[{part}]" if isinstance(part, int) else f".{part}"
