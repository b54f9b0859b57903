"""What an app imports, and the names that programs written for LangGraph import, are here."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

import pytest

import hitl_django
from hitl_django import langgraph as ported

MODULES = [found.name for found in walk_packages(ported.__path__, f"{ported.__name__}.")]


def test_an_app_needs_some_twenty_names() -> None:
    assert len(hitl_django.__all__) <= 22
    for name in hitl_django.__all__:
        assert name in hitl_django.HOMES


def test_every_public_name_leads_somewhere() -> None:
    for name in hitl_django.HOMES:
        getattr(hitl_django, name)


@pytest.mark.parametrize("path", MODULES)
def test_a_name_of_a_module_is_that_of_the_root(path: str) -> None:
    ours = import_module(path)
    for name in getattr(ours, "__all__", ()):
        # What was importable from the root before is the same object there.
        assert getattr(hitl_django, name, getattr(ours, name)) is getattr(ours, name)
