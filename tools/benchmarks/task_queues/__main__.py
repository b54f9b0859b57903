"""Program that measures each supported task queue with its own workers.

Queues are configured as in their guides.

    python -m tools.benchmarks.task_queues [--only NAME ...] [--quick] [--json FILE]

It measures the delay between a decision and its node, the processor time of a decision, the
throughput of 1, 2 and 4 workers, and the recovery of runs after their workers are killed. The
program prints the table of the guide.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.redis_server import RedisServer
from tools.benchmarks import children, stores

from ..engines import OURS
from ..stores import POSTGRES
from ..worker.costs import BROKER
from .queues import QUEUES, TaskQueue

#: Maximum number of seconds for one queue.
TIMEOUT = 1800
WORKERS = (1, 2, 4)
COUNT, SMALL = 400, 16

COLUMNS = (
    "",
    "an answer is with its node after",
    "processor ms per decision: decided together; one by one",
    f"decisions a second by {', '.join(map(str, WORKERS))} workers if nodes wait 50 ms",
    "its workers are killed: nodes begun again; runs lost; all done after",
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    results: dict[str, Any] = {}
    print(row(COLUMNS), row(["---"] * len(COLUMNS)), sep="\n", flush=True)
    for name, queue in QUEUES.items():
        if not options.only or name in options.only:
            with prepared(queue) as environment:
                results[name] = measured(name, environment, SMALL if options.quick else COUNT)
            print(line(queue, results[name]), flush=True)
            if options.json:
                Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.benchmarks.task_queues", description=__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", nargs="+", choices=QUEUES, metavar="NAME", help="these queues")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--json", metavar="FILE", help="write the measurements here as well")
    return parser.parse_args(arguments)


@contextmanager
def prepared(queue: TaskQueue, **timings: float) -> Iterator[dict[str, str]]:
    """Create the database and the broker of a queue, and yield the environment of its processes.

    ``timings`` are settings of HITL that differ from the defaults.
    """
    with stores.prepared({queue.database}) as known, tempfile.TemporaryDirectory() as folder:
        url = known[stores.variable(OURS, queue.database)]
        if queue.database == POSTGRES:
            # The server stores query plans, as the deployment guide recommends.
            url += ("&" if "?" in url else "?") + "prepare_threshold=5"
        found = {
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "tools.benchmarks.worker.settings",
            "TEST_HITL": json.dumps({**timings, "DISPATCH": queue.dispatcher}),
        }
        if queue.broker is None:
            yield found
            return
        server = RedisServer(Path(folder)).start()
        variable, form = queue.broker
        try:
            assert server.process is not None
            yield {
                **found,
                variable: form.format(server.socket),
                BROKER: str(server.process.pid),
            }
        finally:
            server.kill()


def measured(name: str, environment: dict[str, str], count: int) -> Any:
    """Run all measurements of one queue in a new process, and return the results."""
    arguments = (name, "--count", str(count), "--workers", *map(str, WORKERS))
    return children.run(
        f"{__package__}.client", *arguments, environment=environment, timeout=TIMEOUT
    )


def line(queue: TaskQueue, found: Any) -> str:
    """Return one row of the table."""
    delays = [1000 * each for each in found["delays"]]
    late = statistics.quantiles(delays, n=20)[-1]
    killed = found["killed"]
    cells = [
        queue.title,
        f"{statistics.median(delays):.0f} ms, one in twenty {late:.0f}",
        "; ".join(f"{ms:.1f}" for ms in found["cost"].values()),
        ", ".join(f"{rate:.0f}" for rate in found["rates"].values()),
        f"{killed['again']:.0f}; {killed['lost'] or 'none'}; {killed['seconds']:.0f} s",
    ]
    return row(cells)


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
