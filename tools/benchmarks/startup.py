"""Program that measures the time and memory of ``django.setup()`` with and without this package.

    python -m tools.benchmarks.startup [--rounds N]

The projects with and without the package alternate in new processes. The time is processor time, so
that other load on the machine affects it less. The processes don't import optional packages of
django-q2, and load compiled bytecode, as in an installation by pip.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from typing import NamedTuple

from tools.benchmarks import children

#: The apps of a new project, and the apps that the installation guide adds.
PROJECT = [
    f"django.contrib.{app}"
    for app in ("admin", "auth", "contenttypes", "messages", "sessions", "staticfiles")
]
ADDED = ["django_q", "hitl_django"]
CHILD = "tools.benchmarks.startup_child"
TIMEOUT = 60


class Measure(NamedTuple):
    """A row of the table: its unit, and the maximum that the package may add."""

    title: str
    unit: str
    most: float


MEASURES = {
    "ms": Measure("processor time of django.setup()", "ms", 150),
    "mb": Measure("memory after django.setup()", "MB", 10),
    "modules": Measure("imported modules", "modules", float("inf")),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.startup", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rounds", type=int, default=9, help="processes per project (9)")
    rounds = parser.parse_args(arguments).rounds
    found = [(measure(PROJECT), measure([*PROJECT, *ADDED])) for _ in range(rounds)]
    for line in summarize(found):
        print(line)
    return 0


def measure(apps: Sequence[str]) -> dict[str, float]:
    """Set up a project with these apps in a new process, and return the cost."""
    found: dict[str, float] = children.run(CHILD, *apps, environment={}, timeout=TIMEOUT)
    return found


def summarize(rounds: Sequence[tuple[dict[str, float], dict[str, float]]]) -> list[str]:
    """Return a line for each measure: its medians, and the median of the paired differences."""
    lines = []
    for name, row in MEASURES.items():
        without, with_app = (statistics.median(each[at][name] for each in rounds) for at in (0, 1))
        added = statistics.median(full[name] - bare[name] for bare, full in rounds)
        target = "" if row.most == float("inf") else f" (≤ +{row.most:g})"
        lines.append(
            f"{row.title}: {without:.0f} {row.unit} without, {with_app:.0f} with the package, "
            f"+{added:.0f}{target}"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
