"""How a function of the user's is called."""

from __future__ import annotations

from typing import Any

from ..context import TaskContext
from ..nodes import Action


def injected(context: TaskContext, action: Action) -> dict[str, Any]:
    """Returns the arguments that the engine fills in by name."""
    given: dict[str, Any] = {}
    for name in action.injected:
        if name == "config":
            given[name] = context.config()
        elif name == "runtime":
            given[name] = context.runtime()
        elif name == "writer":
            given[name] = context.write
        elif name == "store":
            given[name] = context.run.store
        elif name == "previous":
            given[name] = context.run.runtime.previous
    return given
