"""The former location of the names in ``types``. Each import emits a deprecation warning."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    types = import_module("hitl_django.langgraph.types")
    value = getattr(types, name)
    message = f"{__name__}.{name} is now {types.__name__}.{name}"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return value
