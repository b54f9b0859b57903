"""Use of private names in tests, which is limited to the tests of the same package.

The tests of ``hitl_django/X`` are in ``tests/X``. A name that tests of another package need must be
public.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from .source import ROOT, modules

TESTS = ROOT / "tests"

#: Django's and Python's own, of which some classes of the package have one too.
FOREIGN = {
    "_asdict", "_default_manager", "_exit", "_meta", "_raw_delete", "_registry", "_replace",
    "_state",
}  # fmt: skip
#: Who uses its own names, or what it inherits.
OWN = {"self", "cls", "super()"}


def test_tests_use_private_names_of_their_own_package_only() -> None:
    homes = rooms_of_private_names(modules())
    found = [
        f"{path}:{line} {name} of {', '.join(sorted(rooms))}"
        for path, tree in modules(TESTS).items()
        for line, name, rooms in reached(tree, homes)
        if Path(path).parts[1] not in rooms
    ]
    assert found == []


def test_private_name_check_reports_private_names_of_other_packages() -> None:
    package = {
        "hitl_django/answers/limits.py": ast.parse("def _read(): ...\n_most: int = 3"),
        "hitl_django/policy.py": ast.parse("class A:\n def f(self): self._read, self._seen = 1, 2"),
    }
    homes = rooms_of_private_names(package)
    assert homes == {"_read": {"answers", "policy"}, "_most": {"answers"}, "_seen": {"policy"}}

    lines = [
        "from hitl_django.answers.limits import _most",
        "from hitl_django.answers import limits",
        "limits._read()",
        "anything()._seen",
        "monkeypatch.setattr(limits, '_read', None)",
        "monkeypatch.setattr('hitl_django.policy.A._read', None)",
        "row._meta, self._seen, ours._own, {'_seen': 1}",
    ]
    assert list(reached(ast.parse("\n".join(lines)), homes)) == [
        (1, "_most", {"answers"}),
        (3, "_read", {"answers"}),
        (4, "_seen", {"policy"}),
        (5, "_read", {"answers"}),
        (6, "_read", {"policy"}),
    ]
    assert not list(reached(ast.parse("def _seen(): ...\nhere._seen"), homes))


def rooms_of_private_names(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    homes: dict[str, set[str]] = {}
    for path, tree in trees.items():
        for name in defined(tree):
            homes.setdefault(name, set()).add(room(path.removesuffix(".py").split("/")))
    return homes


def defined(tree: ast.Module) -> Iterator[str]:
    """Give the private names of a module's functions, classes, variables and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                names = [name]
            case ast.Name(name, ast.Store()):
                names = [name]
            case ast.Attribute(ast.Name("self" | "cls"), name, ast.Store()):
                names = [name]
            case ast.Assign([ast.Name("__slots__")], value):
                names = [one.value for one in ast.walk(value) if isinstance(one, ast.Constant)]
            case _:
                continue
        yield from filter(is_private, names)


def reached(tree: ast.Module, homes: Mapping[str, set[str]]) -> Iterator[tuple[int, str, set[str]]]:
    """Give each private name of the package that a test uses: line, name, and possible rooms."""
    own = set(defined(tree))
    imported = rooms_of_imports(tree)
    for node in sorted(ast.walk(tree), key=lambda node: getattr(node, "lineno", 0)):
        for receiver, name in uses(node):
            if receiver in OWN or name in FOREIGN:
                continue
            if receiver.startswith("hitl_django"):
                yield node.lineno, name, {room(receiver.split("."))}
            elif receiver in imported:
                yield node.lineno, name, {imported[receiver]}
            elif name in homes and name not in own:
                yield node.lineno, name, homes[name]


def rooms_of_imports(tree: ast.Module) -> dict[str, str]:
    """Return from which room each name is that a module imports from the package."""
    return {
        alias.asname or alias.name: room([*node.module.split("."), alias.name])
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        if node.module.split(".")[0] == "hitl_django"
        for alias in node.names
    }


def uses(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Give the private names that a node reaches for, each with what it is looked up in."""
    match node:
        case ast.Attribute(value, name) if is_private(name):
            receiver = ast.unparse(value)
        case ast.Call(function, [value, ast.Constant(str(name)), *_]) if is_private(
            name
        ) and is_patch(function):
            receiver = ast.unparse(value)
        case ast.Constant(str(path)) if path.startswith("hitl_django."):
            receiver, _, name = path.rpartition(".")
        case ast.ImportFrom(module=str(receiver)) if receiver.startswith("hitl_django"):
            yield from ((receiver, alias.name) for alias in node.names if is_private(alias.name))
            return
        case _:
            return
    if is_private(name):
        yield receiver, name


def is_patch(function: ast.expr) -> bool:
    return ast.unparse(function).rpartition(".")[2] in {"getattr", "setattr", "delattr", "object"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def room(path: list[str]) -> str:
    return path[1] if len(path) > 1 else path[0]
