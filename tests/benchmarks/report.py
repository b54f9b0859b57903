"""Turns measurements into the table and the growth fit."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from .engines import LANGGRAPH, OURS


def summary(times: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Returns the medians of both engines in microseconds, and the median of the paired ratios.

    The n-th run of one engine is next in time to the n-th of the other, so their ratio suffers
    least from what else the machine does.
    """
    found: dict[str, Any] = {
        engine: statistics.median(values) * 1e6 for engine, values in times.items() if values
    }
    pairs = list(zip(times.get(LANGGRAPH, ()), times.get(OURS, ()), strict=False))
    if pairs:
        found["ratio"] = statistics.median(theirs / ours for theirs, ours in pairs)
        found["spread"] = [f(theirs / ours for theirs, ours in pairs) for f in (min, max)]
    return found


def slope(points: Mapping[int, float]) -> float | None:
    """Returns the exponent p of ``total time ~ n ** p``, fitted on a log-log scale."""
    if len(points) < 2:
        return None
    xs = [math.log(n) for n in points]
    ys = [math.log(n * seconds) for n, seconds in points.items()]
    return statistics.linear_regression(xs, ys).slope


HEAD = (
    f"{'workload':46} {'unit':>11} {'LangGraph':>11} {'ours':>10} {'ratio':>7} "
    f"{'(min-max)':>13} {'target':>7}  met"
)


def line(row: Any, found: Mapping[str, Any], error: str = "") -> str:
    """Returns a row of the table."""
    start = f"{row.title:46} {row.unit:>11}"
    if error:
        return f"{start}  {error}"

    def micro(engine: str) -> str:
        return f"{found[engine]:,.1f}" if engine in found else "-"

    both = f"{start} {micro(LANGGRAPH):>11} {micro(OURS):>10}"
    if "ratio" not in found:
        return both
    low, high = found["spread"]
    met = "yes" if found["ratio"] >= row.target else "NO"
    spread = f"({low:.1f}-{high:.1f})"
    return f"{both} {found['ratio']:6.1f}x {spread:>13} {row.target:6.0f}x  {met}"
