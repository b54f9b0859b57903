"""What a task does by once(): none of it twice at the same time, each result stored for good."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import AlreadyUnderWayError


class OnceGuard:
    """What code of a task is doing, on several threads of its own perhaps.

    ``storing`` is held while results are stored. All of a task's are one write, which replaces the
    one before: a thread that stored what it saw earlier would take back what another has stored.
    """

    __slots__ = ("_apart", "_changing", "_under_way", "storing")

    def __init__(self) -> None:
        self.storing, self._changing = threading.Lock(), threading.Lock()
        self._under_way: set[tuple[int, str]] = set()
        self._apart: set[int] = set()  # threads whose transaction is to hold one result

    @contextmanager
    def doing(self, node: str, attempt: int, key: str) -> Iterator[None]:
        """Keeps an attempt from doing the same twice at a time, until its result is stored."""
        if threading.get_ident() in self._apart:
            raise RuntimeError(
                f"Node '{node}' called once() or transact() with the key {key!r} from within "
                "transact(): what is undone with that would be remembered as done."
            )
        deed = attempt, key
        with self._changing:
            if deed in self._under_way:
                raise AlreadyUnderWayError(node, key)
            self._under_way.add(deed)
        try:
            yield
        finally:
            with self._changing:
                self._under_way.discard(deed)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Refuses this thread any other deed meanwhile."""
        thread = threading.get_ident()
        self._apart.add(thread)
        try:
            yield
        finally:
            self._apart.discard(thread)
