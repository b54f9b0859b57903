"""Concurrent trials of mutants, with saved outcomes."""

from __future__ import annotations

import hashlib
import json
import multiprocessing.connection
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .children import Child, Database, run_pytest
from .mutants import Module, Mutant
from .reach import Map, in_order
from .trees import Tree

PASSED, NO_TESTS = 0, 5
#: Number of tests in the first attempt, which usually include a test that kills the mutant.
FIRST = 25
#: Maximum duration of a mutant's tests: a multiple of the usual duration, and a minimum in seconds.
SLOWER, LEAST = 10, 60.0
#: Default number of seconds for the tests of one mutant.
BUDGET = 60.0
#: Number of tests to try first, among those that most recently killed a mutant.
RECENT = 12


@dataclass(frozen=True)
class Outcome:
    """The outcome of a mutant: the test that killed it, or None."""

    mutant: Mutant
    by: str | None  # A test, "time" or "import".
    tests: int

    @property
    def survived(self) -> bool:
        return self.by is None


class Ledger:
    """The recorded outcomes, one per line.

    Mutants with a recorded outcome are not tried again. The outcome of a killed mutant is valid
    until its module changes. A survivor is tried again after any change of a test.
    """

    def __init__(self, path: Path, tests: str) -> None:
        self.path, self.tests = path, tests
        self._known: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                row = json.loads(line)
                self._known[row["key"]] = row

    def find(self, source: str, mutant: Mutant) -> Outcome | None:
        row = self._known.get(_key(source, mutant))
        if row is None or (row["by"] is None and row["tests"] != self.tests):
            return None
        return Outcome(mutant, row["by"], row["count"])

    def keep(self, source: str, outcome: Outcome) -> None:
        row = {
            "key": _key(source, outcome.mutant),
            "by": outcome.by,
            "count": outcome.tests,
            "tests": self.tests,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as stream:
            stream.write(json.dumps(row) + "\n")


def _key(source: str, mutant: Mutant) -> str:
    edits = [(edit.start, edit.end, edit.text) for edit in mutant.edits]
    return hashlib.sha256(repr((mutant.module, source, edits)).encode()).hexdigest()[:24]


class Job:
    """A worker that tries mutants one after the other."""

    def __init__(self, name: str, tree: Tree, database: Database) -> None:
        self.name, self.tree, self.database = name, tree, database

    def attempt(
        self, module: Module, mutant: Mutant, tests: list[str], seconds: Callable[[str], float]
    ) -> Work:
        """Run the tests for a mutant.

        Returns the test that killed the mutant, or None.
        """
        if not tests:
            return None
        with self.tree.changed(mutant.module, module.apply(mutant)):
            for some in (tests[:FIRST], tests[FIRST:]):
                if not some:
                    continue
                limit = LEAST + SLOWER * sum(map(seconds, some))
                arguments = (self.database, self.name, ["-x", *some], [])
                with Child(self.tree, run_pytest, *arguments) as child:
                    code = yield from child.wait(time.monotonic() + limit)
                    by = child.reported()
                if code == NO_TESTS:
                    raise RuntimeError(f"There are no such tests: {some}")
                if code != PASSED:
                    return by or ("time" if code is None else "import")
        return None


#: Generator that yields file descriptors and deadlines to wait for, and returns a result.
Work = Generator[tuple[int, float], None, Any]


def each(jobs: list[Job], todo: Iterable[Callable[[Job], Work]]) -> Iterator[Any]:
    """Run work items, one at a time per job, and yield the results when they are complete."""
    beginnings = iter(todo)
    running: dict[Any, tuple[float, Job, Work]] = {}

    def begin(job: Job) -> Iterator[Any]:
        for beginning in beginnings:
            yield from go_on(job, beginning(job))
            if any(job is busy for _, busy, _ in running.values()):
                return

    def go_on(job: Job, work: Work) -> Iterator[Any]:
        try:
            ended, deadline = next(work)
        except StopIteration as returned:
            yield returned.value
        else:
            running[ended] = deadline, job, work

    try:
        for job in jobs:
            yield from begin(job)
        while running:
            soonest = min(deadline for deadline, _, _ in running.values())
            left = max(0, soonest - time.monotonic())
            ended = multiprocessing.connection.wait(list(running), left)
            late = [key for key, (end, _, _) in running.items() if end <= time.monotonic()]
            for key in {*ended, *late}:
                _, job, work = running.pop(key)
                yield from go_on(job, work)
                if not any(job is busy for _, busy, _ in running.values()):
                    yield from begin(job)
    finally:
        for _, _, work in running.values():
            work.close()


def try_all(
    jobs: list[Job],
    known: Map,
    ledger: Ledger,
    mutants: list[tuple[Module, Mutant]],
    budget: float = BUDGET,
) -> Iterator[Outcome]:
    """Yield the outcome of each mutant, beginning with known outcomes."""
    left = []
    for module, mutant in mutants:
        if found := ledger.find(module.source, mutant):
            yield found
        else:
            left.append((module, mutant))
    recent: list[str] = []

    def trial(module: Module, mutant: Mutant) -> Callable[[Job], Work]:
        def work(job: Job) -> Work:
            tests = in_order(known.tests(mutant.module, mutant.reached_by), known.seconds, recent)
            tests = _within(budget, tests, known.seconds)
            by = yield from job.attempt(module, mutant, tests, known.seconds.__getitem__)
            outcome = Outcome(mutant, by, len(tests))
            ledger.keep(module.source, outcome)
            if by in known.seconds:
                recent[:] = [by, *(each for each in recent if each != by)][:RECENT]
            return outcome

        return work

    yield from each(jobs, (trial(module, mutant) for module, mutant in left))


def _within(budget: float, tests: list[str], seconds: dict[str, float]) -> list[str]:
    """Return the first tests that fit within the time limit."""
    found: list[str] = []
    for test in tests:
        budget -= seconds[test]
        if budget < 0 and found:
            break
        found.append(test)
    return found
