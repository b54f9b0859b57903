"""Program that compares the cost of one job with other products.

    python -m tools.benchmarks.peers [--only NAME ...] [--database NAME] [--jobs N] [--repeat N]

A job has three steps. Between them, a person decides a request. Each product is installed from PyPI
into an environment in ``var/peers``, and has two processes that execute jobs. Each measurement has
a new database. The measurements of the products alternate, so that other load on the machine
affects all of them. The results are medians. The program prints the table of the documentation.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.redis_server import RedisServer

from .. import children
from ..children import ROOT, database
from ..stores import POSTGRES, SQLITE
from ..worker.costs import BROKER
from .job import PRODUCT, REDIS
from .products import PRODUCTS, Product

ENVIRONMENT = ROOT / "var" / "peers"
PYTHON = ENVIRONMENT / "bin" / "python"
#: The packages of the products, with their tools.
PINNED = (
    "absurd-sdk==0.5.1",
    "absurdctl==0.5.1",
    "celery[redis]==5.7.0",
    "dbos==3.4.0",
    "django-viewflow==2.4.0",
    "langgraph==1.2.24",
    "langgraph-checkpoint-postgres==3.2.0",
    "langgraph-checkpoint-sqlite==3.1.2",
)
#: Maximum number of seconds for one measurement.
TIMEOUT = 900
TITLES = {POSTGRES: "PostgreSQL", SQLITE: "SQLite"}
COLUMNS = (
    "Product",
    "Processor time per job, ms",
    "Commits",
    "Remaining rows",
    "Remaining KB",
    "Decision to next step, ms",
    "Jobs per second",
    "Idle processes",
    "Memory, MB",
)

#: The measurements of each product and database.
Results = dict[tuple[str, str], list[Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    install()
    results: Results = {}
    for _ in range(options.repeat):
        for kind in options.database or TITLES:
            for name in options.only or PRODUCTS:
                if kind in PRODUCTS[name].databases:
                    found = measure(PRODUCTS[name], kind, options.jobs)
                    results.setdefault((kind, name), []).append(found)
                    print(kind, name, json.dumps(found), file=sys.stderr, flush=True)
    print("\n".join(write_tables(results)))
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.peers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", nargs="+", choices=PRODUCTS, metavar="NAME", help="products")
    parser.add_argument("--database", nargs="+", choices=TITLES, metavar="NAME", help="databases")
    parser.add_argument("--jobs", type=int, default=500, help="number of jobs (500)")
    parser.add_argument("--repeat", type=int, default=3, help="measurements of each product (3)")
    return parser.parse_args(arguments)


def install() -> None:
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
    command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--editable", f"{ROOT}[postgres]"]
    subprocess.run([*command, *PINNED, "psutil>=6"], check=True)


def measure(product: Product, kind: str, jobs: int) -> Any:
    """Run the measurements of one product in a new process with a new database."""
    with ExitStack() as stack:
        broker = stack.enter_context(_redis()) if product.needs_redis else {}
        url = stack.enter_context(database("peers", keep=False) if kind == POSTGRES else _sqlite())
        return children.run(
            f"{__package__}.client",
            *("--jobs", str(jobs), "--packages", *product.packages),
            environment={
                **broker,
                "DATABASE_URL": url,
                "DJANGO_SETTINGS_MODULE": f"{__package__}.settings",
                PRODUCT: product.module,
            },
            timeout=TIMEOUT,
            python=str(PYTHON),
        )


@contextmanager
def _sqlite() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder) / 'db.sqlite3'}"


@contextmanager
def _redis() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder)).start()
        assert server.process is not None
        try:
            yield {REDIS: f"redis+socket://{server.socket}", BROKER: str(server.process.pid)}
        finally:
            server.kill()


def write_tables(results: Results) -> Iterator[str]:
    """Return the lines of one table for each database."""
    for kind in dict.fromkeys(kind for kind, _ in results):
        yield from ("", f"{TITLES[kind]}:", "", _row(COLUMNS), _row(["---"] * len(COLUMNS)))
        for (each, name), found in results.items():
            if each == kind:
                yield _row(_cells(PRODUCTS[name], found))


def _cells(product: Product, found: Sequence[Any]) -> list[str]:
    def median(part: str, name: str, form: str) -> str:
        values = [each[part][name] for each in found if name in each[part]]
        return format(statistics.median(values), form) if values else ""

    delays = [1000 * delay for each in found for delay in each["delays"]]
    return [
        product.title.format(**found[0]["versions"]),
        median("cost", "ms", ".1f"),
        median("cost", "commits", ".0f"),
        median("cost", "rows", ".0f"),
        median("cost", "KB", ".1f"),
        format(statistics.median(delays), ".0f"),
        format(statistics.median(each["rate"] for each in found), ".0f"),
        median("memory", "processes", ".0f"),
        median("memory", "MB", ".0f"),
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
