"""Checks of the types of arguments that several functions share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any


def check_switch(name: str, given: Any) -> None:
    """Raise TypeError unless the argument is True or False."""
    if not isinstance(given, bool):
        raise TypeError(f"{name} must be True or False, not {given!r}.")


def check_names(name: str, given: Any) -> tuple[str, ...]:
    """Return an argument that is a list of names as a tuple.

    Raises:
        TypeError: if the argument is a single name, which would be read as a list of characters,
            or contains a value that isn't a string.
    """
    if isinstance(given, str):
        raise TypeError(f"{name} must be a list of names, not the str {given!r}.")
    if not isinstance(given, Iterable):
        raise TypeError(f"{name} must be a list of names, not {given!r}.")
    found = tuple(given)
    if wrong := [each for each in found if not isinstance(each, str)]:
        raise TypeError(f"{name} must contain names, not {wrong[0]!r}.")
    return found


def check_choice(name: str, given: Any, choices: Collection[str]) -> None:
    """Raise ValueError unless the argument is one of the choices."""
    if given not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, not {given!r}.")


def check_mapping(name: str, given: Any) -> None:
    """Raise TypeError unless the argument is a dict or another mapping."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must be a dict, not {given!r}.")
