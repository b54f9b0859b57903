"""Promises in the documentation, each with a marked test, and vice versa."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache

from .source import ROOT, modules, nodes

#: Numbers of all promises in the documentation.
KNOWN = {f"P{number}" for number in range(1, 23)}


@cache
def marked() -> dict[str, list[str]]:
    """Return the tests that are marked with each promise."""
    found = defaultdict(list)
    for path, tree in modules(ROOT / "tests").items():
        for node in nodes(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr == "promise":
                for argument in node.args:
                    assert isinstance(argument, ast.Constant), f"{path}: a promise is a literal"
                    found[str(argument.value)].append(f"{path}:{node.lineno}")
    return found


def made() -> set[str]:
    page = ROOT / "docs" / "explanation" / "promises.md"
    return set(re.findall(r"\*\*(P\d+)\b", page.read_text()))


def test_every_promise_mark_of_a_test_names_a_documented_promise() -> None:
    assert set(marked()) <= KNOWN


def test_every_documented_promise_has_a_marked_test() -> None:
    promises = made()
    assert promises
    assert promises <= set(marked())
