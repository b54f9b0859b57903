"""Optional packages in a project that hasn't installed their extra."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import Any

import pytest
from django.core.management import BaseCommand, CommandError

import hitl_django.contrib.langgraph
from hitl_django.contrib.langgraph import import_langgraph
from hitl_django.contrib.mcp import serve
from hitl_django.engine.extras import MissingExtraError, require_extra

pytestmark = pytest.mark.any_database

PACKAGES = [
    ("celery", "celery", "celery"),
    ("google_adk", "google.adk", "google-adk"),
    ("openai_agents", "agents", "openai-agents"),
    ("opentelemetry", "opentelemetry", "opentelemetry"),
    ("procrastinate", "procrastinate", "procrastinate"),
    ("prometheus", "prometheus_client", "prometheus"),
    ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
    ("sentry", "sentry_sdk", "sentry"),
]


def hide(monkeypatch: pytest.MonkeyPatch, package: str, importer: str) -> None:
    """Make imports of a package fail, and remove its importers from the loaded modules."""
    for name in list(sys.modules):
        if f"{name}.".startswith((f"{package}.", f"{importer}.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize(("module", "package", "extra"), PACKAGES)
def test_import_of_optional_package_without_its_extra_names_the_extra(
    module: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"hitl_django.contrib.{module}"
    hide(monkeypatch, package, name)
    command = re.escape(f"is not installed: pip install 'hitl-django[{extra}]'")
    with pytest.raises(MissingExtraError, match=rf"{package}\S* {command}"):
        import_module(name)


def test_name_of_langgraph_package_without_langgraph_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hide(monkeypatch, "langgraph", "hitl_django.contrib.langgraph.registration")
    monkeypatch.delitem(vars(hitl_django.contrib.langgraph), "register_langgraph", raising=False)
    with pytest.raises(MissingExtraError, match=r"hitl-django\[langgraph\]"):
        _ = hitl_django.contrib.langgraph.register_langgraph


@pytest.mark.parametrize(
    ("command", "package", "options"),
    [(serve, "mcp", {"tools": "ask", "by": "x"}), (import_langgraph, "langgraph", {"graph": None})],
)
def test_command_without_the_extra_of_its_app_fails_naming_the_extra(
    command: Any, package: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, package, f"hitl_django.contrib.{package}")
    with pytest.raises(CommandError, match=rf"pip install 'hitl-django\[{package}\]'"):
        command.perform(BaseCommand(), options)


def test_missing_module_of_this_package_is_not_reported_as_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module") as caught, require_extra("draw"):
        import_module("hitl_django.absent")
    assert not isinstance(caught.value, MissingExtraError)
