"""Modules that have moved and names that have changed: the old ones warn, for one more release."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def moved(old: str, new: str) -> Callable[[str], Any]:
    """Returns a module's ``__getattr__`` that warns and looks each name up in another module."""

    def look_up(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        value = getattr(import_module(new), name)
        warnings.warn(f"{old}.{name} is now {new}.{name}", DeprecationWarning, stacklevel=2)
        return value

    return look_up


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns a module's ``__getattr__`` that warns and looks an old name up under its new one."""

    def look_up(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(import_module(module), names[name])
        message = f"{module}.{name} is now {module}.{names[name]}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return value

    return look_up
