"""Program that compares a worker's decisions with empty django-q2 tasks in the same cluster.

    python -m tools.benchmarks.worker [--only NAME ...] [--rounds N] [--quick] [--json FILE]

It runs processes of ``hitl worker`` with the settings recommended for high throughput.
TEST_Q_CLUSTER may contain other settings as JSON. Empty tasks and decisions alternate in one
cluster, so that other load on the machine affects both. Times are measured in the node or the task.
The ratio of two consecutive measurements is compared with its target.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.redis_server import RedisServer
from tools.benchmarks import children, stores

from ..engines import OURS
from ..stores import POSTGRES, SQLITE

TIMEOUT = 600
REDIS = "redis"  # With Redis as the broker, the database is PostgreSQL.

Told = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A measurement, which is defined in the same way for all queues."""

    module: str
    what: str
    title: str
    size: int
    small: int
    target: str
    #: Maximum and minimum of the ratio.
    most: float = float("inf")
    least: float = 0.0
    queues: Sequence[str] = (SQLITE, POSTGRES, REDIS)
    is_repeated: bool = False


KINDS = {
    "start": Kind(
        "client", "starts", "ms from the decision to the node / to the task, p50", 60, 2,
        "<1.2x", most=1.2,
    ),
    "rate": Kind(
        "client", "rates", "decisions / empty tasks a second", 600, 30, ">0.7x", least=0.7,
        is_repeated=True,
    ),
    "workers": Kind(
        "client", "scaling", "decisions a second by two workers / by one, 50 ms of I/O", 60, 8,
        ">1.8x", least=1.8, is_repeated=True,
    ),
    "steps": Kind(
        "memory", "steps", "MB in use after 10,000 super-steps / after 1,000", 10_000, 100,
        "<1.05x", most=1.05, queues=(SQLITE, POSTGRES),
    ),
    "paused": Kind(
        "memory", "paused", "MB in use with 1,000 threads more paused / without", 1000, 20,
        "<1.05x", most=1.05, queues=(SQLITE, POSTGRES),
    ),
}  # fmt: skip

ROWS = {f"{queue}-{name}": (queue, kind) for name, kind in KINDS.items() for queue in kind.queues}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    rows = {name: ROWS[name] for name in ROWS if is_chosen(name, options.only)}
    results: dict[str, Told] = {}
    print(HEAD, flush=True)
    with prepared({queue for queue, _ in rows.values()}) as environments:
        for name, (queue, kind) in rows.items():
            found = measured(kind, options, environments[queue])
            results[name] = SUMMARIES[kind.what](found)
            print(line(name, kind, results[name]), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.worker", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    names = ", ".join(ROWS)
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help=f"rows, or parts of names: {names}"
    )
    parser.add_argument("--rounds", type=int, default=3, help="number of alternating rounds (3)")
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    parser.add_argument("--json", metavar="FILE", help="write the measurements here as well")
    options = parser.parse_args(arguments)
    unknown = [part for part in options.only if not any(part in name for name in ROWS)]
    if unknown:
        parser.error(f"no row is called {', '.join(unknown)}; there are: {names}")
    return options


def is_chosen(name: str, parts: Sequence[str]) -> bool:
    return not parts or any(part in name for part in parts)


@contextmanager
def prepared(queues: set[str]) -> Iterator[dict[str, dict[str, str]]]:
    """Create the databases and brokers, and yield the environment of each queue's processes."""
    databases = {SQLITE if queue == SQLITE else POSTGRES for queue in queues}
    with stores.prepared(databases) as known, tempfile.TemporaryDirectory() as folder:
        urls = {kind: known[stores.variable(OURS, kind)] for kind in databases}
        if POSTGRES in urls:
            # The server stores query plans, as the deployment guide recommends.
            urls[POSTGRES] += ("&" if "?" in urls[POSTGRES] else "?") + "prepare_threshold=5"
        found = {
            queue: {"DATABASE_URL": urls[SQLITE if queue == SQLITE else POSTGRES]}
            for queue in queues
        }
        if REDIS not in queues:
            yield found
            return
        server = RedisServer(Path(folder)).start()
        found[REDIS]["TEST_REDIS_URL"] = server.url
        try:
            yield found
        finally:
            server.kill()


def measured(kind: Kind, options: argparse.Namespace, environment: dict[str, str]) -> Any:
    """Run one measurement in a new process, and return the results."""
    size = kind.small if options.quick else kind.size
    arguments = [kind.what, "--count", str(size)]
    if kind.is_repeated:
        arguments += ["--rounds", str(1 if options.quick else options.rounds)]
    environment = {"DJANGO_SETTINGS_MODULE": f"{__package__}.settings", **environment}
    return children.run(
        f"{__package__}.{kind.module}", *arguments, environment=environment, timeout=TIMEOUT
    )


def of_starts(found: dict[str, list[float]]) -> Told:
    """Return the medians and the 95th percentiles of delays in milliseconds."""
    ours, bare = ([1000 * each for each in found[kind]] for kind in ("ours", "bare"))
    middle = statistics.median(ours), statistics.median(bare)
    late = [statistics.quantiles(times, n=20)[-1] for times in (ours, bare)]
    return {
        "ours": middle[0],
        "against": middle[1],
        "ratio": middle[0] / middle[1],
        "more": f"p95 {late[0]:.1f} / {late[1]:.1f}, {late[0] / late[1]:.2f}x",
    }


def of_rates(found: dict[str, list[float]]) -> Told:
    """Return the median rates per second, and the median ratio of two consecutive rates."""
    against, ours = found.values()
    ratios = [one / other for one, other in zip(ours, against, strict=True)]
    return {
        "ours": statistics.median(ours),
        "against": statistics.median(against),
        "ratio": statistics.median(ratios),
        "more": f"({min(ratios):.2f}-{max(ratios):.2f})",
    }


def of_memory(found: list[dict[str, int]]) -> Told:
    """Return the megabytes before and after the runs, and the number of additional objects."""
    before, after = found
    return {
        "ours": after["bytes"] / 1e6,
        "against": before["bytes"] / 1e6,
        "ratio": after["bytes"] / before["bytes"],
        "more": f"{after['objects'] - before['objects']:+} objects",
    }


SUMMARIES: dict[str, Callable[[Any], Told]] = {
    "starts": of_starts,
    "rates": of_rates,
    "scaling": of_rates,
    "steps": of_memory,
    "paused": of_memory,
}

HEAD = f"{'row':18} {'ours':>9} {'against':>9} {'ratio':>7} {'target':>7}  met"


def line(name: str, kind: Kind, found: Told) -> str:
    """Return one row of the table."""
    is_met = kind.least <= found["ratio"] <= kind.most
    figures = f"{found['ours']:9.1f} {found['against']:9.1f} {found['ratio']:6.2f}x"
    met = "yes" if is_met else "NO"
    return f"{name:18} {figures} {kind.target:>7}  {met:3}  {kind.title}; {found['more']}"


if __name__ == "__main__":
    sys.exit(main())
