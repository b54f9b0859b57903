"""Import of the whole package with only the distributions of one extra.

    python limited_imports.py [EXTRA]

Prints the errors as JSON, by module or public name. Without EXTRA, only the package's own
requirements are available.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME, EXTRAS = PROJECT["name"], PROJECT["optional-dependencies"]


def list_requirements(name: str, extra: str) -> Sequence[str]:
    """Return the requirements of a distribution for an extra.

    The package's own requirements are read from its source.
    """
    if name == NAME:
        return [*PROJECT["dependencies"], *EXTRAS.get(extra, ())]
    try:
        return requires(name) or []
    except PackageNotFoundError:  # The requirement is for another platform.
        return []


def list_distributions(extra: str) -> set[str]:
    """Return the names of the distributions that ``pip install hitl-django[EXTRA]`` installs."""
    found: set[tuple[str, str]] = set()
    pending = [(NAME, extra)]
    while pending:
        name, extra = pending.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        for requirement in map(Requirement, list_requirements(name, extra)):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                required = canonicalize_name(requirement.name)
                pending += [(required, each) for each in ("", *requirement.extras)]
    return {name for name, _ in found}


def list_hidden_modules(extra: str) -> set[str]:
    """Return the top-level modules of all other installed distributions."""
    installed = list_distributions(extra)
    return {
        module
        for module, distributions in packages_distributions().items()
        if installed.isdisjoint(map(canonicalize_name, distributions))
    }


def hide(modules: set[str]) -> None:
    """Make imports of these modules fail from now on."""

    class LimitedFinder(PathFinder):
        @classmethod
        def find_spec(
            cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
        ) -> ModuleSpec | None:
            if name.partition(".")[0] in modules:
                return None
            return PathFinder.find_spec(name, path, target)

    # Omit the finders of editable installations.
    sys.meta_path[:] = [
        LimitedFinder if finder is PathFinder else finder
        for finder in sys.meta_path
        if finder is PathFinder or finder.__module__.startswith("_frozen")
    ]
    for loaded in [name for name in sys.modules if name.partition(".")[0] in modules]:
        del sys.modules[loaded]


def import_everything() -> dict[str, str]:
    """Import all public names and modules, and return the errors."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "docs.settings"
    import_module("django").setup()
    package = import_module("hitl_django")
    # Generated documentation imports the documented modules.
    names = [f"hitl_django.{name}" for name in package.LAZY_MODULES] + ["docs.extension.directives"]
    modules = walk_packages(package.__path__, "hitl_django.", onerror=lambda name: None)
    errors: dict[str, str] = {}
    for name in [*names, *(module.name for module in modules)]:
        home, _, attribute = name.rpartition(".")
        try:
            if home != "hitl_django" or attribute not in package.LAZY_MODULES:
                import_module(name)
            else:
                getattr(package, attribute)
        except Exception as error:
            errors[name] = f"{type(error).__name__}: {error}"
    return errors


if __name__ == "__main__":
    sys.path[0] = str(ROOT)
    hide(list_hidden_modules("".join(sys.argv[1:])))
    print(json.dumps(import_everything()))
