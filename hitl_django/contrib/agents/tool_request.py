"""What a wrapper around tool calls is handed, and what calls that are sent alone look like."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, NotRequired

from typing_extensions import TypedDict

#: The ``__type`` of a ToolCallWithContext.
WITH_CONTEXT = "tool_call_with_context"


@dataclass
class ToolCallRequest:
    """A tool call that is about to be made.

    ``tool_call`` is a dict of ``name``, ``args`` and ``id``; ``tool`` is None where the node has
    none of that name; ``state`` is what the node was given, ``runtime`` a ToolRuntime, or None
    outside of a graph.
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
        """Return the request with another ``tool_call``, ``tool``, ``state`` or ``runtime``."""
        return replace(self, **overrides)


#: Makes the call, or doesn't: ``wrap(request, execute)`` returns a message, a Command or a list of
#: them, as ``execute(request)`` does, which it may call any number of times.
ToolCallWrapper = Callable[[ToolCallRequest, Callable[[ToolCallRequest], Any]], Any]
AsyncToolCallWrapper = Callable[
    [ToolCallRequest, Callable[[ToolCallRequest], Awaitable[Any]]], Awaitable[Any]
]

#: One call as the input of a ToolNode, as a Send gives it. Without a ``state`` it is that of the
#: graph, as its nodes see it.
ToolCallWithContext = TypedDict(
    "ToolCallWithContext",
    {"tool_call": dict[str, Any], "__type": str, "state": NotRequired[Any]},
)
