"""Table of measurements, and estimation of their growth."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from .engines import FLOOR, LANGGRAPH, OURS
from .workloads import Workload


def summary(times: Mapping[str, Sequence[float]], against: str = LANGGRAPH) -> dict[str, Any]:
    """Return the medians of both engines in microseconds, and the median of the paired ratios.

    The n-th runs of both engines are executed one after the other. Their ratio is therefore least
    affected by other load.
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
    """Return the exponent p of ``total time ~ n ** p``, fitted on a log-log scale.

    Returns None if there are too few points.
    """
    if len(points) < 2:
        return None
    xs = [math.log(n) for n in points]
    ys = [math.log(n * seconds) for n, seconds in points.items()]
    return statistics.linear_regression(xs, ys).slope


MET, MET_BY_FLOOR, SHORT = "met", "met by the floor", "short"


def verdict(row: Workload, found: Mapping[str, Any]) -> str:
    """Return whether a row meets its target or is within ``allowance`` of its floor."""
    ratio = found["ratio"]
    if row.against == FLOOR:
        return MET if ratio <= row.target else SHORT
    if ratio >= row.target:
        return MET
    is_near = "floor_ratio" in found and found["floor_ratio"] <= row.allowance * ratio
    return MET_BY_FLOOR if is_near else SHORT


def spell_target(row: Workload) -> str:
    """Return the target as text: the minimum speed-up or the maximum slow-down."""
    return f"{'≤' if row.against == FLOOR else '≥'} {row.target:g}"


HEAD = (
    f"{'workload':54} {'unit':>11} {'LangGraph':>11} {'ours':>10} {'floor':>10} {'ratio':>7} "
    f"{'(min-max)':>13} {'target':>6} {'floor':>7}  {'verdict':16}  statements, write "
    "transactions, bytes, round trips of ours per unit"
)


def line(row: Workload, found: Mapping[str, Any], error: str = "") -> str:
    """Return one row of the table."""
    start = f"{row.title:54} {row.unit:>11}"
    if error:
        return f"{start}  {error}"

    def micro(engine: str) -> str:
        return f"{found[engine]:,.1f}" if engine in found else "-"

    times = f"{start} {micro(LANGGRAPH):>11} {micro(OURS):>10} {micro(FLOOR):>10}"
    if "ratio" not in found:
        return times
    low, high = found["spread"]
    spread = f"({low:.1f}-{high:.1f})"
    floor = f"{found['floor_ratio']:.1f}x" if "floor_ratio" in found else "-"
    text = f"{times} {found['ratio']:6.1f}x {spread:>13} {spell_target(row):>6} {floor:>7}"
    return f"{text}  {verdict(row, found):16}  {spell_counts(found)}".rstrip()


def spell_counts(found: Mapping[str, Any]) -> str:
    """Return the counts that are available, as text."""
    if "statements" not in found:
        return ""
    text = f"{found['statements']:.1f}, {found['transactions']:.1f}, {found['bytes']:,.0f}"
    return f"{text}, {found['trips']:.1f}" if "trips" in found else text
