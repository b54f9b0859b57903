"""Bridge between LangGraph's graphs and the engine.

Only this package imports langgraph. Each name of this package is imported on first use, so that the
app can be installed without LangGraph.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hitl_django.engine.extras import require_extra

if TYPE_CHECKING:
    from .checkpointer import DjangoCheckpointer as DjangoCheckpointer
    from .registration import register_langgraph as register_langgraph
    from .store import LangGraphStore as LangGraphStore

__all__ = ["DjangoCheckpointer", "LangGraphStore", "register_langgraph"]

_MODULES = {
    "DjangoCheckpointer": "checkpointer",
    "LangGraphStore": "store",
    "register_langgraph": "registration",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with require_extra("langgraph"):
        found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found
