"""Registered application classes, stored under short names that are assigned in code."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from .extension_codes import BRANCHES, LEAVES, NATIVE

T = TypeVar("T")
C = TypeVar("C", bound=type)

_TAG = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}\Z")
_NOT_IN_TAG = re.compile(r"[^A-Za-z0-9_.:-]+")


@dataclass(frozen=True, slots=True)
class TypeCodec:
    """The functions that convert instances of exactly ``cls`` to storable values and back.

    ``dump`` returns a storable value, and ``load`` converts this value back to an equal instance.
    ``tag`` is the short name of the class in stored bytes. The tag must remain the same if the
    class is renamed or moved.
    """

    tag: str
    cls: type
    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]


class TypeTable:
    """Type codecs, found by class or by tag. There is one codec per class, and one per tag."""

    def __init__(self) -> None:
        self.by_class: dict[type, TypeCodec] = {}
        self.by_tag: dict[str, TypeCodec] = {}

    def add(self, entry: TypeCodec) -> None:
        """Add a type codec.

        Raises:
            ValueError: the tag is invalid, or the tag or class is already in use.
        """
        if not _TAG.match(entry.tag):
            raise ValueError(
                f"{entry.tag!r} is not a valid short name: use a letter followed by "
                "letters, digits and _.:-, at most 64 characters."
            )
        if entry.cls in NATIVE or entry.cls in LEAVES or entry.cls in BRANCHES or entry.cls is dict:
            raise ValueError(
                f"{entry.cls.__qualname__} is stored natively and can't be registered."
            )
        if entry.tag in self.by_tag:
            taken = self.by_tag[entry.tag].cls.__qualname__
            raise ValueError(f"Short name {entry.tag!r} is already used by {taken}.")
        if entry.cls in self.by_class:
            tag = self.by_class[entry.cls].tag
            raise ValueError(f"{entry.cls.__qualname__} is already registered as {tag!r}.")
        self.by_tag[entry.tag] = self.by_class[entry.cls] = entry

    def adopt(self, entry: TypeCodec) -> None:
        """Add a type codec, and remove an earlier codec with the same tag."""
        replaced = self.by_tag.get(entry.tag)
        # The entry must exist at all times, because another thread may look up the class.
        self.by_tag[entry.tag] = self.by_class[entry.cls] = entry
        if replaced is not None and replaced.cls is not entry.cls:
            self.by_class.pop(replaced.cls, None)


REGISTERED = TypeTable()


def register_type(
    tag: str, cls: type[T], dump: Callable[[T], Any], load: Callable[[Any], T]
) -> None:
    """Let all codecs store instances of exactly ``cls`` under ``tag``.

    ``dump`` converts an instance to a storable value, and ``load`` converts it back.
    """
    REGISTERED.add(TypeCodec(tag, cls, dump, load))


def register_model(cls: C, tag: str | None = None) -> C:
    """Register and return a dataclass, a pydantic model, an enum or a named tuple.

    Fields are stored by name, and enum members by value. Loading restores the stored fields without
    calling validators, ``__init__`` or ``__post_init__``. A field that was added to the class later
    gets its default. A field that was removed is ignored.
    """
    REGISTERED.add(make_type_codec(cls, tag or cls.__name__))
    return cls


def adopt_model(cls: type) -> None:
    """Register a class of a graph's schema under its dotted name, unless it's already registered.

    If stored threads contain the class, renaming or moving it requires a registration under the old
    name: ``register_model(cls, "old.dotted.name")``.
    """
    if cls in REGISTERED.by_class:
        return
    REGISTERED.adopt(make_type_codec(cls, name_class(cls)))


def make_type_codec(cls: type, tag: str) -> TypeCodec:
    """Return a type codec that stores instances of ``cls`` under ``tag``.

    ``cls`` is a dataclass, a pydantic model, an enum or a named tuple.
    """
    dump, load = _recipe(cls)
    return TypeCodec(tag, cls, dump, load)


def name_class(cls: type) -> str:
    """Return the dotted name under which a class is stored if the class has no short name."""
    return _NOT_IN_TAG.sub("-", f"{cls.__module__}.{cls.__qualname__}")


def has_recipe(cls: type) -> bool:
    """Return whether instances of a class can be stored without custom dump and load functions."""
    return (
        issubclass(cls, Enum)
        or dataclasses.is_dataclass(cls)
        or hasattr(cls, "__pydantic_fields__")
        or _is_pydantic_v1(cls)
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    )


def _is_pydantic_v1(cls: Any) -> bool:
    # The order matters, because models of pydantic 2 have a deprecated __fields__ that emits a
    # warning.
    return hasattr(cls, "__validators__") and hasattr(cls, "__fields__")


def _recipe(cls: type) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    if issubclass(cls, Enum):
        return (lambda member: member.value), cls
    if dataclasses.is_dataclass(cls):
        return _dataclass_recipe(cls)
    if hasattr(cls, "__pydantic_fields__"):
        return _pydantic_recipe(cls)
    if _is_pydantic_v1(cls):
        return _pydantic_v1_recipe(cls)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _namedtuple_recipe(cls)
    raise TypeError(
        f"{cls.__qualname__} is not a dataclass, pydantic model, enum or named tuple; use "
        "register_type with dump and load functions."
    )


def _namedtuple_recipe(cls: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    def dump(value: Any) -> dict[str, Any]:
        return dict(zip(cls._fields, value, strict=True))

    def load(stored: dict[str, Any]) -> Any:
        found = cls._field_defaults | stored
        return tuple.__new__(cls, [found[name] for name in cls._fields])

    return dump, load


def _dataclass_recipe(cls: type) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    fields = dataclasses.fields(cls)

    def dump(value: Any) -> dict[str, Any]:
        return {field.name: getattr(value, field.name) for field in fields}

    def load(stored: dict[str, Any]) -> Any:
        value: Any = object.__new__(cls)
        for field in fields:
            object.__setattr__(value, field.name, _field_value(field, stored))
        return value

    return dump, load


def _field_value(field: dataclasses.Field[Any], stored: dict[str, Any]) -> Any:
    if field.name in stored:
        return stored[field.name]
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    if field.default is dataclasses.MISSING:
        raise ValueError(f"field {field.name} has no stored value and no default")
    return field.default


def _pydantic_recipe(cls: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    put = object.__setattr__  # The model's own __setattr__ may validate or raise an error.

    def dump(value: Any) -> list[Any]:
        state, known = vars(value), cls.__pydantic_fields__
        if state.keys() == known.keys():
            fields = state  # Other attributes, such as a cached property, are excluded.
        else:
            fields = {name: state[name] for name in known if name in state}
        given = sorted(value.__pydantic_fields_set__)
        return [fields, given, value.__pydantic_extra__, value.__pydantic_private__]

    def load(stored: list[Any]) -> Any:
        state, given, extra, private = stored
        if state.keys() != cls.__pydantic_fields__.keys():
            state = complete(state)
        value = cls.__new__(cls)
        put(value, "__dict__", state)
        put(value, "__pydantic_fields_set__", set(given))
        put(value, "__pydantic_extra__", extra)
        put(value, "__pydantic_private__", private)
        return value

    def complete(fields: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = {}
        for name, field in cls.__pydantic_fields__.items():
            if name not in fields and field.is_required():
                raise ValueError(f"field {name} has no stored value and no default")
            state[name] = (
                fields[name]
                if name in fields
                else field.get_default(call_default_factory=True, validated_data=state)
            )
        return state

    return dump, load


def _pydantic_v1_recipe(cls: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    def dump(value: Any) -> list[Any]:
        state = value.__getstate__()
        given = sorted(state["__fields_set__"])
        return [state["__dict__"], given, state["__private_attribute_values__"]]

    def load(stored: list[Any]) -> Any:
        state, given, private = stored
        keeps_others = cls.__config__.extra == "allow"
        fields = {name: each for name, each in state.items() if keeps_others}
        for name, field in cls.__fields__.items():
            if name not in state and field.required:
                raise ValueError(f"field {name} has no stored value and no default")
            fields[name] = state[name] if name in state else field.get_default()
        value = cls.__new__(cls)
        value._init_private_attributes()
        value.__setstate__(
            {
                "__dict__": fields,
                "__fields_set__": set(given),
                "__private_attribute_values__": private,
            }
        )
        return value

    return dump, load
