"""Measures the review queue with 1,000 questions and with 1,000,000, of which a tenth waits.

    python -m tests.benchmarks.queue [--sizes 1000 1000000] [--rounds N] [--json FILE] [--keep]

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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from . import stores

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 3600
TARGET = 1.5
SIZES = (1_000, 1_000_000)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    found = measured(options)
    print(table(found))
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.queue", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), metavar="N")
    parser.add_argument("--rounds", type=int, default=3, help="times that the sizes take turns (3)")
    parser.add_argument("--repeat", type=int, default=15, help="times of each in a round (15)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure these rows alone")
    parser.add_argument("--json", metavar="FILE", help="write the measurements here as well")
    parser.add_argument("--keep", action="store_true", help="leave the databases")
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


def measured(options: argparse.Namespace) -> dict[int, dict[str, Any]]:
    """Fills a database of each size, and measures them in turn, so that what else the machine does
    meets both.
    """
    with ExitStack() as stack:
        urls = {size: stack.enter_context(_database(size, options.keep)) for size in options.sizes}
        for size, url in urls.items():
            _run(url, "--fill", str(size))
        found: dict[int, list[dict[str, Any]]] = {size: [] for size in urls}
        for _ in range(options.rounds):
            for size, url in urls.items():
                told = ["--repeat", str(options.repeat), *(options.only or ())]
                found[size].append(json.loads(_run(url, "--measure", *told).splitlines()[-1]))
    return {size: {name: _middle(rows, name) for name in rows[0]} for size, rows in found.items()}


def _middle(rounds: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    return sorted((found[name] for found in rounds), key=itemgetter("ms"))[len(rounds) // 2]


def _run(url: str, *told: str) -> str:
    """Runs a process of its own, which begins with nothing cached."""
    return subprocess.run(
        [sys.executable, "-m", f"{__package__}.queue_child", *told],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT,
        check=True,
    ).stdout


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


if __name__ == "__main__":
    sys.exit(main())
