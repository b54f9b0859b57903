"""Commits that are stored after their super-step.

With the durability "async", a commit is stored while the next super-step runs. With "exit", all
commits are stored at the end of the run.
"""

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
    """A run that may have unstored super-steps."""

    def store_overdue(self) -> None:
        """Store the finished super-steps that the durability "exit" has delayed."""


class DeferredCommits:
    """The unstored commits of a run, shared with its subgraphs.

    With the durability "async", at most one commit is unstored, and it's stored while the next
    super-step runs. With "exit", all commits after the last stored checkpoint are unstored until
    the run stops. In both cases, the commits are stored before a node stores results of once() or
    transact().
    """

    __slots__ = ("_is_raised", "_storing", "_under_way")

    def __init__(self) -> None:
        self._storing = threading.Lock()
        self._under_way: Future[None] | None = None
        self._is_raised = False

    def begin(self, saver: BaseCheckpointSaver, commit: Commit) -> None:
        """Start to store a commit on another OS thread.

        If the saver can't do this, store the commit on this OS thread.
        """
        self.wait()
        under_way = saver.begin_commit(commit)
        if under_way is None:
            saver.commit(commit)
        else:
            self._under_way = under_way

    async def abegin(self, saver: BaseCheckpointSaver, commit: Commit) -> None:
        """Async variant of begin."""
        await self.await_()
        under_way = await saver.acall(saver.begin_commit, commit)
        if under_way is None:
            await saver.acommit(commit)
        else:
            self._under_way = under_way

    def wait(self) -> None:
        """Wait for the commit in progress.

        If the commit failed, this and every later call raise the error of the commit, because no
        later commit may be stored.
        """
        if self._under_way is None:
            return
        try:
            self._under_way.result()
        except BaseException:
            self._is_raised = True
            raise

    async def await_(self) -> None:
        """Async variant of wait."""
        await self._await_end()
        self.wait()

    async def _await_end(self) -> None:
        if self._under_way is not None and not self._under_way.done():
            ended = asyncio.wrap_future(self._under_way)
            await asyncio.wait([ended])
            ended.exception()  # This retrieves the exception, which is raised elsewhere.

    def store_steps(self, runs: Iterable[UnsavedRun]) -> None:
        """Store the unstored super-steps of runs in the given order, the root run first."""
        self.wait()
        # A second caller must wait until the steps are stored, not only until they are removed from
        # the buffer.
        with self._storing:
            for each in runs:
                each.store_overdue()

    def close(self) -> None:
        """Wait for the commit in progress when the root run ends.

        If the error of a commit was never raised, it is logged.
        """
        under_way, self._under_way = self._under_way, None
        if under_way is None:
            return
        wait([under_way])
        error = under_way.exception()
        if error is not None and not self._is_raised:
            logger.error("could not store the last step of an abandoned run", exc_info=error)

    async def aclose(self) -> None:
        """Async variant of close."""
        await self._await_end()
        self.close()
