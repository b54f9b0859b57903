"""Measures the review queue with 1,000 questions and with 1,000,000, of which a tenth waits.

    python -m tests.benchmarks.queue [--sizes 1000 1000000] [--repeat N] [--json FILE] [--keep]

On PostgreSQL: a new server from a wheel, or the one that DATABASE_URL names; with --keep the filled
databases stay on that, and are measured again the next time. Whole requests as a
reviewer's browser makes them, without the network; medians. Whatever a page shows, it shows as many
rows of it at each size, so that the ratio is that of finding them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from . import stores

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 3600
TARGET = 1.5
SIZES = (1_000, 1_000_000)

#: Rows of each of these kinds at every size: held by the reviewer, held by somebody else, put off,
#: and with a rare word in the title.
FEW = 20

LIST = "/admin/hitl_django/reviewitem/"
API = "/hitl/interrupts/"
PAGES = {
    "list": LIST,
    "page 2": LIST + "?p=2",
    "mine": LIST + "?show=mine",
    "free": LIST + "?show=free",
    "held by others": LIST + "?show=held",
    "overdue": LIST + "?show=overdue",
    "put off": LIST + "?show=snoozed",
    "graph": LIST + "?graph=typed",
    "group": LIST + "?group={group}",
    "group, none free": LIST + "?group={group}&show=free",
    "search, common word": LIST + "?q=refund",
    "search, rare word": LIST + "?q=zebr",
    "search, no match": LIST + "?q=unicorn",
    "by age": LIST + "?o=3",
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    found = {size: _measured(size, options) for size in options.sizes}
    print(table(found))
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.queue", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), metavar="N")
    parser.add_argument("--repeat", type=int, default=25, help="times of each (25)")
    parser.add_argument("--json", metavar="FILE", help="write the measurements here as well")
    parser.add_argument("--keep", action="store_true", help="leave the databases")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure these rows alone")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def table(found: dict[int, dict[str, Any]]) -> str:
    """Returns the times in milliseconds, how many times as long the largest size takes, and the
    most queries of a row.
    """
    sizes = list(found)
    heads = "".join(f"{size:>12,}" for size in sizes)
    lines = [f"{'':24}{heads}{'ratio':>10}{'queries':>9}"]
    for name in found[sizes[0]]:
        rows = [found[size][name] for size in sizes]
        times = "".join(f"{row['ms']:12.1f}" for row in rows)
        ratio = rows[-1]["ms"] / rows[0]["ms"]
        late = "  over" if ratio > TARGET else ""
        queries = max(row["queries"] for row in rows)
        lines.append(f"{name:24}{times}{ratio:10.2f}{queries:9}{late}")
    return "\n".join(lines)


def _measured(size: int, options: argparse.Namespace) -> dict[str, Any]:
    """Fills a database and measures in a process of its own, which begins with nothing cached."""
    told = ["--child", str(size), "--repeat", str(options.repeat)]
    if options.only:
        told += ["--only", *options.only]
    with _database(size, options.keep) as url:
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name, *told],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "tests.settings"},
            stdout=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT,
            check=True,
        )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def _database(size: int, keep: bool) -> Iterator[str]:
    import psycopg

    with stores.postgres_server() as server:
        name = f"hitl_queue_{size}" if keep else f"hitl_queue_{size}_{os.getpid()}"
        with psycopg.connect(server, autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
            if known.fetchone() is None:
                connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[call-overload]
            try:
                yield urlsplit(server)._replace(path=f"/{name}").geturl()
            finally:
                if not keep:
                    connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')  # type: ignore[call-overload]


def _child(size: int, repeat: int, only: Sequence[str] | None) -> None:
    import django

    django.setup()

    from django.core.management import call_command
    from django.test import Client, override_settings
    from django.test.utils import setup_test_environment

    from . import queue_rows

    call_command("migrate", verbosity=0)
    began = time.perf_counter()
    reviewer, group = queue_rows.found() or queue_rows.fill(size)
    print(f"{size:,} questions stored in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    setup_test_environment()
    client = Client()
    client.force_login(reviewer)
    visits = {
        name: (_get(client, url.format(group=group.pk)), _nothing) for name, url in PAGES.items()
    }
    rows = visits | _calls(reviewer)
    with override_settings(ALLOWED_HOSTS=["*"]):
        found = {name: _timed(*rows[name], repeat) for name in only or rows}
    print(json.dumps(found))


def _get(client: Any, url: str) -> Callable[[], Any]:
    def get() -> None:
        response = client.get(url)
        assert response.status_code == 200, (url, response.status_code)

    return get


def _nothing() -> None:
    return


def _calls(reviewer: Any) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    from hitl_django import services

    taken: list[Any] = []

    def take() -> None:
        taken.append(services.take_next(by=reviewer))

    def give_back() -> None:
        services.release(taken.pop(), by=reviewer)

    return {
        "counts": (lambda: services.queue_counts(reviewer), _nothing),
        "statistics": (lambda: services.review_stats(reviewer), _nothing),
        "take next": (take, give_back),
        "sweep: overdue": (services.mark_overdue, _nothing),
    }


def _timed(act: Callable[[], Any], undo: Callable[[], Any], repeat: int) -> dict[str, Any]:
    """Returns the median time in milliseconds, and the number of queries.

    What happens first of all is not counted.
    """
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    times = []
    for _ in range(repeat + 3):
        began = time.perf_counter()
        act()
        times.append(time.perf_counter() - began)
        undo()
    with CaptureQueriesContext(connection) as queries:
        act()
    undo()
    return {"ms": median(times[3:]) * 1000, "queries": len(queries)}


if __name__ == "__main__":
    chosen = parse(None)
    if chosen.child:
        _child(chosen.child, chosen.repeat, chosen.only)
    else:
        sys.exit(main())
