"""Parsers of numeric command arguments."""

from __future__ import annotations

import argparse
import re

_COUNT = re.compile("[1-9][0-9]{0,8}")
#: A larger number of days would result in dates before the year 1.
_MOST_DAYS = 100_000
_MOST_SECONDS = 7 * 24 * 3600


def parse_days(text: str) -> float:
    """Parse a number of days written as ``90`` or ``90d``.

    Raises:
        ArgumentTypeError: if the text is not a valid number of days.
    """
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)d?", text)
    if found is None or float(found[1]) > _MOST_DAYS:
        raise argparse.ArgumentTypeError(
            f"{text[:50]!r} is not a number of days from 0 to {_MOST_DAYS}, such as 90d."
        )
    return float(found[1])


def parse_count(text: str) -> int:
    """Parse a positive integer.

    Raises:
        ArgumentTypeError: if the text is not a positive integer.
    """
    if _COUNT.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(f"{text[:50]!r} is not a number from 1 to 999999999.")
    return int(text)


def parse_seconds(text: str) -> float:
    """Parse a number of seconds, at most a week.

    Raises:
        ArgumentTypeError: if the text is not a valid number of seconds.
    """
    found = re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", text)
    if found is None or float(text) > _MOST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text[:50]!r} is not a number of seconds from 0 to {_MOST_SECONDS}."
        )
    return float(text)
