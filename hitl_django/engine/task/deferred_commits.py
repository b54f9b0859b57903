"""Commits that come later than the steps that they are of: durability "async" and "exit"."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable
from concurrent.futures import Future, wait
from typing import Protocol

from ..savers.checkpoint import BaseCheckpointSaver, Commit

logger = logging.getLogger("hitl_django")


class UnsavedRun(Protocol):
    """A run that may be behind with what it stores."""

    def store_overdue(self) -> None:
        """Store what has ended by now."""


class DeferredCommits:
    """What a run has yet to store of steps that have ended; all of its subgraphs share it.

    With "async" it is one commit, which is stored while the next step runs. With "exit" it is all
    since the last stored checkpoint, and waits for the run to stop. What a node does once, or in a
    transaction, comes after either.
    """

    __slots__ = ("_is_raised", "_storing", "_under_way")

    def __init__(self) -> None:
        self._storing = threading.Lock()
        self._under_way: Future[None] | None = None
        self._is_raised = False

    def begin(self, saver: BaseCheckpointSaver, commit: Commit) -> None:
        """Store a commit on another thread, or at once with a saver that has none for it."""
        self.wait()
        under_way = saver.begin_commit(commit)
        if under_way is None:
            saver.commit(commit)
        else:
            self._under_way = under_way

    async def abegin(self, saver: BaseCheckpointSaver, commit: Commit) -> None:
        """Like begin, on the running event loop."""
        await self.await_()
        under_way = await saver.acall(saver.begin_commit, commit)
        if under_way is None:
            await saver.acommit(commit)
        else:
            self._under_way = under_way

    def wait(self) -> None:
        """Wait for the commit that is under way.

        Raises what has kept one from being stored, to whoever asks, ever after: nothing may be
        stored on top of it.
        """
        if self._under_way is None:
            return
        try:
            self._under_way.result()
        except BaseException:
            self._is_raised = True
            raise

    async def await_(self) -> None:
        """Like wait, on the running event loop."""
        await self._await_end()
        self.wait()

    async def _await_end(self) -> None:
        if self._under_way is not None and not self._under_way.done():
            ended = asyncio.wrap_future(self._under_way)
            await asyncio.wait([ended])
            ended.exception()  # looked at, as somebody else tells of it

    def store_steps(self, runs: Iterable[UnsavedRun]) -> None:
        """Store what waits of a run's steps, and before that of those of the runs above it."""
        self.wait()
        # Whoever comes second has to find it stored, and not only taken.
        with self._storing:
            for each in runs:
                each.store_overdue()

    def close(self) -> None:
        """Wait for what is under way when the outermost run is over; logs what nobody was told."""
        under_way, self._under_way = self._under_way, None
        if under_way is None:
            return
        wait([under_way])
        error = under_way.exception()
        if error is not None and not self._is_raised:
            logger.error("could not store the last step of an abandoned run", exc_info=error)

    async def aclose(self) -> None:
        """Like close, on the running event loop."""
        await self._await_end()
        self.close()
