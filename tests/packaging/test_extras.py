"""The package with each single extra, and without extras."""

from __future__ import annotations

import json
import sys
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import pytest

from hitl_django import contrib

from .conftest import run
from .limited_imports import EXTRAS

PROGRAM = Path(__file__).parent / "limited_imports.py"
#: Modules that need an extra, by extra. ``*`` means most modules of a package.
OWN_MODULES = {
    "docs": ("docs.extension.directives",),
    "google-adk": ("hitl_django.contrib.google_adk",),
    "langgraph": ("hitl_django.contrib.langchain", "hitl_django.contrib.langgraph.*"),
    "openai-agents": ("hitl_django.contrib.openai_agents",),
    "openapi": ("hitl_django.api.openapi",),
    "opentelemetry": ("hitl_django.contrib.opentelemetry",),
    "mcp": ("hitl_django.contrib.mcp.server",),
    "pydantic-ai": ("hitl_django.contrib.pydantic_ai",),
    "prometheus": ("hitl_django.contrib.prometheus",),
    "sentry": ("hitl_django.contrib.sentry",),
    "tasks": ("hitl_django.contrib.django_tasks",),
    "test": ("hitl_django.contrib.pytest_plugin",),
    # Task queues have an extra of the same name.
    **{
        path.parent.name: (f"hitl_django.contrib.{path.parent.name}",)
        for path in Path(contrib.__path__[0]).glob("*/dispatcher.py")
        if path.parent.name in EXTRAS
    },
}
#: Extras whose requirements include those of another extra.
INCLUDED = {
    "google-adk": {"opentelemetry"},
    "mcp": {"opentelemetry"},
    "openai-agents": {"mcp", "opentelemetry"},
    "pydantic-ai": {"opentelemetry"},
}
#: Extras for development. The whole test suite runs with these.
OF_DEVELOPERS = {"bench", "dev", "docs", "lint", "release", "test"}


@pytest.mark.any_database
@pytest.mark.process
@pytest.mark.parametrize("extra", ["", *sorted({*EXTRAS} - OF_DEVELOPERS)])
def test_package_with_one_extra_has_all_modules_importable_except_those_of_other_extras(
    extra: str, tmp_path: Path
) -> None:
    errors = json.loads(run(sys.executable, PROGRAM, extra, cwd=tmp_path))
    available = {extra, *INCLUDED.get(extra, ())}
    expected = {
        module
        for other, modules in OWN_MODULES.items()
        if other not in available
        for module in modules
    }
    found = {module: next(filter(partial(fnmatch, module), expected), module) for module in errors}
    assert set(found.values()) == expected, {k: errors[k] for k, v in found.items() if k == v}
    missing = ("ModuleNotFoundError: No module", "MissingExtraError: ")
    assert all(error.startswith(missing) for error in errors.values())
