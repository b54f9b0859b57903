"""Registration of the serializable types in the annotations of a graph's schemas.

Type names in stored bytes are looked up among registered types and never imported. The classes must
therefore be registered before a value is read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args

from ..bridges import find_langchain
from ..serde import add_code_of, adopt_model, has_recipe, register_type
from ..store import Item, SearchItem
from .messages import is_message_reducer
from .schema import get_hints

_LANGCHAIN = "langchain_core.messages"

register_type("hitl_django.Item", Item, Item.dict, lambda stored: Item(**stored))
register_type(
    "hitl_django.SearchItem", SearchItem, SearchItem.dict, lambda stored: SearchItem(**stored)
)


def register_schema_types(schema: Any) -> None:
    """Register the dataclasses, models, enums and named tuples in a schema's annotations.

    LangChain's messages are also registered if the schema merges messages or LangChain is loaded,
    because annotations of message lists rarely name the message class.
    """
    add_code_of(schema)
    for cls in _classes(schema, set()):
        if cls.__module__.partition(".")[0] not in ("builtins", "hitl_django"):
            adopt_model(cls)
    if _LANGCHAIN in sys.modules or _adds_messages(schema):
        find_langchain()


def _adds_messages(schema: Any) -> bool:
    try:
        hints = get_hints(schema) or {}
    except (NameError, TypeError):
        hints = {}
    return any(map(_is_added_up, (schema, *hints.values())))


def _is_added_up(annotation: Any) -> bool:
    reducers = getattr(annotation, "__metadata__", ())
    return any(map(is_message_reducer, reducers)) or any(map(_is_added_up, get_args(annotation)))


def _classes(annotation: Any, seen: set[Any]) -> Iterator[type]:
    if id(annotation) in seen:
        return
    seen.add(id(annotation))
    for argument in get_args(annotation):
        yield from _classes(argument, seen)
    if not isinstance(annotation, type):
        return
    if _is_storable(annotation):
        yield annotation
    try:
        hints = get_hints(annotation) or {}
    except (NameError, TypeError):
        return  # The schema mentions a name that doesn't exist at run time.
    for hint in hints.values():
        yield from _classes(hint, seen)


def _is_storable(cls: type) -> bool:
    return has_recipe(cls) and (not issubclass(cls, Enum) or bool(list(cls)))
