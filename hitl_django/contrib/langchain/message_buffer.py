"""Messages while models say them: put together until it is time to store what there is of them."""

from __future__ import annotations

import time
from threading import Lock

from langchain_core.messages import BaseMessage, BaseMessageChunk

from hitl_django.engine.savers.checkpoint import Commit
from hitl_django.engine.task.context import current, store_commit
from hitl_django.engine.task.run_context import RunContext
from hitl_django.engine.types import Chunk

#: How often what is being said is stored, at most, and how much of it waits for that, at most.
SECONDS, CHARACTERS = 0.25, 2000


class MessageBuffer:
    """Chunks of messages that wait to be stored, those of one message put together.

    Models may speak on several threads at once.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: list[Chunk] = []
        #: The places among those of chunks that more may be added to.
        self._open: dict[tuple[tuple[str, ...], str], int] = {}
        self._size, self._taken_at = 0, -SECONDS

    def add(self, chunk: Chunk) -> bool:
        """Add a chunk; returns whether what waits should be stored now.

        Of what isn't said piece by piece nobody has to hear before the commit that it is part of.
        """
        ns, mode, (message, metadata) = chunk
        with self._lock:
            if not isinstance(message, BaseMessageChunk):
                self._waiting.append(chunk)
                return False
            is_over = getattr(message, "chunk_position", None) == "last"
            if is_over and _is_empty(message):
                # langchain adds it under an id of its own, where the model has another.
                return bool(self._waiting)
            place = self._open.setdefault((ns, message.id or ""), len(self._waiting))
            if place == len(self._waiting):
                self._waiting.append(chunk)
            else:
                said: BaseMessage = self._waiting[place][2][0]
                self._waiting[place] = (ns, mode, (said + message, metadata))
            self._size += len(message.content)
            is_time = time.monotonic() - self._taken_at >= SECONDS
            return is_over or is_time or self._size >= CHARACTERS

    def take(self) -> list[Chunk]:
        """Remove and return what waits."""
        with self._lock:
            taken, self._waiting, self._open = self._waiting, [], {}
            self._size, self._taken_at = 0, time.monotonic()
        return taken


def _is_empty(message: BaseMessageChunk) -> bool:
    about = ("tool_call_chunks", "usage_metadata", "response_metadata", "additional_kwargs")
    return not message.content and not any(getattr(message, name, None) for name in about)


class MessageRecorder:
    """Stores what the models of a run say while they say it.

    Between the commits of the run's steps each part is one of its own, fenced as they are. What
    is left when a task ends goes with that.
    """

    def __init__(self, run: RunContext) -> None:
        self._run, self._buffer = run, MessageBuffer()

    def add(self, chunk: Chunk) -> None:
        """Add a chunk of a message, on the thread of the node that has called the model."""
        if not self._buffer.add(chunk):
            return
        context = current.get()
        # A transaction of the node's own that is undone would take it along.
        if context is None or context.once_guard.is_transacting():
            return
        root = {"thread_id": self._run.thread_id, "checkpoint_ns": ""}
        store_commit(context, Commit({"configurable": root}, chunks=self.take()), self._run)

    def take(self) -> list[Chunk]:
        """Remove and return what isn't stored yet."""
        return self._buffer.take()
