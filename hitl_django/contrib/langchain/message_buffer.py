"""Buffer of streamed message chunks that are not stored yet."""

from __future__ import annotations

import time
from threading import Lock

from langchain_core.messages import BaseMessage, BaseMessageChunk

from hitl_django.engine.savers.checkpoint import Commit
from hitl_django.engine.task.context import current, store_commit
from hitl_django.engine.task.run_context import RunContext
from hitl_django.engine.types import Chunk

#: Minimum number of seconds between two stores of streamed messages, and maximum number of buffered
#: characters.
SECONDS, CHARACTERS = 0.1, 2000


class MessageBuffer:
    """A thread-safe buffer of message chunks. Chunks of the same message are merged.

    Models may stream on several OS threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: list[Chunk] = []
        #: Indexes of the chunks that can be merged with later chunks.
        self._open: dict[tuple[tuple[str, ...], str], int] = {}
        self._size, self._taken_at = 0, -SECONDS

    def add(self, chunk: Chunk) -> bool:
        """Add a chunk, and return whether the buffer should be stored now.

        A message that arrives as a whole is stored with its super-step, not earlier.
        """
        ns, mode, (message, metadata) = chunk
        with self._lock:
            if not isinstance(message, BaseMessageChunk):
                self._waiting.append(chunk)
                return False
            is_over = getattr(message, "chunk_position", None) == "last"
            if is_over and _is_empty(message):
                # LangChain adds this empty last chunk. Its id may differ from the model's.
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
        """Remove and return the buffered chunks."""
        with self._lock:
            taken, self._waiting, self._open = self._waiting, [], {}
            self._size, self._taken_at = 0, time.monotonic()
        return taken


def _is_empty(message: BaseMessageChunk) -> bool:
    about = ("tool_call_chunks", "usage_metadata", "response_metadata", "additional_kwargs")
    return not message.content and not any(getattr(message, name, None) for name in about)


class MessageRecorder:
    """A recorder that stores the message chunks of a run's models while the models stream.

    Between the commits of super-steps, message chunks are stored in separate commits, which also
    check the lease. When a task ends, its remaining message chunks are stored together with its
    chunks of other stream modes.
    """

    def __init__(self, run: RunContext) -> None:
        self._run, self._buffer = run, MessageBuffer()

    def add(self, chunk: Chunk) -> None:
        """Add a chunk. Call this on the OS thread of the node that called the model."""
        if not self._buffer.add(chunk):
            return
        context = current.get()
        # In a transaction of the node, a rollback would also remove the chunk.
        if context is None or context.once_guard.is_transacting():
            return
        root = {"thread_id": self._run.thread_id, "checkpoint_ns": ""}
        store_commit(context, Commit({"configurable": root}, chunks=self.take()), self._run)

    def take(self) -> list[Chunk]:
        """Remove and return the chunks that have not been stored yet."""
        return self._buffer.take()
