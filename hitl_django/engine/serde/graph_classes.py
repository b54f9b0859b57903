"""Unregistered classes that can be stored because a graph's code defines or imports them.

All processes that build the graph run the same code and therefore find the same classes. Names in
stored bytes are looked up among loaded modules and never imported.
"""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType
from typing import Any

from .registered_types import REGISTERED, has_recipe, name_class

#: The packages and modules of the nodes and state classes of this process.
PACKAGES: set[str] = set()
MODULES: set[str] = set()

_FOREIGN = frozenset(
    {*sys.stdlib_module_names, "hitl_django", "langchain", "langchain_core", "langgraph"}
) - {"__main__"}


def add_code_of(source: Any) -> None:
    """Allow stored values to contain classes that the code of a graph defines or imports.

    ``source`` is a function or class of the graph. Dataclasses, pydantic models, enums and named
    tuples are allowed if a module of the same top-level package defines them, or if the module of
    ``source`` imports them.
    """
    while isinstance(source, partial):
        source = source.func
    module = getattr(source, "__module__", None)
    if not isinstance(module, str) or module in MODULES:
        return
    package = module.partition(".")[0]
    if package not in _FOREIGN:
        PACKAGES.add(package)
        MODULES.add(module)


def is_graph_class(cls: type) -> bool:
    """Return whether a class can be found by name because a graph's code defines or imports it."""
    return find_graph_class(name_class(cls)) is cls


def find_graph_class(tag: str) -> type | None:
    """Return the class with the dotted name ``tag``, or None.

    Only classes that the code of a graph defines or imports are found.
    """
    if tag.partition(".")[0] in PACKAGES:
        return _look_up(tag)
    return next((cls for cls in _list_named() if name_class(cls) == tag), None)


def find_application_class(module: str, name: str) -> type | None:
    """Return the class with this module and name, or None.

    Only registered classes, and classes that the code of a graph defines or imports, are found.
    Nothing is imported. A class that was moved is found under its registered old name.
    """
    path = f"{module}.{name}"
    if (entry := REGISTERED.by_tag.get(path)) is not None:
        return entry.cls
    known = list(REGISTERED.by_class)  # The copy is needed because other threads may add classes.
    named = (cls for cls in known if (cls.__module__, cls.__name__) == (module, name))
    return next(named, None) or find_graph_class(path)


def _look_up(tag: str) -> type | None:
    path = tag.split(".")
    for end in range(len(path) - 1, 0, -1):
        module: Any = sys.modules.get(".".join(path[:end]))
        if isinstance(module, ModuleType):
            found: Any = module
            for name in path[end:]:
                found = vars(found).get(name) if isinstance(found, ModuleType | type) else None
            if isinstance(found, type) and has_recipe(found) and name_class(found) == tag:
                return found
            # A parametrized generic model ("Page[Order]") has a name that differs from its path.
            return next((cls for cls in _list_classes(module) if name_class(cls) == tag), None)
    return None


def _list_named() -> list[type]:
    # The copy is needed because other threads may import modules or build graphs.
    modules = [sys.modules[name] for name in list(MODULES) if name in sys.modules]
    return [cls for module in modules for cls in _list_classes(module)]


def _list_classes(module: ModuleType) -> list[type]:
    named = list(vars(module).values())
    return [found for found in named if isinstance(found, type) and has_recipe(found)]
