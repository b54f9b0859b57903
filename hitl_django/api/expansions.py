"""Related objects that a list response can include (query parameter ``expand``).

A page contains each object once, next to the rows and not nested in them, because many interrupts
may share one run. For each name in ``expand``, one query reads the objects. The response contains
only objects visible to the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rest_framework.serializers import Serializer

from .invalid_params import InvalidParam
from .problems import InvalidRequest

EXPAND = "expand"


@dataclass(frozen=True, slots=True)
class Expansion:
    """One name that the parameter ``expand`` accepts.

    ``find`` receives a user and the rows of a page, and yields pairs of key and object. The key is
    the id by which a client finds the object for a row, such as the id of the row or of its thread.
    If ``is_many`` is true, several objects may have the same key.
    """

    serializer: type[Serializer[Any]]
    find: Callable[[Any, Sequence[Any]], Iterable[tuple[str, Any]]]
    is_many: bool = False


def read_names(text: str | None, known: Mapping[str, Expansion]) -> list[str]:
    """Return the names in an ``expand`` parameter.

    Raises:
        InvalidRequest: if a name isn't in ``known``.
    """
    names = [] if text is None else text.split(",")
    if unknown := [name for name in names if name not in known]:
        detail = f"{unknown[0]!r} can't be expanded here. Allowed: {', '.join(known)}."
        raise InvalidRequest(InvalidParam("invalid", detail, parameter=EXPAND))
    return [name for name in known if name in names]


def expand(
    rows: Sequence[Any],
    names: Iterable[str],
    known: Mapping[str, Expansion],
    user: Any,
    render: Callable[[type[Serializer[Any]], Any], Any],
) -> dict[str, Any]:
    """Return the serialized objects that belong to ``rows``.

    The result contains a dict for each name in ``names``. The keys of this dict are the keys that
    ``Expansion.find`` yields. ``known`` are the valid names with their expansions. ``render``
    serializes an object.
    """
    shown: dict[str, Any] = {}
    for name in names:
        found: dict[str, Any] = {}
        for key, row in known[name].find(user, rows) if rows else ():
            one = render(known[name].serializer, row)
            if known[name].is_many:
                found.setdefault(key, []).append(one)
            else:
                found[key] = one
        shown[name] = found
    return shown
