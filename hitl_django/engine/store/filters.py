"""Filters for the fields of items in a search."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

_EQUALITIES: dict[str, Callable[[Any, Any], Any]] = {"$eq": operator.eq, "$ne": operator.ne}
_ORDERINGS: dict[str, Callable[[Any, Any], Any]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def fits_filter(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Return whether a value's fields match the filter ``wanted``.

    Raises:
        ValueError: the filter contains an operator that doesn't exist.
    """
    return not wanted or all(_fits(value.get(key), each) for key, each in wanted.items())


def _fits(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(str(key).startswith("$") for key in wanted):
            return all(_relates(found, name, bound) for name, bound in wanted.items())
        return isinstance(found, Mapping) and fits_filter(found, wanted)
    if isinstance(wanted, (list, tuple)):
        return (
            isinstance(found, (list, tuple))
            and len(found) == len(wanted)
            and all(map(_fits, found, wanted))
        )
    return bool(found == wanted)


def _relates(found: Any, name: str, bound: Any) -> bool:
    if name in _EQUALITIES:
        return bool(_EQUALITIES[name](found, bound))
    if name not in _ORDERINGS:
        raise ValueError(f"Unsupported operator: {name}")
    compare = _ORDERINGS[name]
    try:
        # Numeric text is compared as a number.
        return bool(compare(float(found), float(bound)))
    except (TypeError, ValueError, OverflowError):
        pass
    try:
        return bool(compare(found, bound))
    except TypeError:
        return False  # The values can't be compared.
