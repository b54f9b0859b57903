"""The compiled graph, which callers invoke, stream, inspect and resume."""

from __future__ import annotations

import copy
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Generic, Literal, Self, cast

from ..arguments import check_choice
from ..channels import BaseChannel, Topic
from ..constants import RESERVED_KEYS, ROOT, START, TASKS
from ..drawing import Drawing, build_drawing
from ..drivers import AsyncDriver, SyncDriver
from ..errors import SaverFailed
from ..loop.node_cache import BaseCache, list_cache_namespaces
from ..loop.state import LoopState
from ..savers.checkpoint import BaseCheckpointSaver, Outcome
from ..state.schema import ManagedValue, check_input, get_hints, list_updates
from ..task.context import current
from ..task.graph_spec import GraphSpec
from ..task.nodes import Node, Write
from ..task.renames import build_renames
from ..task.run_context import RunContext
from ..task.runtime import RunControl
from ..types import (
    DURABILITIES,
    All,
    CachePolicy,
    Chunk,
    ContextT,
    InputT,
    OutputT,
    RetryPolicy,
    RunnableConfig,
    Send,
    StateT,
    StreamMode,
)
from . import results, run_options
from .graph_schemas import GraphSchemas
from .node_builder import NodeBuilder, build_node_map, check_graph
from .printed_chunks import DEBUG_MODES, NO_MODES, print_chunk
from .run_options import Options
from .runnable import RunnableMethods
from .subgraphs import find_called_graph, iterate_subgraphs
from .thread_states import ThreadStates
from .traced_run import atrace_run, trace_run

#: The attributes that copy() can change.
_COPIED = (
    "name", "checkpointer", "store", "cache", "step_timeout", "stream_mode", "debug", "config",
    "retry_policy", "context_schema", "interrupt_before_nodes", "interrupt_after_nodes",
)  # fmt: skip


class Pregel(
    ThreadStates, GraphSchemas, RunnableMethods, Generic[StateT, ContextT, InputT, OutputT]
):
    """A graph of nodes that communicate over channels and run in super-steps.

    Build a graph with ``StateGraph(...).compile()``. ``input_channels``, ``output_channels`` and
    ``stream_keys`` select the channels of the input, the output and the state. Each is one channel
    name or several names. With one name, the input, output or state is the value of the channel.
    With several names, the input, output or state is a dict of values by channel name.
    """

    #: If the graph is called as a node, it finds the running task without an injected config.
    reads_context = True
    #: The default of nodes and of tasks called by nodes.
    retry_policy: tuple[RetryPolicy, ...]
    #: State values that replace the stored ones before the run resumes, see with_migrated.
    migrated: Mapping[str, Any] | None = None

    def __init__(
        self,
        *,
        nodes: Mapping[str, Node | NodeBuilder],
        channels: Mapping[str, BaseChannel | ManagedValue],
        input_channels: Sequence[str] | str,
        output_channels: Sequence[str] | str,
        stream_channels: Sequence[str] | str | None = None,
        interrupt_before_nodes: All | Sequence[str] = (),
        interrupt_after_nodes: All | Sequence[str] = (),
        checkpointer: BaseCheckpointSaver | bool | None = None,
        cache: BaseCache | None = None,
        store: Any = None,
        step_timeout: float | None = None,
        stream_mode: StreamMode = "values",
        name: str = "LangGraph",
        input_schema: Any = None,
        output_schema: Any = None,
        state_schema: Any = None,
        context_schema: Any = None,
        auto_validate: bool = True,
        debug: bool = False,
        config: RunnableConfig | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] = (),
        cache_policy: CachePolicy | None = None,
    ) -> None:
        if not isinstance(checkpointer, (BaseCheckpointSaver, bool, type(None))):
            raise TypeError(
                "checkpointer must be a checkpoint saver, True, False or None, got "
                f"{type(checkpointer).__name__}"
            )
        if isinstance(retry_policy, RetryPolicy):
            retry_policy = (retry_policy,)
        self.retry_policy, self.cache_policy = tuple(retry_policy), cache_policy
        self.nodes = build_node_map(nodes, self.retry_policy, cache_policy)
        self.managed = {n: c for n, c in channels.items() if isinstance(c, ManagedValue)}
        self.channels = {
            n: c if c.key else c.bound(n)
            for n, c in channels.items()
            if not isinstance(c, ManagedValue)
        }
        self.channels.setdefault(TASKS, Topic(Send, key=TASKS))
        self.spec = GraphSpec(self.nodes, self.channels, self.managed)
        self.input_channels, self.output_channels = input_channels, output_channels
        self.output_set = frozenset(_several(output_channels))
        if stream_channels is None:
            stream_channels = [n for n in self.channels if n not in RESERVED_KEYS]
        self.stream_keys = stream_channels
        self.state_keys = _several(stream_channels)
        self.interrupt_before_nodes, self.interrupt_after_nodes = (
            interrupt_before_nodes,
            interrupt_after_nodes,
        )
        self.checkpointer, self.store, self.step_timeout = checkpointer, store, step_timeout
        self.cache, self.stream_mode, self.name = cache, stream_mode, name
        self.debug, self.config = debug, config
        self.input_type, self.output_type = input_schema, output_schema
        self.state_schema, self.context_schema = state_schema, context_schema
        if auto_validate:
            self.validate()

    def validate(self) -> Self:
        """Check that the graph's nodes, channels and breakpoints are consistent. Return the graph.

        Raises:
            ValueError: a node, a channel or a breakpoint refers to a name that doesn't exist.
        """
        stops = (self.interrupt_before_nodes, self.interrupt_after_nodes)
        check_graph(
            self.nodes,
            self.channels,
            self.managed,
            self.input_channels,
            (*_several(self.output_channels), *self.state_keys),
            [name for names in stops if names != "*" for name in names],
        )
        return self

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
        print_mode: StreamMode | Sequence[StreamMode] = (),
        output_keys: Sequence[str] | str | None = None,
        subgraphs: bool = False,
        debug: bool | None = None,
        version: Literal["v1", "v2"] = "v1",
        checkpoint_during: bool | None = None,
    ) -> Any:
        """Run the graph until it ends or pauses, and return the state.

        ``input`` is the new input, a Command, or None to resume the thread.

        If the run paused, the state contains the pending interrupts under ``"__interrupt__"``. With
        ``version="v2"``, the result is a GraphOutput with the state and the interrupts.

        With a ``stream_mode`` other than "values", the result is the list of chunks that stream()
        would yield. ``print_mode`` and ``debug`` are as for stream().

        ``durability`` determines when a checkpoint is stored: before the next super-step ("sync",
        the default), while the next super-step runs ("async"), or when the run stops ("exit").
        With ``control``, any OS thread can stop the run.

        An exception of a node is raised to the caller.
        """
        durability = _choose_durability(durability, checkpoint_during)
        modes = frozenset() if stream_mode == "values" else results.parse_modes(stream_mode)
        state = run_options.open_run_state(
            self,
            input,
            config,
            Options(
                context, interrupt_before, interrupt_after, durability, control, modes,
                self._printed_modes(print_mode, debug), subgraphs, output_keys=output_keys,
            ),
        )  # fmt: skip
        chunks = list(self._chunks(state))
        if stream_mode != "values":
            results.raise_outcome(state)
            return [
                results.convert_chunk(self, chunk, stream_mode, subgraphs, version)
                for chunk in chunks
            ]
        return results.build_result(state, version)

    def stream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        print_mode: StreamMode | Sequence[StreamMode] = (),
        subgraphs: bool = False,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: str | None = None,
        control: RunControl | None = None,
        output_keys: Sequence[str] | str | None = None,
        debug: bool | None = None,
        version: Literal["v1", "v2"] = "v1",
        checkpoint_during: bool | None = None,
    ) -> Iterator[Any]:
        """Run the graph and yield its stream chunks.

        ``stream_mode`` is one mode, or a list of modes:

        - ``values``: the state after each super-step
        - ``updates``: the writes of each node
        - ``custom``: chunks written by nodes
        - ``messages``: messages of models
        - ``tools``: tool calls
        - ``tasks``: started and finished tasks
        - ``checkpoints``: stored checkpoints
        - ``debug``: tasks and checkpoints

        The default mode is ``updates`` for a StateGraph or an entrypoint, and ``values`` for other
        graphs. With a list of modes, each chunk is ``(mode, data)``. With ``subgraphs``, each chunk
        starts with its namespace.

        With ``version="v2"``, each chunk is a dict of ``type``, ``ns`` and ``data``, and the state
        is an instance of its schema.

        Chunks of ``print_mode`` are printed, even if the stream doesn't yield them. With ``debug``,
        the modes ``updates`` and ``values`` are printed.
        """
        durability = _choose_durability(durability, checkpoint_during)
        mode = self._default_mode() if stream_mode is None else stream_mode
        options = Options(
            context, interrupt_before, interrupt_after, durability, control,
            results.parse_modes(mode), self._printed_modes(print_mode, debug), subgraphs,
            streams=True, output_keys=output_keys or self.stream_keys,
        )  # fmt: skip
        state = run_options.open_run_state(self, input, config, options)
        for chunk in self._chunks(state):
            yield results.convert_chunk(self, chunk, mode, subgraphs, version)
        results.raise_outcome(state)

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
        print_mode: StreamMode | Sequence[StreamMode] = (),
        output_keys: Sequence[str] | str | None = None,
        subgraphs: bool = False,
        debug: bool | None = None,
        version: Literal["v1", "v2"] = "v1",
        checkpoint_during: bool | None = None,
    ) -> Any:
        """Async variant of invoke."""
        durability = _choose_durability(durability, checkpoint_during)
        modes = frozenset() if stream_mode == "values" else results.parse_modes(stream_mode)
        state = run_options.open_run_state(
            self,
            input,
            config,
            Options(
                context, interrupt_before, interrupt_after, durability, control, modes,
                self._printed_modes(print_mode, debug), subgraphs, output_keys=output_keys,
            ),
        )  # fmt: skip
        chunks = [chunk async for chunk in self._achunks(state)]
        if stream_mode != "values":
            results.raise_outcome(state)
            return [
                results.convert_chunk(self, chunk, stream_mode, subgraphs, version)
                for chunk in chunks
            ]
        return results.build_result(state, version)

    async def astream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        print_mode: StreamMode | Sequence[StreamMode] = (),
        subgraphs: bool = False,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: str | None = None,
        control: RunControl | None = None,
        output_keys: Sequence[str] | str | None = None,
        debug: bool | None = None,
        version: Literal["v1", "v2"] = "v1",
        checkpoint_during: bool | None = None,
    ) -> AsyncIterator[Any]:
        """Async variant of stream."""
        durability = _choose_durability(durability, checkpoint_during)
        mode = self._default_mode() if stream_mode is None else stream_mode
        options = Options(
            context, interrupt_before, interrupt_after, durability, control,
            results.parse_modes(mode), self._printed_modes(print_mode, debug), subgraphs,
            streams=True, output_keys=output_keys or self.stream_keys,
        )  # fmt: skip
        state = run_options.open_run_state(self, input, config, options)
        async with aclosing(self._achunks(state)) as chunks:
            async for chunk in chunks:
                yield results.convert_chunk(self, chunk, mode, subgraphs, version)
        results.raise_outcome(state)

    # The methods below store the input first and then run from the stored state.

    def submit(
        self, input: Any, config: RunnableConfig, *, modes: frozenset[str] = frozenset()
    ) -> str:
        """Store ``input`` as the thread's next checkpoint without running a node.

        Return the id of the thread's newest checkpoint after the call. Stream chunks of the
        ``modes`` are stored with the checkpoint, as by ``advance``. If an error is raised, nothing
        is stored.

        Raises:
            EmptyInputError: the input contains no value for the graph.
            PendingInterruptsError: the thread has pending interrupts.
            InvalidUpdateError: a channel can't accept the input.
        """
        options = Options(before=(), after=(), modes=modes, kind="submit")
        state = run_options.open_run_state(self, input, config, options)
        for chunk in self._chunks(state):
            state.commits.chunks.append(chunk)
        assert state.commits.saved_id is not None
        return state.commits.saved_id

    def advance(
        self,
        config: RunnableConfig,
        *,
        control: RunControl | None = None,
        modes: frozenset[str] = frozenset(),
        subgraphs: bool = False,
        keep: Callable[[Any], Any] | None = None,
        durability: str | None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        context: Any = None,
    ) -> Outcome:
        """Run the thread from its stored state, and return the outcome.

        The same call starts, resumes and recovers a run, because resume values are read from the
        pending writes of the interrupted tasks. A failure of a node is returned as an outcome.
        Exceptions of the saver and KeyboardInterrupt are raised.

        The commits passed to the saver contain the stream chunks of the ``modes``. With
        ``subgraphs``, they also contain the chunks of subgraphs. ``keep`` is called with the data
        of chunks that a node's stream writer or a subgraph emits. The result of ``keep`` is stored
        in place of the data. ``durability`` and the breakpoints are as for ``invoke``. ``context``
        is a result of ``encode_context``.
        """
        options = Options(
            self.decode_context(context), interrupt_before, interrupt_after, durability, control,
            modes, subgraphs=subgraphs, kind="advance", keep=keep,
        )  # fmt: skip
        state = run_options.open_run_state(self, None, config, options)
        for chunk in self._chunks(state):
            state.commits.chunks.append(chunk)
        assert state.outcome is not None
        return state.outcome

    def validate_input(self, input: Any) -> None:
        """Raise InvalidInputError unless ``input`` fits the input schema.

        A missing field is valid, because nodes may set it. An unknown field is invalid.
        """
        check_input(get_hints(self.input_type), self.input_type, input)

    def get_graph(
        self, config: RunnableConfig | None = None, *, xray: int | bool = False
    ) -> Drawing:
        """Return a drawing of the graph: its nodes and edges.

        If ``xray`` is True, the nodes of each subgraph replace the node that calls the subgraph. If
        ``xray`` is a number, this applies to that number of levels of subgraphs. ``config`` is
        accepted for compatibility with LangGraph.
        """
        return build_drawing(self, xray)

    async def aget_graph(
        self, config: RunnableConfig | None = None, *, xray: int | bool = False
    ) -> Drawing:
        """Async variant of get_graph."""
        return self.get_graph(config, xray=xray)

    def input_writes(self, value: Any) -> list[Write]:
        """Return the channel writes of an input.

        A state object counts as a dict of the fields it sets.
        """
        keys = self.input_channels
        if value is None:
            return []
        if isinstance(keys, str):
            if (
                keys == START
                and type(value) is not dict  # This check is faster than the check for any Mapping.
                and not isinstance(value, Mapping)
                and START in self.nodes
                and ROOT not in self.channels
                and get_hints(type(value))
            ):
                value = dict(list_updates(value, frozenset(self.channels)))
            return [(keys, value)]
        if not isinstance(value, dict):
            raise TypeError(f"Expected chunk to be a dict, got {type(value).__name__}")
        return [(key, value[key]) for key in value if key in keys]

    def update_writes(self, update: Any) -> list[Write]:
        """Return the channel writes of a Command's ``update``."""
        if update is None:
            return []
        if ROOT in self.channels:
            return [(ROOT, update)]
        if isinstance(update, Mapping):
            return list(update.items())
        if isinstance(update, (list, tuple)) and all(
            isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)
            for item in update
        ):
            return list(update)
        if get_hints(type(update)):
            return list_updates(update, frozenset(self.state_keys))
        return [(ROOT, update)]

    def clear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Delete the cached results of ``nodes``, or of all nodes of this graph."""
        self._known_cache().clear(list_cache_namespaces(self.nodes, nodes))

    async def aclear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Async variant of clear_cache."""
        await self._known_cache().aclear(list_cache_namespaces(self.nodes, nodes))

    def _known_cache(self) -> BaseCache:
        if self.cache is None:
            raise ValueError("No cache is set for this graph. Cannot clear cache.")
        return self.cache

    def get_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> Iterator[tuple[str, Pregel]]:
        """Yield the subgraphs called by nodes, each with its path of node names.

        ``namespace`` selects the subgraph with this path. With ``recurse``, subgraphs of subgraphs
        are included.
        """
        found = iterate_subgraphs(self, namespace, recurse)
        yield from cast("Iterator[tuple[str, Pregel]]", found)

    async def aget_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> AsyncIterator[tuple[str, Pregel]]:
        """Async variant of get_subgraphs."""
        for found in self.get_subgraphs(namespace=namespace, recurse=recurse):
            yield found

    def subgraph_of(self, name: str) -> Pregel | None:
        """Return the subgraph called by a node, or None if no call can be detected.

        The result is also None if the subgraph has ``checkpointer=False``. If the node's function
        refers to the graph that contains the node, the result is None, because the function might
        only read this graph's state.
        """
        called = cast("Pregel | None", find_called_graph(self.nodes[name].action))
        if called is None or called.checkpointer is False or called.nodes is self.nodes:
            return None
        return called

    def copy(self, update: Mapping[str, Any] | None = None) -> Self:
        """Return a copy of the graph with changed attributes, given in ``update``.

        Raises:
            ValueError: ``update`` contains an attribute that copies can't change.
        """
        twin = copy.copy(self)
        for name, value in (update or {}).items():
            if name not in _COPIED:
                raise ValueError(f"copy() can't change {name}; it can change {', '.join(_COPIED)}.")
            setattr(twin, name, value)
        return twin

    def with_renames(self, renamed: Mapping[str, str]) -> Self:
        """Return a copy of the graph that can resume threads stored under former names.

        ``renamed`` maps former names of nodes and state keys to their new names.

        Raises:
            GraphDefinitionError: a former name still exists, or a new name doesn't exist.
        """
        twin = copy.copy(self)
        renames = build_renames(renamed, self.nodes, self.channels)
        twin.spec = GraphSpec(self.nodes, self.channels, self.managed, renames)
        return twin

    def with_migrated(self, values: Mapping[str, Any]) -> Self:
        """Return a copy of the graph that replaces a thread's stored state with ``values``.

        ``values`` is the thread's state after a migration, and is stored with the next checkpoint.
        """
        twin = copy.copy(self)
        twin.migrated = values
        return twin

    def with_saver(self, saver: BaseCheckpointSaver | bool | None) -> Pregel:
        """Return a copy of the graph with ``saver`` as its checkpointer."""
        # Each segment of a run makes this copy, and copy.copy() takes several times as long.
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__, checkpointer=saver)
        return twin

    def _default_mode(self) -> StreamMode:
        return self.stream_mode if current.get() is None else "values"

    def _printed_modes(
        self, print_mode: StreamMode | Sequence[StreamMode], debug: bool | None
    ) -> frozenset[str]:
        if debug or (debug is None and self.debug):
            return DEBUG_MODES
        return results.parse_modes(print_mode) if print_mode else NO_MODES

    def _chunks(self, state: LoopState) -> Iterator[Chunk]:
        driver = SyncDriver(state, state.job.max_concurrency)
        state.run.emit, state.run.loop_state = _choose_emit(state, driver), state
        try:
            for chunk in driver if state.run.trace is None else trace_run(state, driver):
                if state.forward is not None and chunk[1] in state.run.forwards:
                    state.forward(chunk)
                if chunk[1] in state.printed:
                    print_chunk(chunk, state.run.subgraphs)
                if chunk[1] in state.wanted:
                    yield chunk
        except SaverFailed as failed:
            if state.run.within:
                raise
            raise failed.error from None
        finally:
            _release_driver(state.run)

    async def _achunks(self, state: LoopState) -> AsyncGenerator[Chunk]:
        driver = AsyncDriver(state, state.job.max_concurrency)
        state.run.emit, state.run.loop_state = _choose_emit(state, driver), state
        driven = driver.iterate_chunks()
        chunks = driven if state.run.trace is None else atrace_run(state, driven)
        try:
            async for chunk in chunks:
                if state.forward is not None and chunk[1] in state.run.forwards:
                    state.forward(chunk)
                if chunk[1] in state.printed:
                    print_chunk(chunk, state.run.subgraphs)
                if chunk[1] in state.wanted:
                    yield chunk
        except SaverFailed as failed:
            if state.run.within:
                raise
            raise failed.error from None
        finally:
            # An abandoned stream must cancel its tasks now, not at garbage collection.
            await chunks.aclose()
            _release_driver(state.run)


def _choose_durability(durability: str | None, checkpoint_during: bool | None) -> str | None:
    if durability is not None:
        check_choice("durability", durability, DURABILITIES)
    if checkpoint_during is None:
        return durability
    if durability is not None:
        raise ValueError("Pass either durability or checkpoint_during (deprecated), not both.")
    warnings.warn(
        "checkpoint_during is deprecated; use durability.", DeprecationWarning, stacklevel=3
    )
    return "async" if checkpoint_during else "exit"


def _several(names: Sequence[str] | str) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _choose_emit(state: LoopState, driver: SyncDriver | AsyncDriver) -> Callable[[Chunk], None]:
    """Return the function that receives the chunks of running nodes.

    If the run is called by a node of a LangGraph graph and the caller requests no chunks, the
    chunks are sent directly to LangGraph's stream.
    """
    if state.run.host is None or state.forward is None or state.wanted or state.printed:
        return driver.emit
    return state.forward


def _release_driver(run: RunContext) -> None:
    """Break the reference cycle between a run and its driver."""
    run.emit, run.spawner = run_options.drop_chunk, None
    del run.loop_state
