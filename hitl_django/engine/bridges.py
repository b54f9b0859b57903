"""Bridges to LangChain and LangGraph, which the engine itself doesn't import.

A bridge is a module that knows the classes of another package. An installed distribution registers
it in the entry point group ``hitl_django.bridges``, under the name of that package.
"""

from __future__ import annotations

import sys
import warnings
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import Any

GROUP = "hitl_django.bridges"


@cache
def find_bridge(package: str) -> Any:
    """Import and return the bridge to a package; None if the package is not installed.

    A package without a bridge is treated as if it were not installed, with a warning.

    Raises:
        ImportError: if several distributions name a bridge to the package.
    """
    if find_spec(package) is None:
        return None
    from importlib.metadata import entry_points  # slow to import, and rarely needed

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
    """Return the bridge to LangChain's classes; None if there is none."""
    return find_bridge("langchain_core")


def find_langgraph() -> Any:
    """Return the bridge to LangGraph's graphs; None if there is none."""
    return find_bridge("langgraph")


def is_of_langchain(value: Any) -> bool:
    """Return whether a value's class comes from langchain-core or derives from such a class."""
    return any(base.__module__.startswith("langchain_core") for base in type(value).__mro__)


def find_ambient_variable() -> ContextVar[Any] | None:
    """Return the variable that contains langchain's current config; None if it isn't loaded."""
    module = sys.modules.get("langchain_core.runnables.config")
    return getattr(module, "var_child_runnable_config", None)  # it may be half loaded


def is_traced() -> bool:
    """Return whether langchain's tracing is enabled here.

    The environment variables of LangSmith can enable tracing without any config.
    """
    module = sys.modules.get("langchain_core.tracers.context")
    asks = getattr(module, "_tracing_v2_is_enabled", None)  # langchain's own check before a run
    return asks is not None and bool(asks())
