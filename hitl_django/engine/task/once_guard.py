"""The guard of once() and transact(): one call under each key at a time, one write of results."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import ConcurrentOnceError


class OnceGuard:
    """The calls of once() and transact() that a task is making, on several threads perhaps.

    ``storing`` is held while results are stored. All of a task's are one write, which replaces the
    one before: a thread that stored what it saw earlier would take back what another has stored.
    """

    __slots__ = ("_changing", "_transacting", "_under_way", "storing")

    def __init__(self) -> None:
        self.storing, self._changing = threading.Lock(), threading.Lock()
        self._under_way: set[tuple[int, str]] = set()
        self._transacting: set[int] = set()  # threads whose transaction is to lock_key one result

    def is_transacting(self) -> bool:
        """Return whether this thread is within transact()."""
        return threading.get_ident() in self._transacting

    @contextmanager
    def lock_key(self, node: str, attempt: int, key: str) -> Iterator[None]:
        """Hold a key for one call of an attempt, until its result is stored."""
        if self.is_transacting():
            raise RuntimeError(
                f"Node '{node}' called once() or transact() with key {key!r} inside "
                "transact(). Nested calls are not allowed: a rollback would undo work "
                "that is recorded as done."
            )
        call = attempt, key
        with self._changing:
            if call in self._under_way:
                raise ConcurrentOnceError(node, key)
            self._under_way.add(call)
        try:
            yield
        finally:
            with self._changing:
                self._under_way.discard(call)

    @contextmanager
    def transacting(self) -> Iterator[None]:
        """Refuse this thread any other call meanwhile."""
        thread = threading.get_ident()
        self._transacting.add(thread)
        try:
            yield
        finally:
            self._transacting.discard(thread)
