"""The options of a call, and the initial state of the run that the call starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..arguments import check_mapping
from ..bridges import (
    find_ambient_variable,
    find_langchain,
    find_langgraph,
    is_langgraph_config,
    is_traced,
)
from ..constants import NS_END, NS_SEP
from ..drivers.timeouts import TimedContext
from ..loop.chunks import make_nested_sink
from ..loop.compiled_graph import CompiledGraph
from ..loop.state import LoopState, RunRequest
from ..state.schema import is_model
from ..task.ambient_config import AMBIENT_CONFIG
from ..task.chunk_buffer import ChunkBuffer
from ..task.context import TaskContext, current
from ..task.renames import Renames
from ..task.run_context import RunContext
from ..task.runtime import RunControl, Runtime
from ..task.tool_stream import ToolStream
from ..types import All, Chunk, RunnableConfig
from .run_config import COORDINATES, merge_configs

#: LangGraph's default. Runs of a worker use the setting RECURSION_LIMIT.
DEFAULT_RECURSION_LIMIT = 10_007
#: The prefix of LangGraph's config keys.
_OF_LANGGRAPH = "__pregel_"
_NO_CONTEXT: Runtime[Any] = Runtime()


@dataclass(slots=True)
class Options:
    context: Any = None
    before: All | Sequence[str] | None = None
    after: All | Sequence[str] | None = None
    durability: str | None = None
    control: RunControl | None = None
    modes: frozenset[str] = frozenset()
    printed: frozenset[str] = frozenset()
    subgraphs: bool = False
    streams: bool = False
    output_keys: Sequence[str] | str | None = None
    kind: str = "call"
    keep: Callable[[Any], Any] | None = None


def open_run_state(
    graph: CompiledGraph, input: Any, config: RunnableConfig | None, options: Options
) -> LoopState:
    """Return the state of the run that a call starts, before the first super-step of the run.

    Raises:
        TypeError: the config, or its ``configurable``, isn't a mapping.
        ValueError: the config is invalid.
    """
    caller, variable = current.get(), find_ambient_variable()
    ambient = None if variable is None else variable.get()
    check_mapping("config", config or {})
    config = (config or {}) if graph.config is None else merge_configs(graph.config, config)
    configurable = config.get("configurable") or {}
    check_mapping('config["configurable"]', configurable)
    parent, host = _find_parent_task(caller, configurable), None
    if ambient is not None:
        config = _merge_ambient_config(ambient, config, caller, parent)
        configurable = config.get("configurable") or {}
    if caller is None and is_langgraph_config(configurable):
        host = find_langgraph().ParentNode(configurable)
        configurable = {k: v for k, v in configurable.items() if not k.startswith(_OF_LANGGRAPH)}
        config = {**config, "configurable": configurable}
    limit = config.get("recursion_limit", DEFAULT_RECURSION_LIMIT)
    if limit < 1:
        raise ValueError("recursion_limit must be at least 1")
    if (config.get("max_concurrency") or 0) < 0:
        raise ValueError("max_concurrency must be at least 1, or 0 for no limit")
    if host is not None:
        run, ns = _make_hosted_run(graph, config, options, host), graph.nested_ns(host.ns)
        checkpoint_id = None
    elif parent is None:
        run, ns = _make_root_run(graph, config, configurable, options), ""
        # A root run's namespace addresses a subgraph's checkpoint. The checkpoint map contains the
        # subgraph's checkpoint and the checkpoint where the root starts.
        checkpoint_id = (
            None if configurable.get("checkpoint_ns") else configurable.get("checkpoint_id")
        )
    else:
        ns = graph.nested_ns(parent.child_ns())
        run, checkpoint_id = _make_nested_run(graph, parent, config, options), None
    if caller is not None:
        # A separate run started by a node makes its saver calls on the caller's OS thread.
        run.within, run.perform, run.calls_home = True, caller.perform, not caller.is_async
        run.savers = {*run.savers, *caller.run.savers}
        if parent is None and caller.run.tool_stream is not None:
            run.tool_stream = caller.run.tool_stream.drop_narrow()
    run.ambient_config = variable
    _join_langchain(run, graph.name, ns, options)
    has_node_chunks = not options.modes.isdisjoint(("custom", "messages", "tools"))
    run.live = options.streams and (options.subgraphs or has_node_chunks)
    checkpoint_id = run.checkpoint_map.get(ns) or checkpoint_id
    nested = parent is not None or host is not None
    job = RunRequest(
        kind="call" if nested else options.kind,
        input=input,
        ns=ns,
        checkpoint_id=checkpoint_id,
        addressed=checkpoint_id is not None,
        nested=nested,
        recursion_limit=limit,
        before=graph.interrupt_before_nodes if options.before is None else options.before,
        after=graph.interrupt_after_nodes if options.after is None else options.after,
        discard_pending=bool(configurable.get("discard_pending")),
        answers_ns="" if nested else configurable.get("checkpoint_ns") or "",
        max_concurrency=config.get("max_concurrency"),
        former_ns=_list_former_ns(graph, parent),
    )
    state = LoopState(graph, job, run, options.modes, options.output_keys, options.printed)
    if parent is not None:
        state.forward = make_nested_sink(state, parent)
    elif host is not None:
        state.forward = host.emit
    return state


def _merge_ambient_config(
    ambient: Any,
    config: RunnableConfig,
    caller: TaskContext | None,
    parent: TaskContext | None,
) -> RunnableConfig:
    """Return a call's config merged with ``ambient``.

    ``ambient`` is the config of the surrounding LangChain chain. ``caller`` is the task whose node
    makes the call, or None outside of nodes. With a ``caller``, only the callbacks of ``ambient``
    are merged. ``parent`` is the same task if the call starts a nested run, and None if the call
    starts a separate run. For a nested run, ``_nest_config`` later merges the config of the calling
    run.
    """
    if caller is None:
        configurable = config.get("configurable") or {}
        if any(configurable.get(key) for key in COORDINATES):
            ambient = {key: value for key, value in ambient.items() if key != "configurable"}
        return merge_configs(ambient, config)
    of_chain = caller.base_config() if ambient is AMBIENT_CONFIG else ambient
    callbacks = of_chain.get("callbacks")
    if not callbacks:
        return config
    if parent is None:
        callbacks = find_langchain().drop_streams(callbacks)
    return merge_configs({"callbacks": callbacks}, config)


def _join_langchain(run: RunContext, name: str, ns: str, options: Options) -> None:
    """Add LangChain callbacks to a run.

    The callbacks stream and trace the LangChain calls of the run's nodes. They are added only if a
    stream mode, a callback or LangChain's tracing needs them.
    """
    wanted = options.modes.union(options.printed)
    has_messages, has_tools = "messages" in wanted, "tools" in wanted
    # A run started by a node uses the callbacks of the surrounding run, including tracers.
    has_callbacks = run.config.get("callbacks") or (not run.within and is_traced())
    if not (has_messages or has_tools or has_callbacks):
        return
    langchain = find_langchain()
    where = (tuple(ns.split(NS_SEP)) if ns else (), options.subgraphs)
    # Recording doesn't require langchain: without it there are no messages to record.
    is_recorded = run.chunk_buffer is not None and options.kind != "call"
    if langchain is not None:
        run.ambient_config = find_ambient_variable()
    elif has_messages and not is_recorded:
        raise ValueError("The stream mode 'messages' needs langchain-core, which isn't installed.")
    if has_messages and langchain is not None:
        if is_recorded:
            run.message_recorder = langchain.MessageRecorder(run)
        emit = _make_emit(run) if run.message_recorder is None else run.message_recorder.add
        run.message_stream = langchain.MessageStream(emit, *where)
        _add_handler(run, langchain, run.message_stream)
    if has_tools:
        run.tool_stream = ToolStream(_make_emit(run), *where, above=run.tool_stream)
        if langchain is not None:
            _add_handler(run, langchain, langchain.ToolCallbacks(run.tool_stream))
    if langchain is not None:
        run.trace = langchain.open_trace(run, name)


def _make_emit(run: RunContext) -> Callable[[Chunk], None]:
    """Return a function that calls ``run.emit``.

    The attribute is read for each call, because it may be replaced.
    """
    return lambda chunk: run.emit(chunk)


def _add_handler(run: RunContext, langchain: Any, handler: Any) -> None:
    callbacks = langchain.add_handler(run.config.get("callbacks"), handler)
    run.config = {**run.config, "callbacks": callbacks}


def _find_parent_task(
    caller: TaskContext | None, configurable: Mapping[str, Any]
) -> TaskContext | None:
    """Return the task that makes the call, or None if the call starts a separate run.

    A call starts a separate run if its config contains a thread id, a namespace or a checkpoint id.
    If the calling node only passes on its own config, the call doesn't start a separate run.
    """
    if caller is None or not configurable or not any(configurable.get(key) for key in COORDINATES):
        return caller
    return caller if configurable.get("checkpoint_ns") == caller.task.ns else None


def _make_root_run(
    graph: CompiledGraph, config: RunnableConfig, configurable: Mapping[str, Any], options: Options
) -> RunContext:
    saver, thread_id = graph.saver, configurable.get("thread_id")
    if saver is not None and thread_id is None:
        raise ValueError(
            "A graph with a checkpointer requires a thread id in the config: "
            '{"configurable": {"thread_id": ...}}.'
        )
    run = RunContext(
        config=config,
        saver=saver,
        thread_id=None if thread_id is None else str(thread_id),
        store=graph.store,
        runtime=(
            _NO_CONTEXT
            if options.context is None
            else Runtime(context=_coerced(graph.context_schema, options.context))
        ),
        control=options.control,
        durability=options.durability or config.get("durability", "sync"),
        modes=options.modes | options.printed,
        emit=drop_chunk,
        forwards=frozenset(),
        subgraphs=options.subgraphs,
        live=False,
        perform=_perform,
        answers={},
        passes_breakpoints=options.kind == "call",
        checkpoint_map=configurable.get("checkpoint_map") or {},
    )
    run.reruns_unanswered = configurable.get("rerun_unanswered", options.kind == "call")
    # A direct caller can resume with another value. A stored value has no caller to raise to.
    run.reasks = options.kind == "advance"
    if options.modes and options.kind != "call":
        run.chunk_buffer = ChunkBuffer(options.keep)
    return run


def _make_hosted_run(
    graph: CompiledGraph, config: RunnableConfig, options: Options, host: Any
) -> RunContext:
    context = host.context if options.context is None else options.context
    run = RunContext(
        config=config,
        saver=None if graph.checkpointer is False else host.saver,
        thread_id=host.thread_id,
        store=graph.store or host.store,
        runtime=Runtime(context=_coerced(graph.context_schema, context)),
        control=options.control,
        durability=options.durability or host.durability or "sync",
        modes=options.modes | options.printed | host.modes,
        emit=drop_chunk,
        forwards=host.modes,
        subgraphs=options.subgraphs or bool(host.modes),
        live=False,
        perform=_perform,
        answers=host.answers,
        passes_breakpoints=True,
        checkpoint_map={},
    )
    run.wildcard, run.resuming, run.host = host.wildcard, host.resuming, host
    return run


def _choose_forwards(above: RunContext, options: Options) -> frozenset[str]:
    """Return the stream modes whose chunks a nested run forwards to the calling run."""
    is_recorded = above.chunk_buffer is not None
    if not above.subgraphs:
        # A stream without subgraphs excludes the subgraphs' chunks, but a recorded run includes the
        # custom chunks of nodes at any depth.
        return above.modes & {"custom"} if is_recorded else frozenset()
    # Tool calls already reach the streams of all calling runs. Custom chunks are sent to the
    # nearest stream that requested them.
    own = frozenset() if is_recorded else options.modes & {"custom"}
    return above.modes - {"tools"} - own


def _make_nested_run(
    graph: CompiledGraph, parent: TaskContext, config: RunnableConfig, options: Options
) -> RunContext:
    above = parent.run
    forwards = _choose_forwards(above, options) if above.modes else above.modes
    run = RunContext(
        config=_nest_config(parent, config),
        saver=None if graph.checkpointer is False else above.saver,
        thread_id=above.thread_id,
        store=graph.store or above.store,
        runtime=_make_nested_runtime(graph, parent, options),
        control=options.control or above.control,
        durability=options.durability or above.durability,
        modes=options.modes | options.printed | forwards,
        emit=drop_chunk,
        forwards=forwards,
        subgraphs=options.subgraphs or above.subgraphs,
        live=False,
        perform=parent.perform,
        answers=above.answers,
        passes_breakpoints=above.passes_breakpoints,
        checkpoint_map=above.checkpoint_map,
    )
    run.above = above
    if run.saver is not None:
        run.lease, run.deferred = above.lease, above.deferred or run.deferred
    run.replay, run.reruns_unanswered = above.replay, above.reruns_unanswered
    run.chunk_buffer = above.chunk_buffer
    run.wildcard, run.reasks, run.spawner = above.wildcard, above.reasks, above.spawner
    run.resuming = above.resuming or parent.retrying
    run.message_stream, run.tool_stream = above.message_stream, above.tool_stream
    run.progress = parent.progress if isinstance(parent, TimedContext) else above.progress
    origin = parent.task.origin
    if above.saver is not None:
        run.checkpoint_ids = {**above.checkpoint_ids, origin.ns: origin.checkpoint_id}
    return run


def _nest_config(parent: TaskContext, config: RunnableConfig) -> RunnableConfig:
    """Return the config of the calling node's run, merged with the config of the call.

    The id and the name of the calling node's run are left out. The metadata of the calling node is
    included.
    """
    above, metadata = parent.run.config, parent.task.node.metadata
    inherited = above
    if "run_id" in above or "run_name" in above:
        inherited = {key: above[key] for key in above if key not in ("run_id", "run_name")}
    if metadata:
        inherited = {**inherited, "metadata": {**inherited.get("metadata", {}), **metadata}}
    return merge_configs(inherited, config) if config else inherited


def _make_nested_runtime(
    graph: CompiledGraph, parent: TaskContext, options: Options
) -> Runtime[Any]:
    runtime = parent.run.runtime
    if options.context is not None:
        context = _coerced(graph.context_schema, options.context)
        runtime = Runtime(context=context, heartbeat=runtime.heartbeat)
    if isinstance(parent, TimedContext):
        return runtime.override(heartbeat=parent.heartbeat)
    return runtime


def _list_former_ns(graph: CompiledGraph, parent: TaskContext | None) -> tuple[str, ...]:
    if parent is None or graph.checkpointer is not True:
        return ()
    task = parent.task
    return list_former_ns(strip_task_ids(task.ns), task.name, task.origin.spec.renames)


def list_former_ns(ns: str, node: str, renames: Renames) -> tuple[str, ...]:
    """Return the namespaces that a subgraph had before its calling node was renamed."""
    above = ns.rpartition(NS_SEP)[0]
    names = [*renames.list_former_names(node), node] if renames else []
    places = [f"{above}{NS_SEP}{name}" if above else name for name in names]
    return tuple(place for place in places if place != ns)


def strip_task_ids(ns: str) -> str:
    """Return a namespace without task ids.

    The result is the same for all tasks that call the same subgraph.
    """
    return NS_SEP.join(part.partition(NS_END)[0] for part in ns.split(NS_SEP))


def _coerced(schema: Any, context: Any) -> Any:
    if context is None or schema is None or not isinstance(context, dict):
        return context
    if is_model(schema) or hasattr(schema, "__dataclass_fields__"):
        return schema(**context)
    return context


def drop_chunk(chunk: Chunk) -> None:
    """Discard a chunk. Runs without a receiver of chunks use this function."""


def _perform(function: Any, *args: Any) -> Any:
    return function(*args)
