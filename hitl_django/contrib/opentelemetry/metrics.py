"""Metrics: runs by outcome, time to decision, and duration of nodes."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from opentelemetry import metrics
from opentelemetry.metrics import Counter, Histogram

from .trace_ids import NAME

_HOUR, _DAY = 3600, 86400
#: Histogram bounds in seconds. Decisions take from seconds to a month.
_WAITS = (1, 10, 60, 300, 900, _HOUR, 4 * _HOUR, 8 * _HOUR, _DAY, 3 * _DAY, 7 * _DAY, 30 * _DAY)
_DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)


class Instruments(NamedTuple):
    """The metric instruments of this process."""

    runs: Counter
    decision_wait: Histogram
    node_duration: Histogram


@cache
def get_instruments() -> Instruments:
    """Return the instruments.

    The instruments are created on first use, after the project has set its provider.
    """
    meter = metrics.get_meter(NAME)
    return Instruments(
        meter.create_counter("hitl.runs", "{run}", "Runs that ended or were parked, by outcome."),
        meter.create_histogram(
            "hitl.decision.wait",
            "s",
            "Time from interrupt to decision.",
            explicit_bucket_boundaries_advisory=_WAITS,
        ),
        meter.create_histogram(
            "hitl.node.duration",
            "s",
            "Duration of one node task, including all attempts.",
            explicit_bucket_boundaries_advisory=_DURATIONS,
        ),
    )
