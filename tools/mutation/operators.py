"""The operators: what can be wrong with a line that looks right.

Each takes a module and a node and gives the mutants that it makes of it.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from .mutants import Module, Mutant, quoted

Operator = Callable[[Module, Any], Iterator[Mutant]]

#: Calls whose arguments select rows.
SELECTING = {"filter", "exclude", "get", "Q", "get_or_create", "update_or_create", "When"}
#: Methods of a query without which it is another query.
QUALIFYING = {"select_for_update", "order_by", "distinct", "reverse"}
#: Keywords that say how a value is read or shown, or that no test with one database can tell.
IMMATERIAL = {"using", "output_field", "stacklevel", "verbose_name", "help_text", "exc_info"}
#: What a call is named that has to come before, or after, what stands beside it.
DECIDING = ("refuse", "check", "guard", "lock", "execute", "commit", "release", "clear", "close")
#: Decorators without which a module doesn't even look the same.
STRUCTURAL = {
    "property", "cached_property", "staticmethod", "classmethod", "contextmanager", "overload",
    "dataclass", "asynccontextmanager", "wraps", "abstractmethod", "runtime_checkable",
    "retry_on_conflict",  # tests/architecture asks for it by name
}  # fmt: skip

#: What a comparison is written as, and what it becomes.
_SIGNS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
_ORDERING = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
#: A context that does nothing.
NOTHING = '__import__("contextlib").nullcontext()'
_TESTING = (ast.If, ast.While, ast.IfExp, ast.Assert)


def mutants(module: Module) -> list[Mutant]:
    """Return all mutants of a module, in the order of its lines."""
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
    """Tell whether a node only says something: to a reader, a type checker or the log."""
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
    """Take a condition for true, and for false."""
    tests = node.ifs if isinstance(node, ast.comprehension) else [node.test]
    for test in tests:
        for value in ("True", "False"):
            if not isinstance(test, ast.Constant):
                label = f"condition: {quoted(module.segment(test))} → {value}"
                yield module.mutant(test, label, (test, value))


def operands(module: Module, node: ast.BoolOp) -> Iterator[Mutant]:
    """Leave out one side of an ``and`` or ``or``."""
    for at, value in enumerate(node.values):
        rest = [each for other, each in enumerate(node.values) if other != at]
        kept = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        label = f"operand: without {quoted(module.segment(value))}"
        yield module.mutant(value, label, (node, f"({ast.unparse(kept)})"))


def comparisons(module: Module, node: ast.Compare) -> Iterator[Mutant]:
    """Move a bound by one, or turns a comparison around."""
    parent = module.parents[node]
    is_test = isinstance(parent, _TESTING) and parent.test is node
    for at, op in enumerate(node.ops):
        if is_test and not isinstance(op, _ORDERING):
            continue  # as good as a condition that is taken for true or false
        turned = _SIGNS[type(op)][1]
        parts = [ast.unparse(node.left)]
        for other, (each, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            parts += [_SIGNS[type(each)][other == at], f"({ast.unparse(right)})"]
        label = f"comparison: {quoted(module.segment(node))} → {turned}"
        yield module.mutant(node, label, (node, f"({' '.join(parts)})"))


def arguments(module: Module, node: ast.Call) -> Iterator[Mutant]:
    """Leave out a predicate of a query, or a keyword of another call."""
    name = _name(node.func)
    selects = name in SELECTING
    if selects and name != "get":  # what has arguments without names is a dict's
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
    """Leave out a lock, an order or the like of a query; calls at once what waits for COMMIT."""
    name = _name(node.func)
    # Without arguments an order is taken away: it costs, and nobody is promised to see none.
    qualifies = name in QUALIFYING and (name != "order_by" or node.args)
    if isinstance(node.func, ast.Attribute) and qualifies:
        label = f"method: without {name}({quoted(', '.join(map(ast.unparse, node.args)))})"
        yield module.mutant(node, label, (node, ast.unparse(node.func.value)))
    if name == "on_commit" and node.args:
        called = f"({ast.unparse(node.args[0])})()"
        yield module.mutant(node, "commit: at once, not behind it", (node, called))


def alternatives(module: Module, node: ast.BinOp) -> Iterator[Mutant]:
    """Leave out one side of an ``&`` or ``|`` between conditions of a query."""
    if not isinstance(node.op, ast.BitAnd | ast.BitOr):
        return
    if not any(isinstance(each, ast.Call) for each in ast.walk(node)):
        return
    for kept, lost in ((node.left, node.right), (node.right, node.left)):
        label = f"predicate: without {quoted(module.segment(lost))}"
        yield module.mutant(lost, label, (node, f"({ast.unparse(kept)})"))


def entries(module: Module, node: ast.Dict) -> Iterator[Mutant]:
    """Leave out an entry of a dict, such as a column that an UPDATE sets."""
    for at, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
        rest = _copy(node)
        del rest.keys[at], rest.values[at]
        name = "**" + ast.unparse(value) if key is None else ast.unparse(key)
        shown = value if key is None else key
        yield module.mutant(shown, f"entry: without {quoted(name)}", (node, ast.unparse(rest)))


def members(module: Module, node: Any) -> Iterator[Mutant]:
    """Leave out a member of a list of alternatives."""
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
    """Leave out a statement that does something."""
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
    """Tell whether a return leaves a function before its end, and more than a guard is lost."""
    parent = module.parents[node]
    return not isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_guarded(
        module, node
    )


def _is_guarded(module: Module, node: ast.stmt) -> bool:
    """Tell whether a statement is all that a condition decides about."""
    parent = module.parents[node]
    return isinstance(parent, ast.If) and parent.body == [node] and not parent.orelse


def swaps(module: Module, node: ast.AST) -> Iterator[Mutant]:
    """Has two neighbours the other way around, where neither needs what the other names."""
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
    """Tell whether a statement can have an effect that its neighbour sees."""
    if isinstance(node, ast.Expr | ast.If | ast.With | ast.For | ast.Try | ast.Assign):
        return any(isinstance(each, ast.Call | ast.Raise) for each in ast.walk(node))
    return isinstance(node, ast.AugAssign)


def _decides(node: ast.stmt) -> bool:
    """Tell whether it matters what comes before a statement: it refuses, locks or commits."""
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
    """Return the names that a statement stores, and those that it reads."""
    stored: set[str] = set()
    loaded: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            (loaded if isinstance(each.ctx, ast.Load) else stored).add(each.id)
    return stored, loaded


def contexts(module: Module, node: Any) -> Iterator[Mutant]:
    """Leave out a transaction, a lock or another context."""
    for item in node.items:
        if isinstance(item.context_expr, ast.Call) and item.optional_vars is None:
            label = f"context: without {quoted(module.segment(item.context_expr))}"
            yield module.mutant(item.context_expr, label, (item.context_expr, NOTHING))


def decorators(module: Module, node: Any) -> Iterator[Mutant]:
    """Leave out a decorator."""
    for decorator in node.decorator_list:
        name = _name(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if name not in STRUCTURAL:
            label = f"decorator: without @{quoted(module.segment(decorator))}"
            nothing = "(lambda decorated: decorated)"
            yield module.mutant(decorator, label, (decorator, nothing))


def handlers(module: Module, node: ast.ExceptHandler) -> Iterator[Mutant]:
    """Let an error pass that is handled."""
    if node.type is not None and not isinstance(node.type, ast.Tuple):
        label = f"handler: without {quoted(module.segment(node.type))}"
        yield module.mutant(node, label, (node.type, "()"))


def constants(module: Module, node: ast.Constant) -> Iterator[Mutant]:
    """Move a number by one, and turns a truth value that is returned or set around."""
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
    """Give the functions that a node is an argument of."""
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
