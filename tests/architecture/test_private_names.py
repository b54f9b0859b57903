"""Use of private names in tests, which is limited to the tests of the same package.

The tests of ``hitl_django/X`` are in ``tests/X``. A name that tests of another package need must be
public.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from .source import ROOT, modules, nodes

TESTS = ROOT / "tests"

#: Private names of Django and Python that some classes of the package also define.
FOREIGN = {
    "_asdict", "_default_manager", "_exit", "_meta", "_raw_delete", "_registry", "_replace",
    "_state",
}  # fmt: skip
#: Receivers through which a class uses its own or inherited names.
OWN = {"self", "cls", "super()"}


def test_tests_use_private_names_of_the_tested_package_only() -> None:
    owners = find_packages_of_private_names(modules())
    found = [
        f"{path}:{line} {name} of {', '.join(sorted(packages))}"
        for path, tree in modules(TESTS).items()
        for line, name, packages in find_used_names(tree, owners)
        if Path(path).parts[1] not in packages
    ]
    assert found == []


def test_private_name_check_reports_private_names_of_other_packages() -> None:
    package = {
        "hitl_django/answers/limits.py": ast.parse("def _read(): ...\n_most: int = 3"),
        "hitl_django/policy.py": ast.parse("class A:\n def f(self): self._read, self._seen = 1, 2"),
    }
    owners = find_packages_of_private_names(package)
    assert owners == {"_read": {"answers", "policy"}, "_most": {"answers"}, "_seen": {"policy"}}

    lines = [
        "from hitl_django.answers.limits import _most",
        "from hitl_django.answers import limits",
        "limits._read()",
        "anything()._seen",
        "monkeypatch.setattr(limits, '_read', None)",
        "monkeypatch.setattr('hitl_django.policy.A._read', None)",
        "row._meta, self._seen, ours._own, {'_seen': 1}",
    ]
    assert list(find_used_names(ast.parse("\n".join(lines)), owners)) == [
        (1, "_most", {"answers"}),
        (3, "_read", {"answers"}),
        (4, "_seen", {"policy"}),
        (5, "_read", {"answers"}),
        (6, "_read", {"policy"}),
    ]
    assert not list(find_used_names(ast.parse("def _seen(): ...\nhere._seen"), owners))


def find_packages_of_private_names(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    owners: dict[str, set[str]] = {}
    for path, tree in trees.items():
        for name in find_defined_names(tree):
            owners.setdefault(name, set()).add(get_package(path.removesuffix(".py").split("/")))
    return owners


def find_defined_names(tree: ast.Module) -> Iterator[str]:
    """Yield the private names of a module's functions, classes, variables and attributes."""
    for node in nodes(tree):
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


def find_used_names(
    tree: ast.Module, owners: Mapping[str, set[str]]
) -> Iterator[tuple[int, str, set[str]]]:
    """Yield the line, the name and the possible packages of each private name that a test uses."""
    own = set(find_defined_names(tree))
    imported = find_packages_of_imports(tree)
    for node in sorted(nodes(tree), key=lambda node: getattr(node, "lineno", 0)):
        for receiver, name in find_receivers(node):
            if receiver in OWN or name in FOREIGN:
                continue
            if receiver.startswith("hitl_django"):
                yield node.lineno, name, {get_package(receiver.split("."))}
            elif receiver in imported:
                yield node.lineno, name, {imported[receiver]}
            elif name in owners and name not in own:
                yield node.lineno, name, owners[name]


def find_packages_of_imports(tree: ast.Module) -> dict[str, str]:
    """Return the package of each name that a module imports from hitl_django."""
    return {
        alias.asname or alias.name: get_package([*node.module.split("."), alias.name])
        for node in nodes(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        if node.module.split(".")[0] == "hitl_django"
        for alias in node.names
    }


def find_receivers(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the private names that a node uses, each with the expression before the dot."""
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


def get_package(path: list[str]) -> str:
    return path[1] if len(path) > 1 else path[0]
