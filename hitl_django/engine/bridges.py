"""Bridges to LangChain and LangGraph, which the engine itself doesn't import.

A bridge is a module that imports such a package and adapts the package's classes to the engine. A
distribution registers its bridge as an entry point of the group ``hitl_django.bridges``. The name
of the entry point is the name of the package.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import Any

GROUP = "hitl_django.bridges"


@cache
def find_bridge(package: str) -> Any:
    """Import and return the bridge to a package, i.e. the module that uses the package's classes.

    Return None if the package isn't installed. Also return None, and emit a RuntimeWarning, if the
    package is installed but has no bridge.

    Raises:
        ImportError: several distributions register a bridge to the package.
    """
    if find_spec(package) is None:
        return None
    from importlib.metadata import entry_points  # This import is slow and rarely needed.

    found = list(entry_points(group=GROUP, name=package))
    if len(found) > 1:
        modules = ", ".join(sorted(each.module for each in found))
        raise ImportError(f"Several bridges to {package} are installed, keep one of {modules}.")
    if not found:
        warnings.warn(
            f"{package} is installed, but no distribution has an entry point for it in {GROUP}, so "
            "it isn't used. Install hitl-django again with pip.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return found[0].load()


def find_langchain() -> Any:
    """Return the bridge to LangChain's classes, or None if LangChain or its bridge is missing."""
    return find_bridge("langchain_core")


def find_langgraph() -> Any:
    """Return the bridge to LangGraph's classes, or None if LangGraph or its bridge is missing."""
    return find_bridge("langgraph")


def is_langgraph_config(configurable: Mapping[str, Any]) -> bool:
    """Return whether ``configurable`` is from a config that LangGraph has passed to a node."""
    return "__pregel_scratchpad" in configurable


def is_of_langchain(value: Any) -> bool:
    """Return whether the value's class or one of its base classes is defined in langchain-core."""
    return any(base.__module__.startswith("langchain_core") for base in type(value).__mro__)


def find_ambient_variable() -> ContextVar[Any] | None:
    """Return LangChain's context variable for its current config, or None without LangChain."""
    module = sys.modules.get("langchain_core.runnables.config")
    # The module may be partially imported.
    return getattr(module, "var_child_runnable_config", None)


def is_traced() -> bool:
    """Return whether LangChain's tracing is enabled in the current context.

    LangSmith's environment variables can also enable tracing.
    """
    module = sys.modules.get("langchain_core.tracers.context")
    # Langchain makes the same check before a run.
    asks = getattr(module, "_tracing_v2_is_enabled", None)
    return asks is not None and bool(asks())
