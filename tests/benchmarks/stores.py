"""The databases of the durable workloads, made for one run of the benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def prepared(kinds: set[str]) -> Iterator[dict[str, str]]:
    """Starts what ``kinds`` need and yields the environment of the measuring processes."""
    yield {}
