"""Calls of node functions: injected arguments, and conversion of exceptions."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from ..errors import NodeCancelledError, resolve_group
from ..loop.error_handlers import get_handled_failure
from ..task.context import TaskContext
from ..task.nodes import Action


def get_injected(context: TaskContext, action: Action) -> dict[str, Any]:
    """Return the arguments to inject into a node's function, by parameter name."""
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
            given[name] = context.previous
        elif (failure := get_handled_failure(context.task)) is not None:
            given[name] = failure
        elif inspect.signature(action.call).parameters[name].default is inspect.Parameter.empty:
            raise ValueError(f"Missing required config key '{name}' for '{context.task.name}'.")
    return given


def convert_error(context: TaskContext, error: BaseException) -> BaseException:
    """Return the exception with which the task ends, for an exception raised by a node.

    An exception group that contains only pauses becomes one pause. If the node itself wasn't
    cancelled, a CancelledError becomes a NodeCancelledError. Otherwise, the engine would treat the
    CancelledError as a cancellation of the run.
    """
    if isinstance(error, BaseExceptionGroup):
        error = resolve_group(error)
    if not isinstance(error, asyncio.CancelledError) or _is_cancelled():
        return error
    failure = NodeCancelledError(context.task.name)
    failure.__cause__ = error
    return failure


def _is_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0
