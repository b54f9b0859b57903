"""Program that measures requests of the API, compared with bare views of Django REST framework.

    python -m tools.benchmarks.http [--only NAME ...] [--repeat N]

The requests list 25 interrupts, claim the next interrupt and decide an interrupt. Each has a bare
view (``bare.py``) with the same rows and the same members in its response. The figures are
processor milliseconds, Python calls and statements of one request. Compare the calls, because the
times depend on other programs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from tools.benchmarks import children, stores

from ..engines import OURS
from ..stores import POSTGRES, SQLITE

#: Maximum number of seconds for one database.
TIMEOUT = 600
#: Highest ratio of each request to its bare view.
TARGETS = {"list": 2, "take next": 3, "decide": 1.4}
#: The figures and their formats.
UNITS = {"ms": ".1f", "calls": ",d", "statements": "d"}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    for kind in options.only or (SQLITE, POSTGRES):
        with stores.prepared({kind}) as known:
            found = measured({"DATABASE_URL": known[stores.variable(OURS, kind)]}, options.repeat)
        for line in summarize(found):
            print(f"{kind}: {line}", flush=True)
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.http", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    kinds = (SQLITE, POSTGRES)
    parser.add_argument("--only", nargs="+", choices=kinds, metavar="NAME", help=", ".join(kinds))
    parser.add_argument("--repeat", type=int, default=50, help="number of requests (50)")
    return parser.parse_args(arguments)


def measured(environment: dict[str, str], repeat: int) -> Any:
    """Run the measurements of one database in a new process, and return the results."""
    environment = {"DJANGO_SETTINGS_MODULE": f"{__package__}.settings", **environment}
    return children.run(
        f"{__package__}.client",
        *("--repeat", str(repeat)),
        environment=environment,
        timeout=TIMEOUT,
    )


def summarize(found: dict[str, dict[str, float]]) -> list[str]:
    """Return the results as one line for each request."""
    lines = []
    for name, target in TARGETS.items():
        own, bare = found[name], found[f"{name}, bare"]
        figures = ", ".join(
            f"{own[unit]:{form}} {unit} ({own[unit] / bare[unit]:.2f} × {bare[unit]:{form}})"
            for unit, form in UNITS.items()
        )
        lines.append(f"{name}: {figures}; target {target}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
