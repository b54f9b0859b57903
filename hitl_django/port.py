"""Show or write the import changes that move a LangGraph program to hitl_django.

``python -m hitl_django.port PATH`` prints the changed imports, and ``--write`` writes them. The
command also reports calls that behave differently in hitl_django, and names that hitl_django
doesn't have. Each report contains the file and the line. Imports of missing names are not changed.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

_FOREIGN = "langgraph"
_OURS = f"hitl_django.{_FOREIGN}"
#: Directories that contain third-party code.
_SKIPPED = {"node_modules", "site-packages", "__pycache__"}

#: Methods that discard pending interrupts in LangGraph.
_UPDATES = {"update_state", "aupdate_state", "bulk_update_state", "abulk_update_state"}

#: The reason why a module has no counterpart, by the beginning of the module's name.
_ORM = "runs are stored with the ORM: use hitl_django.checkpoints.DjangoSaver"
_STORE = "items are stored by the ORM: hitl_django.contrib.store.DjangoStore"
_REASONS = {
    "langgraph.checkpoint.postgres": _ORM,
    "langgraph.checkpoint.sqlite": _ORM,
    "langgraph.store.postgres": _STORE,
    "langgraph.store.sqlite": _STORE,
}


@dataclass(frozen=True, slots=True)
class PortFinding:
    """A line of the program that the user must check, with a message."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class _Edit:
    line: int
    column: int
    length: int


def port_source(source: str) -> tuple[str, list[PortFinding]]:
    """Return a module's source with changed imports, and the lines to check.

    Raises:
        SyntaxError: the source is not valid Python.
    """
    tree = ast.parse(source)
    lines = _split(source)
    remarks: list[PortFinding] = []
    asks = _asks(tree)
    edits: list[_Edit] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and _is_foreign(node.module or ""):
            remarks += (missing := list(_find_missing(node)))
            if not missing:
                edits.append(_locate(lines, node.lineno, node.col_offset))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _is_foreign(alias.name):
                    remarks += (missing := list(_find_unnamed(node, alias)))
                    if not missing:
                        edits.append(_locate(lines, alias.lineno, alias.col_offset))
        elif isinstance(node, ast.Try):
            remarks += _find_caught_pauses(node)
        elif isinstance(node, ast.Call):
            remarks += _find_changed_call(node, asks)
    for edit in sorted(edits, key=lambda one: (one.line, one.column), reverse=True):
        line = lines[edit.line].encode()
        ported = line[: edit.column] + _OURS.encode() + line[edit.column + edit.length :]
        lines[edit.line] = ported.decode()
    return "".join(lines), sorted(remarks, key=lambda one: one.line)


def _split(source: str) -> list[str]:
    """Split source code at the line ends that Python's parser recognizes.

    ``str.splitlines`` also splits at other characters.
    """
    return list(io.StringIO(source, newline=""))


def _is_foreign(module: str) -> bool:
    return module == _FOREIGN or module.startswith(f"{_FOREIGN}.")


def _locate(lines: Sequence[str], line: int, column: int) -> _Edit:
    """Return the position of the first name ``langgraph`` at or after a position in an import.

    ``column`` is a byte offset, as in Python's syntax tree.
    """
    text = lines[line - 1].encode()
    found = re.compile(rb"\blanggraph\b").search(text, column)
    if found is None:  # The import continues after a backslash.
        return _locate(lines, line + 1, 0)
    return _Edit(line - 1, found.start(), len(_FOREIGN))


def _find_missing(node: ast.ImportFrom) -> Iterator[PortFinding]:
    module = node.module or ""
    if not _has_module(module):
        yield PortFinding(node.lineno, _describe_missing(module))
        return
    found = import_module(module.replace(_FOREIGN, _OURS, 1))
    for alias in node.names:
        below = f"{module}.{alias.name}"
        if alias.name != "*" and not hasattr(found, alias.name) and not _has_module(below):
            yield PortFinding(alias.lineno, f"{module} has no {alias.name}")


def _find_unnamed(node: ast.Import, alias: ast.alias) -> Iterator[PortFinding]:
    if not _has_module(alias.name):
        yield PortFinding(node.lineno, _describe_missing(alias.name))
    elif alias.asname is None:
        yield PortFinding(
            node.lineno, f"import {alias.name}: rename uses of {alias.name}.… as well"
        )


def _has_module(module: str) -> bool:
    try:
        return find_spec(module.replace(_FOREIGN, _OURS, 1)) is not None
    except ModuleNotFoundError:
        return False


def _describe_missing(module: str) -> str:
    reason = next((text for name, text in _REASONS.items() if module.startswith(name)), "")
    return f"{module} has no counterpart here{': ' if reason else ''}{reason}"


def _find_caught_pauses(node: ast.Try) -> Iterator[PortFinding]:
    """Yield a finding for each except clause that catches the pause of an ``interrupt()`` call.

    In LangGraph, the node continues after such a clause. In hitl_django, the node pauses in spite
    of the clause.
    """
    asks = any(map(_asks, node.body))
    for handler in node.handlers if asks else ():
        named = ast.unparse(handler.type) if handler.type else "BaseException"
        if "GraphInterrupt" in named or "BaseException" in named:
            yield PortFinding(
                handler.lineno,
                "an except clause around interrupt() catches pauses in LangGraph; here "
                "the node pauses anyway",
            )


def _asks(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call) and getattr(node.func, "id", None) == "interrupt"
        for node in ast.walk(tree)
    )


def _find_changed_call(node: ast.Call, asks: bool) -> Iterator[PortFinding]:
    """Yield a finding if a call behaves differently than the same call in LangGraph.

    The findings are about Command without a resume value, NodeInterrupt, and updates of the state
    while an ``interrupt()`` is pending. Updates are reported only if the module calls
    ``interrupt()`` (``asks``).
    """
    name = ast.unparse(node.func).rpartition(".")[2]
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
    if name == "Command" and given.get("resume") in ("{}", "None"):
        yield PortFinding(
            node.lineno, f"Command(resume={given['resume']}) resumes nothing; here it is an error"
        )
    elif name == "NodeInterrupt":
        yield PortFinding(node.lineno, "the id of a NodeInterrupt differs; call interrupt()")
    elif asks and name in _UPDATES:
        yield PortFinding(
            node.lineno,
            f"{name}() fails here while an interrupt is pending, unless the config has "
            "discard_pending",
        )


def list_files(path: Path) -> Iterator[Path]:
    """Yield the Python files in a directory, without third-party code.

    If the path is a file, yield this file.
    """
    if path.is_file():
        yield path
        return
    for found in sorted(path.rglob("*.py")):
        parts = found.relative_to(path).parts
        if not any(part.startswith(".") or part in _SKIPPED for part in parts):
            yield found


def _port_file(path: Path) -> tuple[str, str, list[PortFinding]]:
    source = ""
    try:
        source = path.read_bytes().decode("utf-8-sig")
        return source, *port_source(source)
    except UnicodeDecodeError:
        return "", "", [PortFinding(1, "is not UTF-8; skipped")]
    except SyntaxError as error:
        return source, source, [PortFinding(error.lineno or 1, f"is not valid Python: {error.msg}")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Return the exit code: 1 if the user must check lines of the program, otherwise 0.
    """
    parser = argparse.ArgumentParser(prog="python -m hitl_django.port", description=__doc__)
    parser.add_argument("path", type=Path, help="file or directory")
    parser.add_argument("--write", action="store_true", help="write the changes")
    options = parser.parse_args(arguments)
    if not options.path.exists():
        parser.error(f"{options.path} does not exist")
    remarks = 0
    for path in list_files(options.path):
        source, ported, found = _port_file(path)
        remarks += len(found)
        for remark in found:
            print(f"{path}:{remark.line}: {remark.text}", file=sys.stderr)
        if ported == source:
            continue
        if options.write:
            path.write_bytes(ported.encode())
            print(f"{path}: changed")
        else:
            names = (str(path), str(path))
            sys.stdout.writelines(unified_diff(_split(source), _split(ported), *names, n=0))
    return 1 if remarks else 0


if __name__ == "__main__":
    sys.exit(main())
