"""Printing of stream chunks on the console, for ``print_mode`` and ``debug``."""

from __future__ import annotations

from ..types import Chunk

NO_MODES: frozenset[str] = frozenset()
#: The stream modes printed with ``debug``.
DEBUG_MODES: frozenset[str] = frozenset(("updates", "values"))

_BOLD, _YELLOW, _PLAIN = "\033[1m", "\033[1;33m", "\033[0m"


def print_chunk(chunk: Chunk, subgraphs: bool) -> None:
    """Print the mode and data of a chunk. With ``subgraphs``, also print its namespace."""
    ns, mode, data = chunk
    parts = [f"{_BOLD}[{mode}]{_PLAIN}"]
    if subgraphs and ns:
        parts.append(f"{_YELLOW}[graph={ns}]{_PLAIN}")
    print(*parts, repr(data))
