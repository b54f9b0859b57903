"""The package's own source, for tests that read it."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "hitl_django"


@cache
def modules(folder: Path = PACKAGE) -> dict[str, ast.Module]:
    # Garbage collections visit the nodes of all modules again and again, which takes longer than
    # parsing the modules.
    gc.disable()
    trees = {
        str(path.relative_to(ROOT)): ast.parse(path.read_text())
        for path in sorted(folder.rglob("*.py"))
    }
    gc.freeze()
    gc.enable()
    return trees


@cache
def nodes(tree: ast.Module) -> list[ast.AST]:
    return list(ast.walk(tree))


def imported(tree: ast.Module) -> Iterator[str]:
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def strings(tree: ast.Module) -> Iterator[str]:
    bare = {id(node.value) for node in nodes(tree) if isinstance(node, ast.Expr)}
    for node in nodes(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.value


def names(tree: ast.Module) -> Iterator[str]:
    for node in nodes(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.name.rpartition(".")[2]


def methods(tree: ast.Module) -> Iterator[str]:
    for node in nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr


def attributes(tree: ast.Module) -> Iterator[str]:
    return (node.attr for node in nodes(tree) if isinstance(node, ast.Attribute))
