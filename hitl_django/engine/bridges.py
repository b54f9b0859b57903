"""LangChain and LangGraph, where they are installed: the engine knows none of their classes."""

from __future__ import annotations

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


def find_langgraph() -> Any:
    """Returns the bridge to LangGraph's graphs, for a caller that has one."""
    return import_module("hitl_django.contrib.langgraph")
