"""The two engines with the same names, so that each workload is written only once."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

LANGGRAPH, OURS = "langgraph", "hitl_django"
ENGINES = (LANGGRAPH, OURS)
#: Name of the floor, i.e. the same rows written with handwritten statements.
FLOOR = "floor"

#: Names by LangGraph's modules. This package has the same modules in ``hitl_django``.
_NAMES = {
    "langgraph.graph": ("END", "START", "MessagesState", "StateGraph"),
    "langgraph.types": ("Command", "Send", "interrupt"),
    "langgraph.checkpoint.memory": ("InMemorySaver",),
    "langgraph.graph.message": ("add_messages",),
    "langgraph.prebuilt": ("create_react_agent",),
}


def load(engine: str) -> Any:
    """Import an engine and return its names.

    The floor uses this package to find out which rows to write.
    """
    found = SimpleNamespace(engine=engine)
    package = "" if engine == LANGGRAPH else f"{OURS}."
    for path, names in _NAMES.items():
        module = import_module(package + path)
        for name in names:
            setattr(found, name, getattr(module, name))
    return found
