"""Tests of row conflicts under PostgreSQL's stricter isolation levels.

    python -m tests.isolation [arguments for pytest]

All processes begin their transactions as REPEATABLE READ, then as SERIALIZABLE. The tests must have
the same results as under READ COMMITTED. By default, these are the tests of the worker, the
services, the races and the chaos.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from urllib.parse import quote

from .__main__ import database, run, total

LEVELS = ("repeatable read", "serializable")
CONTENDING = ("tests/worker", "tests/services", "tests/races", "tests/chaos")


def main(arguments: Sequence[str]) -> int:
    environment = dict(os.environ)
    paths = [argument for argument in arguments if argument.startswith("tests")]
    more = [*arguments] if paths else [*CONTENDING, *arguments]
    codes = []
    with database(environment.get("DATABASE_URL", "")) as url:
        for level in LEVELS:
            environment["DATABASE_URL"] = isolated(url, level)
            codes.append(run(level.upper(), ["--database-only", *more], environment))
    return total(codes)


def isolated(url: str, level: str) -> str:
    # As on libpq's command line, a backslash precedes a space within a value.
    option = "-c default_transaction_isolation=" + level.replace(" ", "\\ ")
    return f"{url}{'&' if '?' in url else '?'}options={quote(option)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
