"""Exported names of the package compared with the guides."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

import hitl_django
from tests.docs.pages import GUIDES


def test_package_root_exports_exactly_the_names_imported_by_guides() -> None:
    assert sorted(hitl_django.__all__) == sorted({*list_imported_names()})
    for name in hitl_django.__all__:
        getattr(hitl_django, name)


def test_package_root_without_the_requested_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Send'"):
        hitl_django.Send  # noqa: B018


def list_imported_names() -> Iterator[str]:
    for page in GUIDES:
        for snippet in page.snippets:
            if snippet.language == "python":
                yield from filter(is_name, list_names(ast.parse(snippet.code)))


def list_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="hitl_django", names=names):
                yield from (alias.name for alias in names)
            case ast.Attribute(value=ast.Name(id="hitl_django"), attr=name):
                yield name


def is_name(name: str) -> bool:
    return find_spec(f"hitl_django.{name}") is None
