"""Handling of failed tool calls: either the model gets a message, or the node fails."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hitl_django.engine.errors import LeaseError, NoSaverError, PayloadError, ResumeError
from hitl_django.engine.task.context import current

from .invocation_error import BadCall, ToolInvocationError

#: Errors of the run or of a reviewer's response. A model can't correct them.
_NOT_REPORTED = (LeaseError, NoSaverError, PayloadError, ResumeError)


@dataclass(frozen=True, slots=True)
class Failure:
    """An error message that the model receives instead of a result."""

    text: str


def describe_bad_call(error: Exception) -> str:
    """Return the message for the model if the arguments of a tool call are invalid.

    Any other error is raised again.
    """
    if isinstance(error, ToolInvocationError):
        return error.message
    raise error


class Handling:
    """The rule ``handle_tool_errors``: the failures that become messages to the model."""

    def __init__(self, rule: Any) -> None:
        self.rule = rule
        self._shown = _classes_of(rule)

    def describe(self, error: BaseException, *, wrapped: bool = False) -> str | None:
        """Return the message to the model, or None if the node must fail.

        If ``handle_tool_errors`` is a function, exceptions raised by this function aren't caught.
        ``wrapped`` is true if a wrapper of tool calls raised the error. In this case, the exception
        classes in ``handle_tool_errors`` don't apply.
        """
        if isinstance(error, BadCall):
            return str(error)
        if not isinstance(error, Exception) or isinstance(error, _NOT_REPORTED) or not self._shown:
            return None
        context = current.get()
        if context is not None and context.run.is_foreign_error(error):
            return None
        if not wrapped and not isinstance(error, self._shown):
            return None
        if isinstance(self.rule, str):
            return self.rule
        if callable(self.rule) and not isinstance(self.rule, type):
            return str(self.rule(error))
        return f"Error: {error!r}\n Please fix your mistakes."


def _classes_of(rule: Any) -> tuple[type[BaseException], ...]:
    if not rule and (rule is None or isinstance(rule, bool | str | tuple)):
        return ()
    if rule is True or isinstance(rule, str):
        return (Exception,)
    if isinstance(rule, tuple):
        return rule
    if isinstance(rule, type) and issubclass(rule, Exception):
        return (rule,)
    if callable(rule):
        return _annotated(rule)
    raise ValueError(
        "handle_tool_errors must be a bool, a string, a function, an exception class or "
        f"a tuple of these, got {rule!r}"
    )


def _annotated(rule: Callable[..., Any]) -> tuple[type[BaseException], ...]:
    parameters = list(inspect.signature(rule).parameters)
    hint = get_type_hints(rule).get(parameters[0]) if parameters else None
    if hint is None:
        return (Exception,)
    classes = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if not all(isinstance(cls, type) and issubclass(cls, Exception) for cls in classes):
        raise ValueError(f"A tool error handler must take exceptions, not {hint!r}.")
    return tuple(classes)
