"""The example app uses names of the reference only, and each extension point is used or saved."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from docs.extension import names
from hitl_django.extensions import Extension

APP = Path(__file__).parent / "ratings"
TREES = {
    path.name: ast.parse(path.read_text())
    for path in APP.rglob("*.py")
    if not path.name.startswith("test_")
}
#: Extension points that the app has no use for.
UNUSED = {"overdue", "retention"}


def find_other_names(tree: ast.AST) -> Iterator[str]:
    """Yield the names of hitl_django in a module that aren't in the reference."""
    public = {*names.list_public()}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=aliases, level=0) if is_own(module):
                found = [f"{module}.{alias.name}" for alias in aliases]
            case ast.Import(names=aliases):
                found = [alias.name for alias in aliases if is_own(alias.name)]
            case ast.Constant(value=str(text)) if text.startswith("hitl_django."):
                found = [text]
            case _:
                continue
        yield from (name for name in found if name not in public)


def is_own(module: str) -> bool:
    return module.partition(".")[0] == "hitl_django"


@pytest.mark.slow
def test_example_app_uses_names_of_the_reference_only() -> None:
    assert {
        path: [*found] for path, tree in TREES.items() if (found := [*find_other_names(tree)])
    } == {}


def test_example_app_check_reports_name_missing_in_the_reference() -> None:
    lines = [
        "from hitl_django.extensions import register, find_table",
        "from hitl_django.models import Interrupt",
        "from hitl_django import audit, interrupt",
        "import hitl_django.worker",
        "from .models import Rating",
    ]
    assert [*find_other_names(ast.parse("\n".join(lines)))] == [
        "hitl_django.extensions.find_table",
        "hitl_django.audit",
        "hitl_django.worker",
    ]


def test_example_app_uses_each_extension_point() -> None:
    [call] = [
        node
        for node in ast.walk(TREES["apps.py"])
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Extension"
    ]
    used = {keyword.arg for keyword in call.keywords}
    assert {field.name for field in fields(Extension)} - used == UNUSED
