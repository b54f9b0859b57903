"""The request that a wrapper of tool calls receives, and the input of a single tool call."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, NotRequired

from typing_extensions import TypedDict

#: Value of ``__type`` in a ToolCallWithContext.
WITH_CONTEXT = "tool_call_with_context"


@dataclass
class ToolCallRequest:
    """A tool call before its execution.

    ``tool_call`` is a dict of ``name``, ``args`` and ``id``. ``tool`` is None if the node has no
    tool of that name. ``state`` is the node's input. ``runtime`` is a ToolRuntime, or None outside
    of a graph.
    """

    tool_call: dict[str, Any]
    tool: Any
    state: Any
    runtime: Any

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            warnings.warn(
                f"ToolCallRequest is immutable. Use override({name}=…) to create a modified copy.",
                DeprecationWarning,
                stacklevel=2,
            )
        object.__setattr__(self, name, value)

    def override(self, **overrides: Any) -> ToolCallRequest:
        """Return a copy of the request with other values of some fields.

        ``overrides`` are new values of ``tool_call``, ``tool``, ``state`` or ``runtime``.
        """
        return replace(self, **overrides)


#: Function ``wrap(request, execute)`` that returns a message, a Command or a list of these, like
#: ``execute(request)``. It may call ``execute`` any number of times.
ToolCallWrapper = Callable[[ToolCallRequest, Callable[[ToolCallRequest], Any]], Any]
AsyncToolCallWrapper = Callable[
    [ToolCallRequest, Callable[[ToolCallRequest], Awaitable[Any]]], Awaitable[Any]
]

#: A tool call as the input of a ToolNode, sent with Send. Without ``state``, the tool gets the
#: state of the graph.
ToolCallWithContext = TypedDict(
    "ToolCallWithContext",
    {"tool_call": dict[str, Any], "__type": str, "state": NotRequired[Any]},
)
