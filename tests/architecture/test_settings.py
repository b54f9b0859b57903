"""Declarations of settings in the package that reads them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields

from hitl_django.conf import Settings

from .source import modules, nodes

CONTRIB = "hitl_django/contrib/"
DECLARATIONS = "hitl_django/conf/defaults.py"


def find_readers(names: Iterable[str], trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Return the packages that read each setting. The core has the name ""."""
    readers: dict[str, set[str]] = {name: set() for name in names}
    for path, tree in trees.items():
        package = path.removeprefix(CONTRIB).split("/")[0] if path.startswith(CONTRIB) else ""
        for name in list_used_names(tree) if path != DECLARATIONS else ():
            if name in readers:
                readers[name].add(package)
    return readers


def list_used_names(tree: ast.Module) -> Iterator[str]:
    for node in nodes(tree):
        match node:
            case ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                yield name


def test_core_settings_are_read_by_the_core_or_by_several_packages() -> None:
    read = find_readers([key.name for key in fields(Settings)], modules())
    assert {name: found for name, found in read.items() if "" not in found and len(found) < 2} == {}


def test_setting_reader_check_reports_setting_read_by_a_single_optional_package() -> None:
    trees = {
        "hitl_django/conf/defaults.py": ast.parse("STARS: int = 5; 'STARS'"),
        "hitl_django/contrib/ratings/panels.py": ast.parse("hitl.STARS"),
        "hitl_django/contrib/ratings/__init__.py": ast.parse("getattr(hitl, 'STARS')"),
    }
    assert find_readers(["STARS"], trees) == {"STARS": {"ratings"}}
    trees["hitl_django/api/paging.py"] = ast.parse("hitl.STARS")
    assert find_readers(["STARS"], trees) == {"STARS": {"ratings", ""}}
