"""Copies of the repository for mutated modules, so that the working tree doesn't change."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Parts of the repository that tests and their child processes need.
COPIED = (
    "docs", "hitl_django", "project", "templates", "tests", "tools", "manage.py",
    "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE",
)  # fmt: skip


class Tree:
    """A copy of the repository, with a directory for files that its tests write."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.source, self.root, self.scratch = source, folder / "tree", folder / "tmp"
        self.scratch.mkdir(parents=True)
        self.root.mkdir()
        for name in COPIED:
            found = source / name
            if found.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(found, self.root / name, ignore=ignored)
            elif found.exists():
                shutil.copy2(found, self.root / name)

    @contextmanager
    def changed(self, module: str, source: str) -> Iterator[None]:
        """Replace the source code of a module during the block."""
        path = self.root / module
        before = path.read_text()
        self._write(path, source)
        try:
            yield
        finally:
            self._write(path, before)

    def _write(self, path: Path, source: str) -> None:
        path.write_text(source)
        # Python validates bytecode by the modification time in seconds, and a mutant may be newer
        # by less than a second.
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def enter(self) -> None:
        """Make this process and its children import from this tree."""
        root = str(self.root)
        os.chdir(root)
        sys.path[:] = [root, *(each for each in sys.path if each not in ("", str(self.source)))]
        os.environ |= {"PYTHONPATH": root, "TMPDIR": str(self.scratch)}

    def clear(self) -> None:
        """Delete files that killed tests left behind."""
        for path in self.scratch.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
