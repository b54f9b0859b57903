"""A compiled graph: what callers invoke, stream, inspect and resume."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from . import snapshots
from .channels import BaseChannel
from .checkpoint import BaseCheckpointSaver, Outcome
from .constants import INTERRUPT, NS_END, NS_SEP, ROOT
from .context import RunContext, RunControl, Runtime, TaskContext, current
from .drivers import AsyncDriver, SyncDriver
from .effects import Job
from .errors import GraphInterrupt
from .loop import Loop
from .nodes import Node, Write
from .plan import Blueprint
from .schema import ManagedValue, check_input, hints_of, is_model, json_schema, updates_of
from .stream import Chunk
from .types import All, RunnableConfig, StateSnapshot, StreamMode

DEFAULT_RECURSION_LIMIT = 1000
_COORDINATES = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")


class Pregel:
    """Nodes over channels, advanced in super-steps.

    Build one with ``StateGraph(...).compile()``. ``input_keys``, ``output_keys`` and
    ``stream_keys`` name channels: one for its bare value, several for a dict.
    """

    #: A graph called as a node finds the running task by itself.
    reads_context = True

    def __init__(
        self,
        *,
        nodes: Mapping[str, Node],
        channels: Mapping[str, BaseChannel],
        managed: Mapping[str, ManagedValue] | None = None,
        input_keys: Sequence[str] | str,
        output_keys: Sequence[str] | str,
        stream_keys: Sequence[str] | str | None = None,
        checkpointer: BaseCheckpointSaver | bool | None = None,
        store: Any = None,
        interrupt_before: All | Sequence[str] = (),
        interrupt_after: All | Sequence[str] = (),
        name: str = "LangGraph",
        input_schema: Any = None,
        output_schema: Any = None,
        state_schema: Any = None,
        context_schema: Any = None,
    ) -> None:
        self.nodes, self.channels, self.managed = nodes, channels, managed or {}
        self.blueprint = Blueprint(nodes, channels, self.managed)
        self.input_keys, self.output_keys = input_keys, output_keys
        self.output_set = frozenset(
            (output_keys,) if isinstance(output_keys, str) else output_keys
        )
        self.stream_keys = output_keys if stream_keys is None else stream_keys
        self.state_keys = (
            (self.stream_keys,) if isinstance(self.stream_keys, str) else tuple(self.stream_keys)
        )
        self.checkpointer, self.store = checkpointer, store
        self.interrupt_before, self.interrupt_after = interrupt_before, interrupt_after
        self.name = name
        self.input_schema, self.output_schema = input_schema, output_schema
        self.state_schema, self.context_schema = state_schema, context_schema
        if not isinstance(checkpointer, (BaseCheckpointSaver, bool, type(None))):
            raise TypeError(
                "checkpointer must be a checkpoint saver, True, False or None, got "
                f"{type(checkpointer).__name__}"
            )

    # Running.

    def invoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: str | None = None,
        control: RunControl | None = None,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
    ) -> Any:
        """Runs the graph to its end or its next question; returns the state.

        ``input`` is the new input, a Command, or None to go on. A run that stopped to ask carries
        its questions under ``"__interrupt__"``. Raises what a node raised.
        """
        loop = self._loop(
            input, config, context, interrupt_before, interrupt_after, durability, control,
            modes=() if stream_mode == "values" else stream_mode,
        )  # fmt: skip
        chunks = list(self._chunks(loop, config))
        if stream_mode != "values":
            return [_unpacked(chunk, stream_mode, False) for chunk in chunks]
        return _result(loop)

    def stream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        subgraphs: bool = False,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: str | None = None,
        control: RunControl | None = None,
    ) -> Iterator[Any]:
        """Runs the graph and yields what it tells while it goes.

        ``stream_mode`` is ``values`` (the state after each super-step), ``updates`` (what each
        node wrote; the default), ``custom``, ``tasks``, ``checkpoints`` or ``debug``; with a list
        of modes each chunk comes as ``(mode, data)``. With ``subgraphs`` it starts with the
        namespace.
        """
        mode = stream_mode or ("updates" if current.get() is None else "values")
        loop = self._loop(
            input, config, context, interrupt_before, interrupt_after, durability, control,
            modes=mode, subgraphs=subgraphs, live=True,
        )  # fmt: skip
        for chunk in self._chunks(loop, config):
            yield _unpacked(chunk, mode, subgraphs)
        _raise_outcome(loop)

    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: str | None = None,
        control: RunControl | None = None,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
    ) -> Any:
        """Like invoke, on the running event loop."""
        loop = self._loop(
            input, config, context, interrupt_before, interrupt_after, durability, control,
            modes=() if stream_mode == "values" else stream_mode,
        )  # fmt: skip
        chunks = [chunk async for chunk in self._achunks(loop, config)]
        if stream_mode != "values":
            return [_unpacked(chunk, stream_mode, False) for chunk in chunks]
        return _result(loop)

    async def astream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        subgraphs: bool = False,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: str | None = None,
        control: RunControl | None = None,
    ) -> AsyncIterator[Any]:
        """Like stream, on the running event loop."""
        mode = stream_mode or ("updates" if current.get() is None else "values")
        loop = self._loop(
            input, config, context, interrupt_before, interrupt_after, durability, control,
            modes=mode, subgraphs=subgraphs, live=True,
        )  # fmt: skip
        async for chunk in self._achunks(loop, config):
            yield _unpacked(chunk, mode, subgraphs)
        _raise_outcome(loop)

    # Running from rows: the input is stored first, the run goes on from what is stored.

    def submit(self, input: Any, config: RunnableConfig) -> str:
        """Stores ``input`` as the thread's next checkpoint and runs nothing.

        Returns the checkpoint's id. Raises EmptyInputError, OpenQuestionsError or what an
        invalid update raises, with nothing stored.
        """
        loop = self._loop(input, config, None, (), (), None, None, kind="submit")
        for _ in self._chunks(loop, config):
            pass
        return loop.origin.checkpoint_id

    def advance(self, config: RunnableConfig, *, control: RunControl | None = None) -> Outcome:
        """Goes on from what is stored of the thread, and returns how the run left off.

        First start, resume and recovery are this one call: answers are found among the pending
        writes of the tasks that asked. A failure of a node is an outcome, not an exception;
        what the saver raises, and a BaseException such as SystemExit, passes through.
        """
        loop = self._loop(None, config, None, None, None, None, control, kind="advance")
        for _ in self._chunks(loop, config):
            pass
        assert loop.outcome is not None
        return loop.outcome

    def validate_input(self, input: Any) -> None:
        """Raises InvalidInputError unless ``input`` fits the input schema.

        A missing field is no fault, as nodes may fill it; an unknown field is.
        """
        check_input(hints_of(self.input_schema), self.input_schema, input)

    def input_json_schema(self) -> dict[str, Any]:
        """Returns the JSON schema of the input."""
        return json_schema(self.input_schema)

    # State.

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Returns the state of a thread.

        Without the key ``checkpoint_id`` it is the live view: what finished tasks wrote is
        applied, ``next`` names what still has to run, ``interrupts`` are the questions that wait.
        With the key (even when it is None) it is the record of that super-step.
        """
        return snapshots.state(self, config, subgraphs)

    def get_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """Yields the recorded states of a thread, newest first."""
        yield from snapshots.history(self, config, filter, before, limit)

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Like get_state."""
        return await snapshots.astate(self, config, subgraphs)

    async def aget_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """Like get_state_history."""
        async for snapshot in snapshots.ahistory(self, config, filter, before, limit):
            yield snapshot

    def checkpoint_chunk(self, loop: Loop) -> dict[str, Any]:
        """Returns the ``checkpoints`` chunk of the checkpoint a loop stands at."""
        return snapshots.checkpoint_chunk(self, loop)

    def update_writes(self, update: Any) -> list[Write]:
        """Returns the channel writes in the ``update`` of a Command."""
        if update is None:
            return []
        if isinstance(update, Mapping):
            return list(update.items())
        if isinstance(update, (list, tuple)) and all(
            isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)
            for item in update
        ):
            return list(update)
        if hints_of(type(update)):
            return updates_of(update, frozenset(self.state_keys))
        return [(ROOT, update)]

    # Variants.

    def with_saver(self, saver: BaseCheckpointSaver | bool | None) -> Pregel:
        """Returns the same graph with another checkpointer."""
        twin = copy.copy(self)
        twin.checkpointer = saver
        return twin

    @property
    def saver(self) -> BaseCheckpointSaver | None:
        """The saver of a root run."""
        if self.checkpointer is True:
            raise RuntimeError("checkpointer=True cannot be used for root graphs.")
        return self.checkpointer if isinstance(self.checkpointer, BaseCheckpointSaver) else None

    # From a call to a loop.

    def _loop(
        self,
        input: Any,
        config: RunnableConfig | None,
        context: Any,
        before: All | Sequence[str] | None,
        after: All | Sequence[str] | None,
        durability: str | None,
        control: RunControl | None,
        *,
        modes: StreamMode | Sequence[StreamMode] = (),
        kind: str = "call",
        subgraphs: bool = False,
        live: bool = False,
    ) -> Loop:
        config = config or {}
        place = config.get("configurable") or {}
        parent = current.get()
        if parent is not None and any(place.get(key) for key in _COORDINATES):
            # Its own coordinates make it a run of its own, unless they are the ones it was handed.
            if place.get("checkpoint_ns") != parent.task.ns:
                parent = None
        limit = config.get("recursion_limit", DEFAULT_RECURSION_LIMIT)
        if limit < 1:
            raise ValueError("recursion_limit must be at least 1")
        wanted = frozenset((modes,) if isinstance(modes, str) else modes)
        run, ns = (
            self._root_run(config, place, context, durability, control, wanted, subgraphs)
            if parent is None
            else self._nested_run(parent, config, context, durability, control, wanted, subgraphs)
        )
        run.live = live and (subgraphs or "custom" in wanted)
        run.passes_breakpoints = kind == "call" if parent is None else run.passes_breakpoints
        checkpoint_id = place.get("checkpoint_id") if parent is None else None
        job = Job(
            kind=kind if parent is None else "call",
            input=input,
            ns=ns,
            checkpoint_id=checkpoint_id,
            addressed=checkpoint_id is not None,
            nested=parent is not None,
            recursion_limit=limit,
            before=self.interrupt_before if before is None else before,
            after=self.interrupt_after if after is None else after,
            discard_pending=bool(place.get("discard_pending")),
        )
        return Loop(self, job, run, wanted)

    def _root_run(
        self,
        config: RunnableConfig,
        place: Mapping[str, Any],
        context: Any,
        durability: str | None,
        control: RunControl | None,
        modes: frozenset[str],
        subgraphs: bool,
    ) -> tuple[RunContext, str]:
        saver = self.saver
        thread_id = place.get("thread_id")
        if saver is not None and thread_id is None:
            raise ValueError(
                "The graph has a checkpointer, so the config has to name the thread: "
                '{"configurable": {"thread_id": ...}}.'
            )
        run = RunContext(
            config=config,
            saver=saver,
            thread_id=None if thread_id is None else str(thread_id),
            store=self.store,
            runtime=Runtime(context=self._coerced_context(context)),
            control=control,
            durability=durability or config.get("durability", "sync"),
            modes=modes,
            emit=_drop,
            forwards=frozenset(),
            subgraphs=subgraphs,
            live=False,
            perform=_perform,
            answers={},
            passes_breakpoints=True,
        )
        return run, place.get("checkpoint_ns") or ""

    def _nested_run(
        self,
        parent: TaskContext,
        config: RunnableConfig,
        context: Any,
        durability: str | None,
        control: RunControl | None,
        modes: frozenset[str],
        subgraphs: bool,
    ) -> tuple[RunContext, str]:
        above = parent.run
        ns = parent.child_ns()
        if self.checkpointer is True:
            # One history per thread: named by the path of nodes, whichever task calls.
            ns = NS_SEP.join(part.partition(NS_END)[0] for part in ns.split(NS_SEP))
        forwards = above.modes if above.subgraphs else above.modes & {"custom"}
        run = RunContext(
            config={**above.config, **config} if config else above.config,
            saver=None if self.checkpointer is False else above.saver,
            thread_id=above.thread_id,
            store=self.store or above.store,
            runtime=(
                above.runtime
                if context is None
                else Runtime(context=self._coerced_context(context))
            ),
            control=control or above.control,
            durability=durability or above.durability,
            modes=modes | forwards,
            emit=_drop,
            forwards=forwards,
            subgraphs=subgraphs or above.subgraphs,
            live=False,
            perform=parent.perform,
            answers=above.answers,
            passes_breakpoints=above.passes_breakpoints,
        )
        run.resuming = above.resuming or parent.retrying
        origin = parent.task.origin
        if above.saver is not None:
            run.checkpoint_ids = {**above.checkpoint_ids, origin.ns: origin.checkpoint_id}
        return run, ns

    def _coerced_context(self, context: Any) -> Any:
        schema = self.context_schema
        if context is None or schema is None or not isinstance(context, dict):
            return context
        if is_model(schema) or hasattr(schema, "__dataclass_fields__"):
            return schema(**context)
        return context

    def _chunks(self, loop: Loop, config: RunnableConfig | None) -> Iterator[Chunk]:
        driver = SyncDriver(loop, (config or {}).get("max_concurrency"))
        loop.run.emit = driver.emit
        parent = current.get() if loop.job.nested else None
        for chunk in driver:
            if parent is not None and chunk[1] in loop.run.forwards:
                parent.run.emit(chunk)
            if chunk[1] in loop.wanted:
                yield chunk

    async def _achunks(self, loop: Loop, config: RunnableConfig | None) -> AsyncIterator[Chunk]:
        driver = AsyncDriver(loop, (config or {}).get("max_concurrency"))
        loop.run.emit = driver.emit
        parent = current.get() if loop.job.nested else None
        async for chunk in driver.chunks_of():
            if parent is not None and chunk[1] in loop.run.forwards:
                parent.run.emit(chunk)
            if chunk[1] in loop.wanted:
                yield chunk


def _drop(chunk: Chunk) -> None:
    """Takes what nobody listens to."""


def _perform(function: Any, *args: Any) -> Any:
    return function(*args)


def _unpacked(chunk: Chunk, modes: Any, subgraphs: bool) -> Any:
    ns, mode, data = chunk
    if isinstance(modes, str):
        return (ns, data) if subgraphs else data
    return (ns, mode, data) if subgraphs else (mode, data)


def _raise_outcome(loop: Loop) -> None:
    """Raises what an outcome means to a caller: an error, or for a parent task its pause."""
    outcome = loop.outcome
    if outcome is None:
        return
    if outcome.error is not None:
        raise outcome.error
    if outcome.status == "interrupted" and loop.job.nested:
        raise GraphInterrupt(outcome.questions)


def _result(loop: Loop) -> Any:
    _raise_outcome(loop)
    assert loop.outcome is not None
    values = loop.values() if loop.has_values else None
    asked = [q.interrupt for q in loop.outcome.questions if q.kind == "interrupt"]
    if not asked:
        return values
    return {**values, INTERRUPT: asked} if isinstance(values, dict) else {INTERRUPT: asked}


