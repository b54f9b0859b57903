"""Arguments of tools that the node injects and the model doesn't see."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Generic, get_args, get_origin, get_type_hints

from hitl_django.engine.bridges import find_langchain
from hitl_django.engine.task.context import TaskContext, current
from hitl_django.engine.types import ContextT, RunnableConfig, StateT, StreamWriter


class _Plain:
    """Base class of the marker classes below if langchain-core isn't installed."""


_langchain = find_langchain()
#: LangChain omits arguments with these annotations from the schema of a tool.
_Marker: Any = _Plain if _langchain is None else _langchain.InjectedToolArg
_Direct: Any = _Plain if _langchain is None else _langchain.DirectlyInjectedToolArg
#: Injected value of an argument that keeps its default.
LEFT_OUT: Any = object()


class InjectedState(_Marker):  # type: ignore[misc]
    """Marker for an argument that gets the state, or one of its fields.

    Example: ``Annotated[dict, InjectedState]``.
    """

    def __init__(self, field: str | None = None) -> None:
        self.field = field


class InjectedStore(_Marker):  # type: ignore[misc]
    """Marker for an argument that gets the store: ``Annotated[BaseStore, InjectedStore()]``."""


class InjectedToolCallId(_Marker):  # type: ignore[misc]
    """Marker for an argument that gets the id of the tool call."""


@dataclass
class ToolRuntime(_Direct, Generic[ContextT, StateT]):  # type: ignore[misc]
    """The runtime of a tool call, injected into an argument with this annotation.

    ``tools`` are the tools of the node. ``server_info`` is always None, and exists for
    compatibility with LangGraph.
    """

    state: StateT
    context: ContextT
    config: RunnableConfig
    stream_writer: StreamWriter
    tool_call_id: str | None
    store: Any
    tools: list[Any] = field(default_factory=list)
    execution_info: Any = None
    server_info: Any = None

    def emit_output_delta(self, delta: Any) -> None:
        """Emit a part of the tool's output in the stream mode ``tools``."""
        _emit_delta(self.tool_call_id, delta)


@dataclass(slots=True)
class CallScope:
    """The values that are injected into the arguments of one tool call."""

    state: Any
    context: TaskContext | None
    config: Any
    call_id: str | None
    tools: list[Any]
    messages_key: str


#: Function that returns the injected value of an argument, or LEFT_OUT.
Injection = Callable[[CallScope], Any]


def find_injections(tool: Any) -> dict[str, Injection]:
    """Return the injected arguments of a function or a LangChain tool, by argument name.

    Markers are recognized by class name, so that LangGraph's and LangChain's markers are accepted.
    An argument named ``runtime`` gets the runtime, regardless of its annotation.
    """
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or tool
    if not inspect.isroutine(function):
        function = getattr(type(tool), "_run", None) or type(function).__call__
    try:
        hints = get_type_hints(function, include_extras=True)
        parameters = inspect.signature(function).parameters
    except Exception:
        return {}
    found: dict[str, Injection] = {}
    for name, parameter in parameters.items():
        has_default = parameter.default is not parameter.empty
        injection = _injection_of(hints.get(name), has_default)
        if injection is None and name == "runtime":
            injection = partial(build_runtime, ToolRuntime)
        # LangChain itself passes the config to its tools.
        if injection is not None and not (injection is _read_config and hasattr(tool, "invoke")):
            found[name] = injection
    return found


def _injection_of(hint: Any, has_default: bool) -> Injection | None:
    kind = get_origin(hint) or hint
    if isinstance(kind, type) and kind.__name__ == "ToolRuntime":
        return partial(build_runtime, kind)
    if isinstance(kind, type) and kind.__name__ == "RunnableConfig":
        return _read_config
    for marker in getattr(hint, "__metadata__", ()):
        name = marker.__name__ if isinstance(marker, type) else type(marker).__name__
        if name == "InjectedState":
            return _state_reader(getattr(marker, "field", None), has_default)
        if name == "InjectedStore":
            return _read_store
        if name == "InjectedToolCallId":
            return lambda scope: scope.call_id
    # The annotation may be Optional[ToolRuntime] or another union.
    inner = (
        _injection_of(argument, has_default)
        for argument in get_args(hint)
        if not isinstance(argument, str)
    )
    return next((found for found in inner if found is not None), None)


def _state_reader(field: str | None, has_default: bool) -> Injection:
    def read(scope: CallScope) -> Any:
        state = scope.state
        if isinstance(state, list):
            state = {scope.messages_key: state}
        if field is None:
            return state
        if isinstance(state, Mapping):
            return state.get(field, LEFT_OUT) if has_default else state[field]
        return getattr(state, field, LEFT_OUT) if has_default else getattr(state, field)

    return read


def _read_config(scope: CallScope) -> Any:
    return scope.config or {}


def _read_store(scope: CallScope) -> Any:
    store = scope.context and scope.context.run.store
    if store is None:
        raise ValueError(
            "A tool requires the graph's store, but the graph has none. Compile it with a store."
        )
    return store


def build_runtime(kind: Any, scope: CallScope) -> Any:
    """Return an instance of ``kind``, the runtime class of this package or of LangGraph."""
    context = scope.context
    if context is None:
        raise ValueError("A tool with ToolRuntime can only be called from a running graph.")
    of_node = context.runtime()
    values = {
        "state": scope.state,
        "context": of_node.context,
        "config": scope.config,
        "stream_writer": context.write,
        "tool_call_id": scope.call_id,
        "store": context.run.store,
        "tools": scope.tools,
        "execution_info": of_node.execution_info,
    }
    known = {each.name for each in fields(kind)}
    runtime = kind(**{name: value for name, value in values.items() if name in known})
    if not isinstance(runtime, ToolRuntime):
        runtime.emit_output_delta = partial(_emit_delta, scope.call_id)
    return runtime


def _emit_delta(call_id: str | None, delta: Any) -> None:
    context = current.get()
    if context is not None and context.run.tool_stream is not None:
        context.run.tool_stream.emit_delta(context.task.origin.levels, call_id, delta)
