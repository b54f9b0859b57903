"""Arguments of tools that the node fills in, and no model sees."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, get_args, get_origin, get_type_hints

from ..bridges import find_langchain
from ..types import ContextT, RunnableConfig, StateT, StreamWriter

_langchain = find_langchain()
#: Where langchain is there, its tools leave arguments of these out of what they show a model.
_Marker: Any = object if _langchain is None else _langchain.InjectedToolArg
_Direct: Any = object if _langchain is None else _langchain.DirectlyInjectedToolArg


class InjectedState(_Marker):  # type: ignore[misc]
    """Marks an argument that gets the state, or one field: ``Annotated[dict, InjectedState]``."""

    def __init__(self, field: str | None = None) -> None:
        self.field = field


class InjectedStore(_Marker):  # type: ignore[misc]
    """Marks an argument that gets the graph's store: ``Annotated[BaseStore, InjectedStore()]``."""


class InjectedToolCallId(_Marker):  # type: ignore[misc]
    """Marks an argument that gets the id of the tool call."""


@dataclass
class ToolRuntime(_Direct, Generic[ContextT, StateT]):  # type: ignore[misc]
    """What a tool may know of the run: an argument that is annotated with it gets it."""

    state: StateT
    context: ContextT
    config: RunnableConfig
    stream_writer: StreamWriter
    tool_call_id: str | None
    store: Any


#: Makes the value of an argument, of the state, the context of the call, and the call's id.
Injection = Callable[[Any, Any, str | None], Any]


def find_injections(tool: Any) -> dict[str, Injection]:
    """Returns what fills in which arguments of a function, or of a langchain tool's function.

    Markers are known by the names of their classes: LangGraph's and langchain's count as well.
    """
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or tool
    if not inspect.isroutine(function):
        function = getattr(type(tool), "_run", None) or type(function).__call__
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception:
        return {}
    found = {name: _injection_of(hint) for name, hint in hints.items() if name != "return"}
    return {name: injection for name, injection in found.items() if injection is not None}


def _injection_of(hint: Any) -> Injection | None:
    kind = get_origin(hint) or hint
    if isinstance(kind, type) and kind.__name__ == "ToolRuntime":
        return partial(_build_runtime, kind)
    for marker in getattr(hint, "__metadata__", ()):
        name = marker.__name__ if isinstance(marker, type) else type(marker).__name__
        if name == "InjectedState":
            return _state_reader(getattr(marker, "field", None))
        if name == "InjectedStore":
            return lambda state, context, call_id: context and context.run.store
        if name == "InjectedToolCallId":
            return lambda state, context, call_id: call_id
    # Optional[ToolRuntime] and its like.
    inner = (
        _injection_of(argument) for argument in get_args(hint) if not isinstance(argument, str)
    )
    return next((found for found in inner if found is not None), None)


def _state_reader(field: str | None) -> Injection:
    def read(state: Any, context: Any, call_id: str | None) -> Any:
        if field is None:
            return state
        if isinstance(state, Mapping):
            return state[field]
        return state if isinstance(state, list) else getattr(state, field)

    return read


def _build_runtime(kind: Any, state: Any, context: Any, call_id: str | None) -> Any:
    """Returns a runtime of the class that the tool names: ours, or LangGraph's."""
    if context is None:
        raise ValueError("A tool's ToolRuntime is that of a running graph, and none runs.")
    return kind(
        state=state,
        context=context.runtime().context,
        config=context.config(),
        stream_writer=context.write,
        tool_call_id=call_id,
        store=context.run.store,
    )
