"""The guard of once() and transact(), which prevents concurrent calls with the same key."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import ConcurrentOnceError


class OnceGuard:
    """The running calls of once() and transact() of one task, possibly on several OS threads.

    ``storing`` is locked while results are stored. All results of a task are stored in one write,
    which replaces the previous write. Without the lock, an OS thread with outdated results could
    overwrite the results of another OS thread.
    """

    __slots__ = ("_changing", "_transacting", "_under_way", "storing")

    def __init__(self) -> None:
        self.storing, self._changing = threading.Lock(), threading.Lock()
        self._under_way: set[tuple[int, str]] = set()
        self._transacting: set[int] = set()  # The ids of OS threads inside transact().

    def is_transacting(self) -> bool:
        """Return whether this OS thread is inside transact()."""
        return threading.get_ident() in self._transacting

    @contextmanager
    def lock_key(self, node: str, attempt: int, key: str) -> Iterator[None]:
        """Lock a key during one call of once() or transact(), until the call's result is stored.

        Raises:
            RuntimeError: this OS thread is inside transact().
            ConcurrentOnceError: the key is locked.
        """
        if self.is_transacting():
            raise RuntimeError(
                f"Node '{node}' called once() or transact() with key {key!r} inside "
                "transact(). Nested calls are not allowed: a rollback would revert work "
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
        """Forbid calls of once() and transact() on this OS thread inside the block."""
        thread = threading.get_ident()
        self._transacting.add(thread)
        try:
            yield
        finally:
            self._transacting.discard(thread)
