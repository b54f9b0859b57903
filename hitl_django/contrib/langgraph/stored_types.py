"""Registration of LangGraph's classes, so that stored bytes contain short names."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from typing import Any

from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.store.base import Item, SearchItem
from langgraph.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy

from hitl_django.engine.serde import has_recipe, register_model, register_type


def register_stored_types() -> None:
    """Register the classes that LangGraph itself stores in the state, for all codecs."""
    register_type(
        "langgraph.Send",
        Send,
        lambda sent: [sent.node, sent.arg, sent.timeout],
        lambda stored: Send(stored[0], stored[1], timeout=stored[2]),
    )
    for cls in (Command, Interrupt, Overwrite, TimeoutPolicy):
        register_model(cls, f"langgraph.{cls.__name__}")
    register_model(_DeltaSnapshot, "langgraph.DeltaSnapshot")
    register_type("langgraph.Item", Item, Item.dict, lambda stored: Item(**stored))
    register_type(
        "langgraph.SearchItem", SearchItem, SearchItem.dict, lambda stored: SearchItem(**stored)
    )


def find_listed_classes(allowlist: Collection[Any]) -> Iterator[type]:
    """Yield the classes in LangGraph's ``allowlist`` that are stored field by field.

    Entries are classes, or pairs of module and name. Only loaded modules are considered.
    """
    for listed in allowlist:
        found: Any = listed
        if isinstance(listed, tuple):
            found = sys.modules.get(listed[0])
            for name in str(listed[1]).split("."):
                found = getattr(found, name, None)
        if isinstance(found, type) and has_recipe(found):
            yield found
