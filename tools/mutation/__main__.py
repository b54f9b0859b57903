"""Program that changes one line of the package at a time and runs the tests that reach the line.

    python -m tools.mutation --changed [BASE]   differences to a commit (HEAD), in minutes
    python -m tools.mutation --module hitl_django/services/reviews/decide.py
    python -m tools.mutation --all              all modules behind the promises: many hours

Surviving mutants are printed, unless ``accepted.toml`` contains a reason. If any are printed, or if
that list has an outdated entry, the exit code is 1. Results are saved, so a stopped command can be
continued by running it again. The working tree doesn't change.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.__main__ import new_server

from . import accepted, operators
from .children import Child, Database, warm_up
from .mutants import Module, Mutant
from .reach import Map, digest, record
from .trees import Tree
from .trials import BUDGET, PASSED, Job, Ledger, Outcome, Work, each, try_all

ROOT = Path(__file__).resolve().parents[2]
ACCEPTED = Path(__file__).parent / "accepted.toml"

#: Maximum number of seconds for recording one test file.
RECORDING = 1800.0

#: The modules that implement the documented promises.
MODULES = (
    "services", "leases", "run_leases", "db", "checkpoints", "worker/runner.py",
    "worker/sweeper.py", "worker/retention.py", "permissions.py", "audit",
    "task_queue/dispatcher.py", "contrib/webhooks", "contrib/links", "api/preconditions.py",
    "engine/loop/loop.py", "engine/loop/step.py", "engine/loop/start.py", "engine/loop/stop.py",
    "engine/loop/commit.py", "engine/loop/plan.py", "engine/loop/apply.py",
    "engine/task/task_status.py",
)  # fmt: skip


def main(given: Sequence[str], root: Path = ROOT, listed: Path = ACCEPTED) -> int:
    options = _arguments().parse_args(given)
    state = root / "var" / "mutation"
    modules = [Module(path, (root / path).read_text()) for path in _chosen(options, root)]
    mutants = [(module, mutant) for module in modules for mutant in operators.mutants(module)]
    if options.changed is not None:
        mutants = _changed(mutants, _lines_changed(root, options.changed))
    mutants = [each for each in mutants if options.only in each[1].label]
    entries = accepted.read(listed)
    wrong = _gone(root, entries)
    if options.list:
        for _, mutant in mutants:
            print(_shown(mutant))
        return 0
    # Handle the signals, so that running processes are also stopped.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(130))
    warm_up()
    with ExitStack() as stack:
        url = stack.enter_context(new_server()).get_uri() if options.postgresql else ""
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hitl-mutation-")))
        database = Database(url, folder)
        jobs = [
            Job(f"job{at}", Tree(root, folder / f"job{at}"), database) for at in range(options.jobs)
        ]
        _prepare(jobs[0], database)
        known = Map(state / database.name, root, options.tests)
        _record_missing(jobs, known, record_all=options.record)
        known.read()
        tests = digest(*(root / file for file in known.files), *Path(__file__).parent.glob("*.py"))
        ledger = Ledger(state / f"{database.name}.jsonl", tests)
        outcomes = []
        for outcome in try_all(jobs, known, ledger, mutants, options.budget):
            outcomes.append(outcome)
            _tell(outcome, entries, len(outcomes), len(mutants))
    return _judge(outcomes, entries, wrong)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--changed", nargs="?", const="HEAD", metavar="BASE")
    what.add_argument("--module", action="append", metavar="PATH")
    what.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of tests per mutant")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="none but these, or below")
    parser.add_argument("--only", default="", help="mutants whose description contains this")
    parser.add_argument("--postgresql", action="store_true", help="on a server of its own")
    parser.add_argument(
        "--record", action="store_true", help="record again which test reaches which line"
    )
    parser.add_argument("--list", action="store_true", help="show the mutants and try none")
    return parser


def _chosen(options: argparse.Namespace, root: Path) -> list[str]:
    """Return the modules that the options select."""
    named = options.module or [f"hitl_django/{module}" for module in MODULES]
    return [str(path) for each in named for path in _python(root, Path(each))]


def _python(root: Path, path: Path) -> Iterator[Path]:
    if path.suffix == ".py":
        yield path
    for found in sorted((root / path).rglob("*.py")):
        yield found.relative_to(root)


def _lines_changed(root: Path, base: str) -> dict[str, set[int]]:
    """Return the lines that differ from a commit, by module."""
    command = ["git", "diff", "--unified=0", "--no-color", "--no-ext-diff", base, "--", "*.py"]
    text = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    found: dict[str, set[int]] = {}
    path = ""
    for line in text.splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ ").removeprefix("b/")
        elif line.startswith("@@ "):
            first, _, count = line.split()[2].removeprefix("+").partition(",")
            lines = range(int(first), int(first) + int(count or 1))
            found.setdefault(path, set()).update(lines)
    return found


def _changed(
    mutants: list[tuple[Module, Mutant]], lines: dict[str, set[int]]
) -> list[tuple[Module, Mutant]]:
    return [
        (module, mutant)
        for module, mutant in mutants
        if lines.get(module.path, set()) & {mutant.line, *mutant.reached_by.lines}
    ]


def _gone(root: Path, entries: list[accepted.Entry]) -> list[accepted.Entry]:
    paths = sorted({entry.module for entry in entries if (root / entry.module).exists()})
    modules = [Module(path, (root / path).read_text()) for path in paths]
    made = [mutant for module in modules for mutant in operators.mutants(module)]
    return accepted.gone(entries, made)


def _prepare(job: Job, database: Database) -> None:
    with Child(job.tree, database.make) as child:
        child.process.join()
        code = child.process.exitcode
    if code != PASSED:
        raise SystemExit(f"The database could not be migrated:\n{child.output}")


def _record_missing(jobs: list[Job], known: Map, *, record_all: bool) -> None:
    """Record which lines each test reaches, unless this is already known."""
    missing = known.missing(record_all=record_all)

    def work(file: str) -> Callable[[Job], Work]:
        def begin(job: Job) -> Work:
            arguments = (known.target(file), file, job.database, job.name)
            with Child(job.tree, record, *arguments) as child:
                yield from child.wait(time.monotonic() + RECORDING)
            return file

        return begin

    for at, file in enumerate(each(jobs, map(work, missing)), 1):
        print(f"recorded {at} of {len(missing)}: {file}", flush=True)


def _tell(outcome: Outcome, entries: list[accepted.Entry], done: int, total: int) -> None:
    listed = {entry.key for entry in entries}
    if outcome.survived and outcome.mutant.key not in listed:
        tests = f"{outcome.tests} tests reach it" if outcome.tests else "no test reaches it"
        print(f"survived ({done} of {total}), {tests}\n  {_shown(outcome.mutant)}", flush=True)


def _shown(mutant: Mutant) -> str:
    return f"{mutant.module}:{mutant.line}: {mutant.text}\n    {mutant.label}"


def _judge(
    outcomes: list[Outcome], entries: list[accepted.Entry], wrong: list[accepted.Entry]
) -> int:
    """Print the results, and return the exit code."""
    survived = {outcome.mutant for outcome in outcomes if outcome.survived}
    killed = {outcome.mutant for outcome in outcomes if not outcome.survived}
    listed = {entry.key for entry in entries}
    left = [mutant for mutant in survived if mutant.key not in listed]
    needless = accepted.noticed(entries, survived, killed)
    for entry in wrong:
        print(f"listed, and no such mutant is made any more:\n  {entry}")
    for entry in needless:
        print(f"listed, and a test notices it:\n  {entry}")
    by_module = Counter(outcome.mutant.module for outcome in outcomes)
    for module, count in sorted(by_module.items()):
        alive = sum(mutant.module == module for mutant in survived)
        unlisted = sum(mutant.module == module for mutant in left)
        print(
            f"{module}: {count} mutants, {count - alive} killed, {alive - unlisted} listed, "
            f"{unlisted} survived"
        )
    print(
        f"{len(outcomes)} mutants, {len(killed)} killed, {len(survived) - len(left)} listed, "
        f"{len(left)} survived"
    )
    return 1 if left or wrong or needless else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
