"""Program that measures complete jobs in real processes, as a project would install them.

    python -m tools.benchmarks.jobs [--only NAME ...] [--what PART ...] [--jobs N]

A job is the start of a run with an idempotency key, three steps, one decision of a person, and the
end. The cost per job includes the processes of the client, of the workers and of the database.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from tools.benchmarks import children, stores

from ..engines import OURS
from ..stores import POSTGRES, SQLITE

#: Maximum number of seconds for one row.
TIMEOUT = 600
#: The database of each row.
ROWS = {"postgres": POSTGRES, "sqlite": SQLITE}
PARTS = ("calls", "rows", "cost", "delays", "recovery")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    for name in options.only or ROWS:
        kind = ROWS[name]
        with stores.prepared({kind}) as known:
            environment = {"DATABASE_URL": known[stores.variable(OURS, kind)]}
            found = measured(options.what or PARTS, environment, options.jobs)
        print(f"{name}: {'; '.join(summarize(found))}", flush=True)
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.jobs", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", nargs="+", choices=ROWS, metavar="NAME", help=", ".join(ROWS))
    parser.add_argument("--what", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--jobs", type=int, default=200, help="number of jobs (200)")
    return parser.parse_args(arguments)


def measured(what: Sequence[str], environment: dict[str, str], jobs: int) -> Any:
    """Run the measurements of one row in a new process, and return the results."""
    environment = {"DJANGO_SETTINGS_MODULE": f"{__package__}.settings", **environment}
    arguments = (*what, "--jobs", str(jobs))
    return children.run(
        f"{__package__}.client", *arguments, environment=environment, timeout=TIMEOUT
    )


def summarize(found: Any) -> list[str]:
    """Return the results of one row as short texts."""
    told = [
        ", ".join(f"{value:.4g} {name}" for name, value in found[part].items())
        for part in ("calls", "rows", "cost")
        if part in found
    ]
    for part, title in (("delays", "answer to next step"), ("recovery", "after a kill")):
        if times := found.get(part):
            late = statistics.quantiles(times, n=20)[-1]
            middle = statistics.median(times)
            told.append(f"{title} p50 {1000 * middle:.0f} ms, p95 {1000 * late:.0f} ms")
    return told


if __name__ == "__main__":
    sys.exit(main())
