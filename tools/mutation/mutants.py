"""Mutants: the source code of a module with one change."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

#: Maximum length of quoted source code in a mutant's label.
QUOTED = 100


@dataclass(frozen=True)
class Edit:
    """A range of bytes in a source file, and its replacement."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Mutant:
    """One change of a module."""

    module: str
    line: int
    text: str  # The original line without its indentation.
    label: str  # The operator, the original and the replacement.
    edits: tuple[Edit, ...]
    reached_by: Reach

    @property
    def key(self) -> tuple[str, str, str]:
        """Key in the list of accepted survivors, which doesn't depend on the line number."""
        return self.module, self.text, self.label


@dataclass(frozen=True)
class Reach:
    """Conditions on the tests for a mutant.

    A test must run one of the lines or, if no test does, read one of the names.
    """

    lines: range
    names: frozenset[str] = frozenset()


class Module:
    """The source code and the syntax tree of a module, with the parent of each node."""

    def __init__(self, path: str, source: str) -> None:
        self.path, self.source = path, source
        self.tree = ast.parse(source)
        self.parents = {
            child: parent
            for parent in ast.walk(self.tree)
            for child in ast.iter_child_nodes(parent)
        }

    @cached_property
    def lines(self) -> list[str]:
        return self.source.splitlines()

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self.source.encode().splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return the start and the end of a node in bytes.

        Decorators are included.
        """
        start, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
        if decorators := getattr(node, "decorator_list", None):
            start, column = decorators[0].lineno, decorators[0].col_offset - 1
        end = self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return self._starts[start - 1] + column, end

    def segment(self, node: ast.AST) -> str:
        """Return the source code of a node."""
        start, end = self.span(node)
        return self.source.encode()[start:end].decode()

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the ancestors of a node, starting with its parent."""
        while node := self.parents.get(node):  # type: ignore[assignment]
            yield node

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the innermost statement that contains the node or is the node itself."""
        if isinstance(node, ast.stmt):
            return node
        return next(each for each in self.ancestors(node) if isinstance(each, ast.stmt))

    def mutant(self, node: ast.AST, label: str, *edits: tuple[ast.AST, str]) -> Mutant:
        """Return the mutant in which other texts replace these nodes."""
        line: int = node.lineno  # type: ignore[attr-defined]
        return Mutant(
            self.path,
            line,
            self.lines[line - 1].strip(),
            label,
            tuple(Edit(*self.span(each), text) for each, text in edits),
            self.reach(node),
        )

    def reach(self, node: ast.AST) -> Reach:
        """Return the conditions on the tests for a node."""
        statement = self.statement(node)
        around = [statement, *self.ancestors(statement)]
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        inner = next((each for each in around if isinstance(each, functions)), None)
        if inner is not None:
            called = self._readers({inner.name})  # These lines run when the module is imported.
            if inner is not statement:
                return Reach(_header(statement), called)
            # The node is in the header of a function or in a decorator.
            return Reach(range(inner.body[0].lineno, (inner.end_lineno or 0) + 1), called)
        owner = next((each for each in around if isinstance(each, ast.ClassDef)), None)
        if owner is not None:
            return Reach(range(owner.lineno, (owner.end_lineno or 0) + 1), frozenset({owner.name}))
        return Reach(range(0), self._readers(_names(statement, ast.Store)))

    def _readers(self, more: set[str]) -> frozenset[str]:
        """Return the given names, and all module-level names that are derived from them."""
        found: set[str] = set()
        while more - found:
            found |= more
            for other in self.tree.body:
                if isinstance(other, ast.Assign | ast.AnnAssign) and found & _names(
                    other, ast.Load
                ):
                    more |= _names(other, ast.Store)
        return frozenset(found)

    def apply(self, mutant: Mutant) -> str:
        """Return the source code of the module with the mutation."""
        source = self.source.encode()
        for edit in sorted(mutant.edits, key=lambda each: -each.start):
            source = source[: edit.start] + edit.text.encode() + source[edit.end :]
        return source.decode()


def quoted(text: str) -> str:
    """Return source code as one line, shortened for a label."""
    text = " ".join(text.split())
    return text if len(text) <= QUOTED else text[: QUOTED - 1] + "…"


def _names(statement: ast.stmt, context: type[ast.expr_context]) -> set[str]:
    return {
        each.id
        for each in ast.walk(statement)
        if isinstance(each, ast.Name) and isinstance(each.ctx, context)
    }


def _header(statement: ast.stmt) -> range:
    """Return the lines of a statement, without the lines of nested statements."""
    last = statement.end_lineno or statement.lineno
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body:
        last = max(statement.lineno, body[0].lineno - 1)
    return range(statement.lineno, last + 1)
