"""Commands returned by LangChain tools, wrapped so that LangChain doesn't change them."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, get_type_hints

from langchain_core.messages.tool import ToolOutputMixin
from langchain_core.runnables import RunnableConfig

from hitl_django.engine.types import Command


class CarriedCommand(ToolOutputMixin):
    """Wrapper of a Command that a tool returns. LangChain would convert the Command to text."""

    def __init__(self, carried: Any) -> None:
        self.carried = carried


def keep_commands(tool: Any) -> Any:
    """Return a copy of a tool. The copy may return a Command or a list with a Command.

    The copy wraps the Command in a CarriedCommand, because LangChain would convert the Command to
    text. ``unwrap_output`` removes the wrapper.
    """
    shadow = copy.copy(tool)
    for name in ("func", "coroutine"):  # the functions that _run and _arun of most tools call
        if isinstance(function := vars(shadow).get(name), FunctionType):
            # Bypass pydantic, which rejects attributes that are not fields.
            object.__setattr__(shadow, name, _described_as(function)(_pass_on(function)))
    run, arun = shadow._run, shadow._arun

    @_described_as(run)
    def run_carrying(*args: Any, **kwargs: Any) -> Any:
        return _carry(run(*args, **kwargs))

    @_described_as(arun)
    async def arun_carrying(*args: Any, **kwargs: Any) -> Any:
        return _carry(await arun(*args, **kwargs))

    object.__setattr__(shadow, "_run", run_carrying)
    object.__setattr__(shadow, "_arun", arun_carrying)
    return shadow


def _pass_on(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: function(*args, **kwargs)


def _described_as(run: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return a decorator that gives a function the name and the signature of ``run``.

    LangChain inspects the signature and the annotations on each call of a tool. The decorator
    therefore computes them once. Of the annotations, only RunnableConfig is kept, because LangChain
    only looks for the parameter that gets the config.
    """

    def describe(function: Any) -> Any:
        function = functools.wraps(run)(function)
        # Without this deletion, LangChain would inspect the wrapped function.
        del function.__wrapped__
        function.__signature__ = inspect.signature(run)
        try:
            hints = get_type_hints(run)
        # The annotation is imported only for type checking. LangChain also ignores it.
        except Exception:
            return function
        function.__annotations__ = {
            name: hint for name, hint in hints.items() if hint is RunnableConfig
        }
        return function

    return describe


def unwrap_output(output: Any) -> Any:
    """Return the output in a CarriedCommand. Any other output is returned unchanged."""
    return output.carried if isinstance(output, CarriedCommand) else output


def _carry(result: Any) -> Any:
    several = result if isinstance(result, list) else [result]
    return CarriedCommand(result) if any(isinstance(one, Command) for one in several) else result
