"""Turns measurements into the table and the growth fit."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from .engines import FLOOR, LANGGRAPH, OURS


def summary(times: Mapping[str, Sequence[float]], against: str = LANGGRAPH) -> dict[str, Any]:
    """Returns the medians of the engines in microseconds, and the median of the paired ratios.

    The n-th run of one engine is next in time to the n-th of the other, so their ratio suffers
    least from what else the machine does.
    """
    found: dict[str, Any] = {
        engine: statistics.median(values) * 1e6 for engine, values in times.items() if values
    }
    pairs = list(zip(times.get(against, ()), times.get(OURS, ()), strict=False))
    if pairs:
        ratios = [ours / other if against == FLOOR else other / ours for other, ours in pairs]
        found["ratio"] = statistics.median(ratios)
        found["spread"] = [min(ratios), max(ratios)]
    if against != FLOOR and FLOOR in times:
        pairs = list(zip(times[against], times[FLOOR], strict=True))
        found["floor_ratio"] = statistics.median(other / floor for other, floor in pairs)
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
    f"{'(min-max)':>13} {'target':>7}  met  statements, write transactions, bytes, "
    "round trips of ours per unit"
)


def line(row: Any, found: Mapping[str, Any], error: str = "") -> str:
    """Returns a row of the table."""
    start = f"{row.title:46} {row.unit:>11}"
    if error:
        return f"{start}  {error}"

    def micro(engine: str) -> str:
        return f"{found[engine]:,.1f}" if engine in found else "-"

    both = f"{start} {micro(row.against):>11} {micro(OURS):>10}"
    if "ratio" not in found:
        return both
    low, high = found["spread"]
    is_floor = row.against == FLOOR
    is_met = found["ratio"] <= row.target if is_floor else found["ratio"] >= row.target
    target = f"<{row.target:.1f}" if is_floor else f"{row.target:.0f}"
    spread = f"({low:.1f}-{high:.1f})"
    told = f"{both} {found['ratio']:6.1f}x {spread:>13} {target:>6}x  {'yes' if is_met else 'NO':3}"
    if "statements" in found:
        told += f"  {found['statements']:.1f}, {found['transactions']:.1f}, {found['bytes']:,.0f}"
    if "trips" in found:
        told += f", {found['trips']:.1f}"
    if "floor_ratio" in found:
        told += f"; these alone {micro(FLOOR)}, {found['floor_ratio']:.1f}x"
    return told
