"""The rates of spot checks, by graph."""

from __future__ import annotations

_rates: dict[str, float] = {}


def spot_check(graph: str, *, rate: float) -> None:
    """Have another reviewer check a random sample of a graph's approvals.

    Call this function in the module that registers the graph. ``rate`` is the share of approvals in
    the sample, from 0 to 1. A later call replaces the rate. No run waits for a check.

    Raises:
        ValueError: if the rate is not a number from 0 to 1.
    """
    if type(rate) not in (int, float) or not 0 <= rate <= 1:
        raise ValueError(f"rate is a number from 0 to 1, not {rate!r}.")
    _rates.pop(graph, None)
    if rate:
        _rates[graph] = rate


def get_rate(graph: str) -> float:
    """Return the rate of spot checks of a graph."""
    return _rates.get(graph, 0)


def list_graphs() -> list[str]:
    """Return the names of the graphs with spot checks."""
    return list(_rates)
