"""The two engines under one set of names, so that a workload is written once."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

LANGGRAPH, OURS = "langgraph", "hitl_django"
ENGINES = (LANGGRAPH, OURS)
#: No engine: the same rows, written by hand.
FLOOR = "floor"

_NAMES = {
    LANGGRAPH: {
        "langgraph.graph": ("END", "START", "StateGraph"),
        "langgraph.types": ("Command", "Send", "interrupt"),
        "langgraph.checkpoint.memory": ("InMemorySaver",),
        "langgraph.graph.message": ("add_messages",),
        "langgraph.prebuilt": ("create_react_agent",),
    },
    OURS: {
        "hitl_django": (
            "END",
            "START",
            "Command",
            "InMemorySaver",
            "Send",
            "StateGraph",
            "add_messages",
            "interrupt",
        ),
        "hitl_django.langgraph.prebuilt": ("create_react_agent",),
    },
}


def load(engine: str) -> Any:
    """Imports an engine and returns its names; the floor has ours, to learn what it has to do."""
    found = SimpleNamespace(engine=engine)
    for module, names in _NAMES[OURS if engine == FLOOR else engine].items():
        for name in names:
            setattr(found, name, getattr(import_module(module), name))
    return found
