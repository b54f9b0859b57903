"""Tools of a ToolNode: plain functions, or objects of langchain's kind."""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, get_type_hints

from pydantic import ConfigDict, Field, ValidationError, create_model

from ..state.schema import coerce
from ..task.nodes import is_coroutine_function
from ..types import Command
from .injection import find_injections
from .tool_call import BadCall, ToolCall, build_bad_call


class Tool:
    """A plain function as a tool: what a model gives it is read by its annotations."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.is_async = function, is_coroutine_function(function)
        self._names: dict[str, str] = {}
        self._takes_all = False
        hints = _hints(function)
        injected = find_injections(function)
        fields: dict[str, Any] = {}
        for number, parameter in enumerate(inspect.signature(function).parameters.values()):
            if parameter.name in injected:
                continue
            if parameter.kind is parameter.VAR_KEYWORD:
                self._takes_all = True
            elif parameter.kind is not parameter.VAR_POSITIONAL:
                # Under another name, for pydantic has rules for names.
                default = ... if parameter.default is parameter.empty else parameter.default
                field = f"argument_{number}"
                fields[field] = (
                    hints.get(parameter.name, Any),
                    Field(default, alias=parameter.name),
                )
                self._names[field] = parameter.name
        self._model = create_model(
            function.__name__ if hasattr(function, "__name__") else "Arguments",
            __config__=ConfigDict(arbitrary_types_allowed=True),
            **fields,
        )

    def arguments(self, call: ToolCall) -> dict[str, Any]:
        """Returns the call's arguments as the function takes them.

        Raises BadCall where they don't fit; what the function has no parameter for is left out.
        """
        if not isinstance(call.args, dict):
            raise BadCall(f"Error: the arguments of {call.name} are no JSON object.")
        try:
            read = coerce(self._model, call.args)
        except ValidationError as error:
            raise build_bad_call(call.name, error) from error
        taken = {self._names[field]: getattr(read, field) for field in read.model_fields_set}
        if self._takes_all:
            return {**call.args, **taken, **call.injected}
        return {**taken, **call.injected}


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    inside = function if inspect.isroutine(function) else type(function).__call__
    try:
        return get_type_hints(inside, include_extras=True)
    except Exception:
        return {}


def build_tool(tool: Any) -> Any:
    """Returns what runs a tool: a Function, or the object itself."""
    if not hasattr(tool, "invoke"):
        return Tool(tool)
    return _keeping_commands(tool)


def is_async_only(tool: Any) -> bool:
    """Returns whether a langchain tool was made from an async function and has no sync form."""
    return getattr(tool, "coroutine", None) is not None and getattr(tool, "func", None) is None


def holds_command(result: Any) -> bool:
    """Returns whether a tool returned a Command, or a list with one."""
    if isinstance(result, list):
        return any(isinstance(item, Command) for item in result)
    return isinstance(result, Command)


class _Carrier:
    """Takes what a tool returned through langchain's hands."""

    carried: Any = None


def _keeping_commands(tool: Any) -> Any:
    """Returns a langchain tool that hands on a Command that it returns.

    langchain makes a text of whatever isn't of its own output class, so the Command travels in
    one that is, and ``kept`` takes it out again.
    """
    mixin = getattr(sys.modules.get("langchain_core.messages.tool"), "ToolOutputMixin", None)
    if mixin is None or not (hasattr(tool, "_run") and hasattr(tool, "_arun")):
        return tool
    carrier = type("Carrier", (mixin, _Carrier), {})

    def carried(result: Any) -> Any:
        if not holds_command(result):
            return result
        travelling = carrier()
        travelling.carried = result
        return travelling

    shadow = copy.copy(tool)
    run, arun = shadow._run, shadow._arun

    @functools.wraps(run)
    def run_carrying(*args: Any, **kwargs: Any) -> Any:
        return carried(run(*args, **kwargs))

    @functools.wraps(arun)
    async def arun_carrying(*args: Any, **kwargs: Any) -> Any:
        return carried(await arun(*args, **kwargs))

    # Past pydantic, which takes no attribute that isn't a field.
    object.__setattr__(shadow, "_run", run_carrying)
    object.__setattr__(shadow, "_arun", arun_carrying)
    return shadow


def unwrap_command(result: Any) -> Any:
    """Returns the Command that a result carries, or the result."""
    return result.carried if isinstance(result, _Carrier) else result
