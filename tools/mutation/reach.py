"""The lines that each test reaches.

The lines are recorded once, and again after a test file changes.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import operator
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from .children import Database, run_pytest
from .mutants import Reach

#: Marker expression that excludes slow tests and tests with special requirements. Each promise also
#: has a fast test.
LEFT_OUT = "not (crash or cluster or browser or race or long)"
#: Folders whose tests don't test single lines of the package.
FOLDERS_LEFT_OUT = (
    "architecture", "benchmarks", "browser", "cluster", "compat", "histories", "packaging",
    "project", "races", "soak", "tools",
)  # fmt: skip


def test_files(root: Path, wanted: Sequence[str]) -> list[str]:
    """Return the test files whose reached lines should be recorded."""
    found: set[Path] = set()
    for path in (root / name for name in wanted):
        found.update([path] if path.is_file() else path.rglob("test_*.py"))
    paths = sorted(path.relative_to(root) for path in found)
    return [str(path) for path in paths if path.parts[1] not in FOLDERS_LEFT_OUT]


class Recorder:
    """Recorder of the package's lines that each passing test runs, and of the test's duration."""

    def __init__(self, package: Path) -> None:
        import coverage

        self.root = package.parent
        self.coverage = coverage.Coverage(
            data_file=None, source=[str(package)], config_file=False, messages=False
        )
        self.seconds: dict[str, float] = {}

    def pytest_sessionstart(self) -> None:
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        begun = time.perf_counter()
        result = yield
        self.seconds.setdefault(item.nodeid, time.perf_counter() - begun)
        self.coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.seconds[report.nodeid] = -1  # The test fails or is skipped without a mutation.

    def found(self) -> dict[str, Any]:
        """Return the tests with their durations, and the lines with a bit mask of tests."""
        self.coverage.stop()
        seconds = {test: took for test, took in self.seconds.items() if took >= 0}
        bits = {test: 1 << at for at, test in enumerate(seconds)}
        data = self.coverage.get_data()
        lines: dict[str, dict[int, int]] = {}
        for file in data.measured_files():
            found = {
                line: sum(bits.get(test, 0) for test in tests)
                for line, tests in data.contexts_by_lineno(file).items()
            }
            path = str(Path(file).relative_to(self.root))
            lines[path] = {line: tests for line, tests in found.items() if tests}
        return {"seconds": seconds, "lines": {path: each for path, each in lines.items() if each}}


def record(report: Path, target: Path, file: str, database: Database, job: str) -> int:
    """Run one test file, and store the lines that it reaches.

    A child runs this function.
    """
    root = Path.cwd()
    recorder = Recorder(root / "hitl_django")
    run_pytest(report, database, job, ["-m", LEFT_OUT, file], [recorder])
    found = recorder.found()
    found["sources"] = {path: digest(root / path) for path in found["lines"]}
    for path, name in found["sources"].items():
        shutil.copy(root / path, target.parent / "sources" / name)
    target.write_text(json.dumps({"digest": digest(root / file), **found}))
    return 0


def digest(*paths: Path) -> str:
    """Return a digest of these files."""
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


class Map:
    """All recordings, one per test file."""

    def __init__(self, folder: Path, root: Path, wanted: Sequence[str]) -> None:
        self.folder, self.root = folder, root
        self.files = test_files(root, wanted)
        self.sources = folder / "sources"
        self.sources.mkdir(parents=True, exist_ok=True)
        self.seconds: dict[str, float] = {}
        self._lines: dict[str, dict[int, int]] = {}

    def target(self, file: str) -> Path:
        return self.folder / (file.replace("/", "-") + ".json")

    def missing(self, *, record_all: bool) -> list[str]:
        """Return the test files that must be recorded."""
        return [file for file in self.files if record_all or not self._is_known(file)]

    def _is_known(self, file: str) -> bool:
        target = self.target(file)
        if not target.exists():
            return False
        with target.open() as stream:
            return digest(self.root / file) in stream.read(64)

    def read(self) -> None:
        """Read the recordings of the existing test files.

        Each test is one bit of a mask.
        """
        lines: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for file in self.files:
            if not self.target(file).exists():
                continue
            found = json.loads(self.target(file).read_text())
            for path, reached in found["lines"].items():
                origins = self._origins(path, found["sources"][path])
                for line, origin in enumerate(origins, 1):
                    bits = reached.get(str(origin), 0)
                    if bits:
                        lines[path][line] |= bits << len(self.seconds)
            self.seconds |= found["seconds"]
        self._lines = lines

    @cache  # noqa: B019  (there is one map)
    def _origins(self, path: str, recorded: str) -> list[int]:
        return origins((self.sources / recorded).read_text(), self._source(path))

    @cache  # noqa: B019
    def _source(self, path: str) -> str:
        file = self.root / path
        return file.read_text() if file.exists() else ""

    def tests(self, module: str, reach: Reach) -> set[str]:
        """Return the tests that reach a mutant."""
        bits = self._at(module, reach.lines)
        if not bits and reach.names:
            pattern = re.compile(rf"\b({'|'.join(map(re.escape, sorted(reach.names)))})\b")
            for path in self._lines:
                lines = self._source(path).splitlines()
                reading = [at for at, line in enumerate(lines, 1) if pattern.search(line)]
                bits |= self._at(path, reading)
            # A test may read these names without running any line of the package.
            direct = {file for file in self.files if pattern.search(self._source(file))}
            for at, test in enumerate(self.seconds):
                bits |= (test.partition("::")[0] in direct) << at
        if not bits and not reach.lines:  # This code runs when the module is imported.
            bits = self._at(module, self._lines.get(module, ()))
        return {test for at, test in enumerate(self.seconds) if bits >> at & 1}

    def _at(self, module: str, lines: Iterable[int]) -> int:
        known = self._lines.get(module, {})
        return functools.reduce(operator.or_, (known.get(line, 0) for line in lines), 0)


def origins(before: str, after: str) -> list[int]:
    """Return the line number at the time of the recording for each line.

    For a new line, it is the number of the line before.
    """
    old, new = before.splitlines(), after.splitlines()
    found = [0] * len(new)
    for tag, was, _, first, last in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        for at in range(first, last):
            found[at] = was + at - first + 1 if tag == "equal" else max(was, 1)
    return found


def in_order(tests: Iterable[str], seconds: dict[str, float], first: Sequence[str]) -> list[str]:
    """Return the tests ordered by the expected time until a failure.

    Tests that recently killed a mutant of the module come first. Next are the test files with the
    largest share of tests that reach the mutated line. The tests of a file are ordered by duration.
    """
    wanted = set(tests)
    share: dict[str, float] = {}
    sizes: dict[str, int] = defaultdict(int)
    for test in seconds:
        sizes[test.partition("::")[0]] += 1
    for test in wanted:
        file = test.partition("::")[0]
        share[file] = share.get(file, 0) + 1 / sizes[file]
    recent = {test: at for at, test in enumerate(first)}

    def rank(test: str) -> tuple[float, ...]:
        return recent.get(test, len(recent)), -share[test.partition("::")[0]], seconds[test]

    return sorted(wanted, key=rank)
