"""Table of the promises and their tests, from the marks of the tests."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from . import markdown

ROOT = Path(__file__).resolve().parents[2]
#: Page that lists the promises.
PAGE = ROOT / "docs" / "explanation" / "promises.md"


def made() -> dict[str, str]:
    """Return the name of each promise, by number."""
    return dict(re.findall(r"\*\*(P\d+) (.+?)[.,]?\*\*", PAGE.read_text()))


def tests() -> dict[str, list[str]]:
    """Return the test modules of each promise."""
    found = defaultdict(set)
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "promise"
            ):
                for argument in node.args:
                    found[ast.literal_eval(argument)].add(str(path.relative_to(ROOT)))
    return {number: sorted(paths) for number, paths in found.items()}


def page() -> str:
    """Return the table of promises and their tests."""
    modules = tests()
    return markdown.table(
        ["number", "guarantee", "tests"],
        ([number, name, markdown.listed(modules[number])] for number, name in made().items()),
    )
