"""The two engines with the same names, so that each workload is written once."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

LANGGRAPH, OURS = "langgraph", "hitl_django"
ENGINES = (LANGGRAPH, OURS)
#: No engine: the same rows, with handwritten statements.
FLOOR = "floor"

#: Names by LangGraph's modules, which this package provides under ``hitl_django``.
_NAMES = {
    "langgraph.graph": ("END", "START", "StateGraph"),
    "langgraph.types": ("Command", "Send", "interrupt"),
    "langgraph.checkpoint.memory": ("InMemorySaver",),
    "langgraph.graph.message": ("add_messages",),
    "langgraph.prebuilt": ("create_react_agent",),
}


def load(engine: str) -> Any:
    """Import an engine and return its names; the floor uses this package to determine its work."""
    found = SimpleNamespace(engine=engine)
    package = "" if engine == LANGGRAPH else f"{OURS}."
    for path, names in _NAMES.items():
        module = import_module(package + path)
        for name in names:
            setattr(found, name, getattr(module, name))
    return found
