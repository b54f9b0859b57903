"""Tools of a ToolNode: functions, or objects like LangChain's."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from pydantic import ConfigDict, Field, ValidationError, create_model

from hitl_django.engine.state.schema import coerce
from hitl_django.engine.task.nodes import is_coroutine_function

from .injection import find_injections
from .invocation_error import BadCall, ToolInvocationError


class Tool:
    """A tool that calls a function. The function's annotations validate the arguments.

    ``description`` is the function's docstring. ``args_schema`` is the pydantic model of the
    arguments that the chat model passes.
    """

    return_direct = False

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.is_async = function, is_coroutine_function(function)
        self.name = getattr(function, "__name__", "Arguments")
        self.description = inspect.getdoc(function) or ""
        self._names: dict[str, str] = {}
        self._takes_all = False
        hints = _hints(function)
        self._injected = frozenset(find_injections(function))
        fields: dict[str, Any] = {}
        for number, parameter in enumerate(inspect.signature(function).parameters.values()):
            if parameter.name in self._injected:
                continue
            if parameter.kind is parameter.VAR_KEYWORD:
                self._takes_all = True
            elif parameter.kind is not parameter.VAR_POSITIONAL:
                # pydantic restricts field names, so the fields get different names.
                default = ... if parameter.default is parameter.empty else parameter.default
                field = f"argument_{number}"
                fields[field] = (
                    hints.get(parameter.name, Any),
                    Field(default, alias=parameter.name),
                )
                self._names[field] = parameter.name
        self.args_schema = create_model(
            self.name,
            __config__=ConfigDict(arbitrary_types_allowed=True),
            **fields,
        )

    def arguments(self, given: Any, filled_in: Mapping[str, Any]) -> dict[str, Any]:
        """Return the validated arguments for the function, including injected arguments.

        ``given`` are the arguments from the model, and ``filled_in`` are the injected arguments.
        Arguments for which the function has no parameter are left out.

        Raises:
            ToolInvocationError: the arguments are invalid.
            BadCall: the arguments are not an object.
        """
        if not isinstance(given, dict):
            raise BadCall(f"Error: the arguments of {self.name} must be a JSON object.")
        try:
            read = coerce(self.args_schema, given)
        except ValidationError as error:
            raise ToolInvocationError(self.name, error, given) from error
        taken = {self._names[field]: getattr(read, field) for field in read.model_fields_set}
        if self._takes_all:
            others = {name: given[name] for name in given if name not in self._injected}
            return {**others, **taken, **filled_in}
        return {**taken, **filled_in}

    def invoke(self, input: dict[str, Any], config: Any = None) -> Any:
        """Call the function and return its result.

        ``input`` is a dict of arguments, or a tool call that contains them.
        """
        arguments = self.arguments(_read_arguments(input), {})
        if self.is_async:
            return asyncio.run(self.function(**arguments))
        return self.function(**arguments)

    async def ainvoke(self, input: dict[str, Any], config: Any = None) -> Any:
        result = self.function(**self.arguments(_read_arguments(input), {}))
        return await result if self.is_async else result


def _read_arguments(input: dict[str, Any]) -> Any:
    return input["args"] if input.get("type") == "tool_call" else input


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    inside = function if inspect.isroutine(function) else type(function).__call__
    try:
        return get_type_hints(inside, include_extras=True)
    except Exception:
        return {}


def build_tool(tool: Any) -> Any:
    """Return a tool object. A function is wrapped as a Tool.

    Raises:
        TypeError: the value is neither a function nor a tool.
    """
    name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
    if not name or not (callable(tool) or hasattr(tool, "invoke")):
        raise TypeError(f"Expected a tool or a function, got {type(tool).__name__}: {tool!r}")
    return tool if hasattr(tool, "invoke") else Tool(tool)


def is_async_only(tool: Any) -> bool:
    """Return whether a LangChain tool has only an async function."""
    return getattr(tool, "coroutine", None) is not None and getattr(tool, "func", None) is None
