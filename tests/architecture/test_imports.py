"""Import cycles between modules of the package, including imports for types."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from .source import modules, nodes


def test_package_modules_have_no_import_cycle() -> None:
    trees = {
        module_of(path): (tree, path.endswith("/__init__.py"))
        for path, tree in modules().items()
        if "/migrations/" not in path
    }
    imports = {
        name: set(imported_modules(name, tree, is_package, trees.keys()))
        for name, (tree, is_package) in trees.items()
    }
    assert circles(imports) == set()


def test_import_cycle_check_reports_cycles_and_type_checking_imports() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"d"}, "e": {"a"}}
    assert circles(imports) == {frozenset("bc"), frozenset("d")}
    tree = ast.parse("if TYPE_CHECKING:\n    from .. import two\n    from .three import X")
    found = imported_modules("p.q.one", tree, False, {"p.two", "p.q.three"})
    assert set(found) == {"p.two", "p.q.three"}


def circles(imports: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the groups of modules that import each other directly or indirectly."""
    reached = {name: reach(name, imports) for name in imports}
    return {
        frozenset(other for other in found if name in reached[other])
        for name, found in reached.items()
        if name in found
    }


def reach(start: str, imports: dict[str, set[str]]) -> set[str]:
    """Return the direct and indirect imports of a module."""
    found: set[str] = set()
    left = list(imports[start])
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += imports[name]
    return found


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported_modules(
    name: str, tree: ast.Module, is_package: bool, known: Collection[str]
) -> Iterator[str]:
    """Return the modules of the package that a module imports at any place in its source."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = base_of(name, node, is_package)
            for alias in node.names:
                target = f"{base}.{alias.name}"
                target = target if target in known else base
                if target in known:
                    yield target


def base_of(name: str, node: ast.ImportFrom, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = name.split(".")
    kept = parts[: len(parts) - node.level + is_package]
    return ".".join([*kept, node.module] if node.module else kept)
