"""LangChain and LangGraph, where they are installed: the engine knows none of their classes."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any


@cache
def find_langchain() -> Any:
    """Returns the bridge to LangChain's classes, or None where langchain-core isn't installed."""
    if find_spec("langchain_core") is None:
        return None
    return import_module("hitl_django.contrib.langchain")


def is_of_langchain(value: Any) -> bool:
    """Return whether a value's class is one of langchain-core's, or is derived from one."""
    return any(base.__module__.startswith("langchain_core") for base in type(value).__mro__)


def find_ambient_variable() -> ContextVar[Any] | None:
    """Return the variable in which langchain looks for a config; None where it isn't loaded."""
    module = sys.modules.get("langchain_core.runnables.config")
    return getattr(module, "var_child_runnable_config", None)  # it may be half loaded


def is_traced() -> bool:
    """Returns whether langchain traces what is called here, as an environment variable has it do.

    So LangSmith is switched on: no config has to name it.
    """
    module = sys.modules.get("langchain_core.tracers.context")
    asks = getattr(module, "_tracing_v2_is_enabled", None)  # langchain's own look, before each run
    return asks is not None and bool(asks())


@cache
def find_langgraph() -> Any:
    """Returns the bridge to LangGraph's graphs, or None where LangGraph isn't installed."""
    if find_spec("langgraph") is None:
        return None
    return import_module("hitl_django.contrib.langgraph")
