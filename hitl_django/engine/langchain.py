"""LangChain, where it is installed: the engine knows none of its classes, and asks a bridge."""

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
