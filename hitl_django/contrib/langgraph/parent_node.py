"""A node of LangGraph's as what a graph of ours runs in: its saver, its stream, its answers."""

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
    """The answer that names no question: of all that the node calls, who asks first takes it.

    The engine looks whether there is one where it needs one; LangGraph gives it away but once.
    """

    def __init__(self, scratchpad: Any) -> None:
        self._scratchpad = scratchpad
        self._taken: list[Any] = []

    def __len__(self) -> int:
        if not self._taken and (found := self._scratchpad.get_null_resume(True)) is not None:
            self._taken.append(found)
        return len(self._taken)

    def pop(self) -> Any:
        """Return the answer."""
        return self._taken.pop()


class ParentNode:
    """The node of LangGraph's that a call is made in, as its config tells of it.

    What is asked below it is asked by the node, and answered through it: ``answers`` are those by
    the ids of questions, ``wildcard`` is the one that names none.
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
        #: The stream modes of which the stream around has what graphs below do.
        self.modes = frozenset(self._stream.modes if self._stream else ())

    def emit(self, chunk: Chunk) -> None:
        """Pass a chunk on to the stream of the graph around."""
        ns, mode, data = chunk
        if isinstance(data, dict) and data.get(INTERRUPT):
            data = {**data, INTERRUPT: convert_to_theirs(INTERRUPT, data[INTERRUPT])}
        if self._stream is not None:
            self._stream((ns, mode, data))

    def convert_failure(self, failure: BaseException) -> BaseException:
        """Return what is raised to the node: a pause, or a Command for the graph around, as its.

        Any other failure is the user's.
        """
        if isinstance(failure, GraphInterrupt):
            asked: Sequence[Any] = [one.interrupt for one in failure.interrupts]
            return ForeignPause(convert_to_theirs(INTERRUPT, asked))
        if isinstance(failure, ParentCommand):
            return ForeignParentCommand(convert_command(failure.command, self._task_ns))
        return failure
