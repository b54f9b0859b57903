"""LangGraph's graphs and ours in one program: the one package that knows langgraph.

``DjangoCheckpointer``, ``LangGraphStore`` and ``register_langgraph`` need Django set up, and are
loaded at their first use; what the engine asks for needs no Django.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .graph_node import build_graph_action
from .host import HostNode
from .stored_types import register_stored_types

if TYPE_CHECKING:
    from .checkpointer import DjangoCheckpointer as DjangoCheckpointer
    from .registration import register_langgraph as register_langgraph
    from .store import LangGraphStore as LangGraphStore

__all__ = [
    "DjangoCheckpointer",
    "HostNode",
    "LangGraphStore",
    "build_graph_action",
    "register_langgraph",
]

#: The modules of the names that need Django.
_LAZY = {
    "DjangoCheckpointer": "checkpointer",
    "LangGraphStore": "store",
    "register_langgraph": "registration",
}

register_stored_types()


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = found
    return found
