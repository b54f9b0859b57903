"""The LangGraph node that calls an engine graph, with the node's saver, stream and responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph._internal import _constants as keys
from langgraph.errors import GraphInterrupt as ForeignPause
from langgraph.errors import ParentCommand as ForeignParentCommand

from hitl_django.engine.constants import INTERRUPT, NS_SEP
from hitl_django.engine.errors import GraphInterrupt, ParentCommand
from hitl_django.engine.types import Chunk

from .conversions import convert_command, convert_to_theirs
from .parent_saver import ParentSaver


class _PlainAnswer:
    """A response without an interrupt id. The first interrupt in the node receives the response.

    The engine first checks whether a response exists and reads it later, but LangGraph returns a
    response only once. This object keeps the response.
    """

    def __init__(self, scratchpad: Any) -> None:
        self._scratchpad = scratchpad
        self._taken: list[Any] = []

    def __len__(self) -> int:
        if not self._taken and (found := self._scratchpad.get_null_resume(True)) is not None:
            self._taken.append(found)
        return len(self._taken)

    def pop(self) -> Any:
        """Return the response, and mark it as used."""
        return self._taken.pop()


class ParentNode:
    """The LangGraph node that calls an engine graph, read from the node's config.

    Interrupts of the engine graph are created and resolved by the node. ``answers`` are the
    responses by interrupt id. ``wildcard`` is a response without an id.
    """

    def __init__(self, configurable: Mapping[str, Any]) -> None:
        self._stream = configurable.get(keys.CONFIG_KEY_STREAM)
        scratchpad = configurable[keys.CONFIG_KEY_SCRATCHPAD]
        saver = configurable.get(keys.CONFIG_KEY_CHECKPOINTER)
        self.saver = ParentSaver(saver) if saver else None
        self.thread_id = configurable.get("thread_id")
        count = scratchpad.subgraph_counter()
        self._task_ns = configurable["checkpoint_ns"]
        self.ns = f"{self._task_ns}{NS_SEP}{count}" if count else self._task_ns
        self.resuming = bool(configurable.get(keys.CONFIG_KEY_RESUMING))
        self.durability = configurable.get(keys.CONFIG_KEY_DURABILITY)
        self.answers: dict[str, Any] = dict(configurable.get(keys.CONFIG_KEY_RESUME_MAP) or {})
        self.wildcard = _PlainAnswer(scratchpad)
        runtime = configurable[keys.CONFIG_KEY_RUNTIME]
        self.context, self.store = runtime.context, runtime.store
        #: Stream modes in which the stream of the parent graph includes subgraphs.
        self.modes = frozenset(self._stream.modes if self._stream else ())

    def emit(self, chunk: Chunk) -> None:
        """Pass a chunk to the stream of the LangGraph graph."""
        ns, mode, data = chunk
        if isinstance(data, dict) and data.get(INTERRUPT):
            data = {**data, INTERRUPT: convert_to_theirs(INTERRUPT, data[INTERRUPT])}
        if self._stream is not None:
            self._stream((ns, mode, data))

    def convert_failure(self, failure: BaseException) -> BaseException:
        """Convert a pause, or a Command for the calling graph, to LangGraph's exception.

        Any other exception is returned unchanged.
        """
        if isinstance(failure, GraphInterrupt):
            asked: Sequence[Any] = [one.interrupt for one in failure.interrupts]
            return ForeignPause(convert_to_theirs(INTERRUPT, asked))
        if isinstance(failure, ParentCommand):
            return ForeignParentCommand(convert_command(failure.command, self._task_ns))
        return failure
