"""The time to live of a store's items: what a store is set to, and what a call says."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, TypedDict

#: The longest time to live, in minutes: 1000 years. Databases know no moment after the year 9999.
MAX_MINUTES = 1000 * 365 * 24 * 60


class TTLConfig(TypedDict, total=False):
    """How long items of a store live, in minutes, where a call doesn't say.

    ``refresh_on_read``: whether an item that is read lives on from there (True). ``default_ttl``:
    for items that are put without a ``ttl`` (None: they stay). ``omit_expired`` and
    ``sweep_interval_minutes`` are for other stores: those of this package never show an item that
    has expired.
    """

    refresh_on_read: bool
    omit_expired: bool
    default_ttl: float | None
    sweep_interval_minutes: int | None


class NotProvided:
    """The class of ``NOT_PROVIDED``: an argument that a call leaves to the store."""

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_PROVIDED = NotProvided()


def choose_ttl(config: TTLConfig | None, ttl: float | NotProvided | None) -> float | None:
    """Return the minutes that an item lives; None: it stays."""
    if isinstance(ttl, NotProvided):
        return (config or {}).get("default_ttl")
    return ttl


def choose_refresh(config: TTLConfig | None, refresh: bool | None) -> bool:
    """Return whether what is read lives on from there."""
    if refresh is not None:
        return refresh
    return (config or {}).get("refresh_on_read", True)


def read_ttl(minutes: float | None) -> timedelta | None:
    """Return a time to live as a duration; ValueError for one that isn't a number of minutes."""
    if minutes is None:
        return None
    if not abs(minutes) <= MAX_MINUTES:  # NaN is not, either
        raise ValueError(f"A ttl is a number of minutes, at most {MAX_MINUTES}, not {minutes!r}.")
    return timedelta(minutes=minutes)
