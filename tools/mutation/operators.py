"""Mutation operators, which simulate plausible mistakes in a line of code.

Each operator yields the mutants of a node in a module.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from .mutants import Module, Mutant, quoted

Operator = Callable[[Module, Any], Iterator[Mutant]]

#: Names of calls whose arguments select rows.
SELECTING = {"filter", "exclude", "get", "Q", "get_or_create", "update_or_create", "When"}
#: Methods of queries that change the meaning of the query.
QUALIFYING = {"select_for_update", "order_by", "distinct", "reverse"}
#: Keywords that affect only displayed text, or whose effect only tests with several databases can
#: show.
IMMATERIAL = {"using", "output_field", "stacklevel", "verbose_name", "help_text", "exc_info"}
#: Parts of the names of calls whose order matters.
DECIDING = (
    "refuse", "raise_if", "check", "guard", "lock", "execute", "commit", "release", "clear",
    "close",
)  # fmt: skip
#: Decorators without which a module can't be used.
STRUCTURAL = {
    "property", "cached_property", "staticmethod", "classmethod", "contextmanager", "overload",
    "dataclass", "asynccontextmanager", "wraps", "abstractmethod", "runtime_checkable",
    "retry_on_conflict",  # tests/architecture checks this decorator by name.
}  # fmt: skip

#: Comparison operators with their replacements.
_SIGNS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
_ORDERING = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
#: A context manager without an effect.
NOTHING = '__import__("contextlib").nullcontext()'
_TESTING = (ast.If, ast.While, ast.IfExp, ast.Assert)


def mutants(module: Module) -> list[Mutant]:
    """Return all mutants of a module, ordered by line."""
    found: dict[Any, Mutant] = {}
    for node in ast.walk(module.tree):
        if _is_left_out(module, node):
            continue
        for kind, operator in OPERATORS:
            if isinstance(node, kind):
                for mutant in operator(module, node):
                    found.setdefault(mutant.edits, mutant)
    return sorted(found.values(), key=lambda each: (each.line, each.edits[0].start, each.label))


def _is_left_out(module: Module, node: ast.AST) -> bool:
    """Return whether a node only serves readers, type checkers or logs."""
    if not hasattr(node, "lineno") and not isinstance(node, ast.comprehension):
        return True
    below: ast.AST = node
    for above in (node, *module.ancestors(node)):
        if isinstance(above, ast.Raise | ast.JoinedStr) and above is not node:
            return True
        if isinstance(above, ast.Expr) and ast.unparse(above).startswith(("logger.", '"""')):
            return True
        if isinstance(above, ast.If) and "TYPE_CHECKING" in ast.unparse(above.test):
            return True
        if isinstance(above, ast.Assign) and ast.unparse(above.targets[0]) == "__all__":
            return True
        if below is getattr(above, "annotation", None) or below is getattr(above, "returns", None):
            return True
        below = above
    return False


def conditions(module: Module, node: Any) -> Iterator[Mutant]:
    """Replace a condition by True and by False."""
    tests = node.ifs if isinstance(node, ast.comprehension) else [node.test]
    for test in tests:
        for value in ("True", "False"):
            if not isinstance(test, ast.Constant):
                label = f"condition: {quoted(module.segment(test))} → {value}"
                yield module.mutant(test, label, (test, value))


def operands(module: Module, node: ast.BoolOp) -> Iterator[Mutant]:
    """Omit one operand of an ``and`` or ``or``."""
    for at, value in enumerate(node.values):
        rest = [each for other, each in enumerate(node.values) if other != at]
        kept = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        label = f"operand: without {quoted(module.segment(value))}"
        yield module.mutant(value, label, (node, f"({ast.unparse(kept)})"))


def comparisons(module: Module, node: ast.Compare) -> Iterator[Mutant]:
    """Change a limit by one, or invert a comparison."""
    parent = module.parents[node]
    is_test = isinstance(parent, _TESTING) and parent.test is node
    for at, op in enumerate(node.ops):
        if is_test and not isinstance(op, _ORDERING):
            continue  # This equals the replacement of the condition by True or False.
        turned = _SIGNS[type(op)][1]
        parts = [ast.unparse(node.left)]
        for other, (each, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            parts += [_SIGNS[type(each)][other == at], f"({ast.unparse(right)})"]
        label = f"comparison: {quoted(module.segment(node))} → {turned}"
        yield module.mutant(node, label, (node, f"({' '.join(parts)})"))


def arguments(module: Module, node: ast.Call) -> Iterator[Mutant]:
    """Omit a predicate of a query, or a keyword argument of another call."""
    name = _name(node.func)
    selects = name in SELECTING
    if selects and name != "get":  # A ``get`` with positional arguments is a method of dicts.
        for at, argument in enumerate(node.args):
            call = _copy(node)
            del call.args[at]
            yield _without(module, argument, node, call, "predicate")
    for at, keyword in enumerate(node.keywords):
        if keyword.arg not in IMMATERIAL and name not in {"field", "dataclass"}:
            call = _copy(node)
            del call.keywords[at]
            operator = "predicate" if selects else "keyword"
            yield _without(module, keyword, node, call, operator)


def methods(module: Module, node: ast.Call) -> Iterator[Mutant]:
    """Omit a lock, an order or another method of a query.

    A function that would run on commit is run immediately.
    """
    name = _name(node.func)
    # Calls without arguments remove the order only for speed, so no test can detect their omission.
    qualifies = name in QUALIFYING and (name != "order_by" or node.args)
    if isinstance(node.func, ast.Attribute) and qualifies:
        label = f"method: without {name}({quoted(', '.join(map(ast.unparse, node.args)))})"
        yield module.mutant(node, label, (node, ast.unparse(node.func.value)))
    if name == "on_commit" and node.args:
        called = f"({ast.unparse(node.args[0])})()"
        yield module.mutant(node, "commit: at once, not behind it", (node, called))


def alternatives(module: Module, node: ast.BinOp) -> Iterator[Mutant]:
    """Omit one operand of ``&`` or ``|`` between conditions of a query."""
    if not isinstance(node.op, ast.BitAnd | ast.BitOr):
        return
    if not any(isinstance(each, ast.Call) for each in ast.walk(node)):
        return
    for kept, lost in ((node.left, node.right), (node.right, node.left)):
        label = f"predicate: without {quoted(module.segment(lost))}"
        yield module.mutant(lost, label, (node, f"({ast.unparse(kept)})"))


def entries(module: Module, node: ast.Dict) -> Iterator[Mutant]:
    """Omit an entry of a dict, for example a column that an UPDATE sets."""
    for at, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
        rest = _copy(node)
        del rest.keys[at], rest.values[at]
        name = "**" + ast.unparse(value) if key is None else ast.unparse(key)
        shown = value if key is None else key
        yield module.mutant(shown, f"entry: without {quoted(name)}", (node, ast.unparse(rest)))


def members(module: Module, node: Any) -> Iterator[Mutant]:
    """Omit an element of a list of alternatives."""
    parent = module.parents[node]
    compares = isinstance(parent, ast.Compare) and parent.left is not node
    selects = isinstance(parent, ast.keyword) and str(parent.arg).endswith("__in")
    constant = isinstance(parent, ast.Assign | ast.AnnAssign) and not isinstance(node, ast.List)
    catches = isinstance(parent, ast.ExceptHandler)
    if not (compares or selects or constant or catches) or not isinstance(
        getattr(node, "ctx", ast.Load()), ast.Load
    ):
        return
    for at, member in enumerate(node.elts):
        rest = _copy(node)
        del rest.elts[at]
        text = ast.unparse(rest) if rest.elts or isinstance(node, ast.Tuple) else "()"
        label = f"member: without {quoted(module.segment(member))}"
        yield module.mutant(member, label, (node, text))


def statements(module: Module, node: ast.stmt) -> Iterator[Mutant]:
    """Omit a statement that has an effect."""
    if isinstance(node, ast.Expr):
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        wanted = isinstance(value, ast.Call)
    elif isinstance(node, ast.Assign):
        wanted = any(isinstance(each, ast.Attribute | ast.Subscript) for each in node.targets)
    elif isinstance(node, ast.Return):
        wanted = _is_early(module, node)
    elif isinstance(node, ast.Raise):
        wanted = not _is_guarded(module, node)
    else:
        wanted = isinstance(node, ast.AugAssign | ast.Delete | ast.Continue | ast.Break)
    if wanted:
        label = f"statement: without {quoted(module.segment(node))}"
        yield module.mutant(node, label, (node, "pass"))


def _is_early(module: Module, node: ast.Return) -> bool:
    """Return whether a return statement ends a function early.

    Its omission must change more than a condition.
    """
    parent = module.parents[node]
    return not isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_guarded(
        module, node
    )


def _is_guarded(module: Module, node: ast.stmt) -> bool:
    """Return whether a statement is the only statement in its condition."""
    parent = module.parents[node]
    return isinstance(parent, ast.If) and parent.body == [node] and not parent.orelse


def swaps(module: Module, node: ast.AST) -> Iterator[Mutant]:
    """Swap two consecutive statements that don't use each other's names."""
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if not isinstance(body, list) or isinstance(node, ast.Module | ast.ClassDef):
            continue
        for first, second in pairwise(body):
            decides = _decides(first) or _decides(second)
            if decides and _acts(first) and _acts(second) and _are_apart(first, second):
                texts = module.segment(first), module.segment(second)
                label = f"order: {quoted(texts[1])} before {quoted(texts[0])}"
                yield module.mutant(first, label, (first, texts[1]), (second, texts[0]))


def _acts(node: ast.stmt) -> bool:
    """Return whether a statement may have an effect on the next statement."""
    if isinstance(node, ast.Expr | ast.If | ast.With | ast.For | ast.Try | ast.Assign):
        return any(isinstance(each, ast.Call | ast.Raise) for each in ast.walk(node))
    return isinstance(node, ast.AugAssign)


def _decides(node: ast.stmt) -> bool:
    """Return whether the position of a statement matters, because it refuses, locks or commits."""
    if isinstance(node, ast.If):
        return any(isinstance(each, ast.Raise) for each in node.body)
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    return any(word in _name(node.value.func) for word in DECIDING)


def _are_apart(first: ast.stmt, second: ast.stmt) -> bool:
    stored, loaded = zip(_used(first), _used(second), strict=True)
    if stored[0] & (stored[1] | loaded[1]) or stored[1] & loaded[0]:
        return False
    both = [isinstance(each, ast.Assign) for each in (first, second)]
    leaves = any(isinstance(each, ast.Return) for each in (*ast.walk(first), *ast.walk(second)))
    return not all(both) and not leaves


def _used(node: ast.AST) -> tuple[set[str], set[str]]:
    """Return the names that a statement assigns, and the names that it reads."""
    stored: set[str] = set()
    loaded: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            (loaded if isinstance(each.ctx, ast.Load) else stored).add(each.id)
    return stored, loaded


def contexts(module: Module, node: Any) -> Iterator[Mutant]:
    """Omit a transaction, a lock or another context manager."""
    for item in node.items:
        if isinstance(item.context_expr, ast.Call) and item.optional_vars is None:
            label = f"context: without {quoted(module.segment(item.context_expr))}"
            yield module.mutant(item.context_expr, label, (item.context_expr, NOTHING))


def decorators(module: Module, node: Any) -> Iterator[Mutant]:
    """Omit a decorator."""
    for decorator in node.decorator_list:
        name = _name(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if name not in STRUCTURAL:
            label = f"decorator: without @{quoted(module.segment(decorator))}"
            nothing = "(lambda decorated: decorated)"
            yield module.mutant(decorator, label, (decorator, nothing))


def handlers(module: Module, node: ast.ExceptHandler) -> Iterator[Mutant]:
    """Omit the handling of an exception."""
    if node.type is not None and not isinstance(node.type, ast.Tuple):
        label = f"handler: without {quoted(module.segment(node.type))}"
        yield module.mutant(node, label, (node.type, "()"))


def constants(module: Module, node: ast.Constant) -> Iterator[Mutant]:
    """Change a number by one, and invert a boolean that is returned or assigned."""
    parent = module.parents[node]
    if any(_name(each) in STRUCTURAL for each in _called(module, node)):
        return
    if type(node.value) is bool and isinstance(parent, ast.Return | ast.Assign | ast.keyword):
        label = f"constant: {node.value} → {not node.value}"
        yield module.mutant(node, label, (node, str(not node.value)))
    if type(node.value) is int and not isinstance(parent, ast.Subscript | ast.FormattedValue):
        label = f"constant: {node.value} → {node.value + 1}"
        yield module.mutant(node, label, (node, str(node.value + 1)))


def _called(module: Module, node: ast.AST) -> Iterator[ast.AST]:
    """Yield the functions that are called with this node as an argument."""
    return (each.func for each in module.ancestors(node) if isinstance(each, ast.Call))


def _without(module: Module, part: ast.AST, whole: ast.AST, rest: ast.AST, operator: str) -> Mutant:
    label = f"{operator}: without {quoted(module.segment(part))}"
    return module.mutant(part, label, (whole, ast.unparse(rest)))


def _copy(node: Any) -> Any:
    return copy.deepcopy(node)


def _name(node: ast.AST) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


OPERATORS: tuple[tuple[Any, Operator], ...] = (
    ((ast.If, ast.While, ast.IfExp, ast.comprehension), conditions),
    (ast.BoolOp, operands),
    (ast.Compare, comparisons),
    (ast.Call, arguments),
    (ast.Call, methods),
    (ast.BinOp, alternatives),
    (ast.Dict, entries),
    ((ast.Tuple, ast.List, ast.Set), members),
    (ast.stmt, statements),
    ((ast.stmt, ast.ExceptHandler), swaps),
    ((ast.With, ast.AsyncWith), contexts),
    ((ast.FunctionDef, ast.AsyncFunctionDef), decorators),
    (ast.ExceptHandler, handlers),
    (ast.Constant, constants),
)
