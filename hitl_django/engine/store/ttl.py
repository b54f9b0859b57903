"""The time to live of a store's items: the store's default and the arguments of calls."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, TypedDict

#: The maximum time to live in minutes: 1000 years, because databases support no date after year
#: 9999.
MAX_MINUTES = 1000 * 365 * 24 * 60


class TTLConfig(TypedDict, total=False):
    """Default times to live for the items of a store.

    - ``refresh_on_read``: whether reading an item restarts its time to live (default True).
    - ``default_ttl``: the time to live in minutes of items stored without a ``ttl``; None for no
      limit.
    - ``omit_expired`` and ``sweep_interval_minutes``: accepted for compatibility. The stores of
      this package never return expired items.
    """

    refresh_on_read: bool
    omit_expired: bool
    default_ttl: float | None
    sweep_interval_minutes: int | None


class NotProvided:
    """The type of ``NOT_PROVIDED``: the argument isn't given, and the store's default applies."""

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_PROVIDED = NotProvided()


def choose_ttl(config: TTLConfig | None, ttl: float | NotProvided | None) -> float | None:
    """Return the time to live of an item in minutes, or None for no limit.

    ``ttl`` has priority over the store's default in ``config``.
    """
    if isinstance(ttl, NotProvided):
        return (config or {}).get("default_ttl")
    return ttl


def choose_refresh(config: TTLConfig | None, refresh: bool | None) -> bool:
    """Return whether reading an item restarts its time to live.

    ``refresh`` has priority over the store's default in ``config``.
    """
    if refresh is not None:
        return refresh
    return (config or {}).get("refresh_on_read", True)


def read_ttl(minutes: float | None) -> timedelta | None:
    """Return a time to live as a timedelta, or None for no limit.

    Raises:
        ValueError: the argument is not a valid number of minutes.
    """
    if minutes is None:
        return None
    if not abs(minutes) <= MAX_MINUTES:  # The condition also rejects NaN.
        raise ValueError(f"A ttl is a number of minutes, at most {MAX_MINUTES}, not {minutes!r}.")
    return timedelta(minutes=minutes)
