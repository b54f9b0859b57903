"""Classes that are stored without being registered: those that a graph's own code defines or names.

Every process that has built the graph has run that code, so each of them knows the same classes,
and none has to import what stored bytes name: a name is looked up among what is loaded already.
"""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType
from typing import Any

from .registered_types import REGISTERED, has_recipe, name_class

#: The packages and modules that nodes and state classes of this process come from.
PACKAGES: set[str] = set()
MODULES: set[str] = set()

_FOREIGN = frozenset(
    {*sys.stdlib_module_names, "hitl_django", "langchain", "langchain_core", "langgraph"}
) - {"__main__"}


def add_code_of(source: Any) -> None:
    """Let the state hold the classes around a function or class that a graph is made of.

    These are the dataclasses, pydantic models, enums and named tuples that its package defines at
    the top level of a module, and those of other packages that its own module names there.
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
    """Return whether a graph's code defines or names the class, so that its name finds it."""
    return find_graph_class(name_class(cls)) is cls


def find_graph_class(tag: str) -> type | None:
    """Return the class that a dotted name stands for in the code of this process's graphs."""
    if tag.partition(".")[0] in PACKAGES:
        return _look_up(tag)
    return next((cls for cls in _list_named() if name_class(cls) == tag), None)


def find_application_class(module: str, name: str) -> type | None:
    """Return the class of a module and a name that is registered, or that graphs define or name.

    Nothing is imported. A class that has moved is found by the old name that it is registered by.
    """
    path = f"{module}.{name}"
    if (entry := REGISTERED.by_tag.get(path)) is not None:
        return entry.cls
    known = list(REGISTERED.by_class)  # copied, for another thread may add to it
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
            # The name of a parametrized generic model ("Page[Order]") isn't its dotted path.
            return next((cls for cls in _list_classes(module) if name_class(cls) == tag), None)
    return None


def _list_named() -> list[type]:
    # Copied, for another thread may import or build a graph meanwhile.
    modules = [sys.modules[name] for name in list(MODULES) if name in sys.modules]
    return [cls for module in modules for cls in _list_classes(module)]


def _list_classes(module: ModuleType) -> list[type]:
    named = list(vars(module).values())
    return [found for found in named if isinstance(found, type) and has_recipe(found)]
