"""Failed tool calls: a message to the model, or the failure of the node."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ..errors import LeaseError, NoSaverError, PayloadError, ResumeError
from ..task.context import current
from .tool_call import BadCall, ToolCall

#: Faults of the run or of a reviewer's answer, which no model could mend.
_NEVER_TOLD = (LeaseError, NoSaverError, PayloadError, ResumeError)


@dataclass(frozen=True, slots=True)
class Failure:
    """The message that the model gets instead of a result."""

    text: str


class Handling:
    """Decides, as ``handle_tool_errors`` says, which failures become messages to the model."""

    def __init__(self, rule: Any) -> None:
        self.rule = rule
        self._shown = _classes_of(rule)

    def settle(self, call: ToolCall, error: BaseException) -> None:
        """Leaves on the call what becomes of its failure."""
        cause = (error.__cause__ or error) if isinstance(error, BadCall) else error
        text = self._describe(error, cause)
        if text is None:
            call.error = cause
        else:
            call.result, call.done = Failure(text), True

    def _describe(self, error: BaseException, cause: BaseException) -> str | None:
        if not isinstance(cause, Exception) or isinstance(cause, _NEVER_TOLD):
            return None
        context = current.get()
        if context is not None and context.run.is_storage_error(cause):
            return None
        if isinstance(error, BadCall) and (cause is error or self.rule in (None, True)):
            return str(error)
        if not isinstance(cause, self._shown):
            return None
        if isinstance(self.rule, str):
            return self.rule
        if callable(self.rule) and not isinstance(self.rule, type):
            return str(self.rule(cause))
        return str(error) if isinstance(error, BadCall) else f"Error: {cause!r}"


def _classes_of(rule: Any) -> tuple[type[BaseException], ...]:
    """Returns the classes of failures that a rule means."""
    if rule is None or rule is False:
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
        "handle_tool_errors must be a bool, a text, a function, an exception class or several, "
        f"got {rule!r}"
    )


def _annotated(rule: Callable[..., Any]) -> tuple[type[BaseException], ...]:
    parameters = list(inspect.signature(rule).parameters)
    hint = get_type_hints(rule).get(parameters[0]) if parameters else None
    if hint is None:
        return (Exception,)
    classes = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if not all(isinstance(cls, type) and issubclass(cls, Exception) for cls in classes):
        raise ValueError(f"A function for tool errors takes exceptions, not {hint!r}.")
    return tuple(classes)
