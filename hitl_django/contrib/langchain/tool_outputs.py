"""Commands that tools of langchain return: taken through langchain's hands as they are."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from langchain_core.messages.tool import ToolOutputMixin

from hitl_django.engine.types import Command


class CarriedCommand(ToolOutputMixin):
    """What a tool returned: langchain makes a text of whatever isn't of its own output class."""

    def __init__(self, carried: Any) -> None:
        self.carried = carried


def keep_commands(tool: Any) -> Any:
    """Return a tool that hands on a Command that it returns, and a list with one.

    It travels as a CarriedCommand, and ``unwrap_output`` takes it out again.
    """
    shadow = copy.copy(tool)
    run, arun = shadow._run, shadow._arun

    @_described_as(run)
    def run_carrying(*args: Any, **kwargs: Any) -> Any:
        return _carry(run(*args, **kwargs))

    @_described_as(arun)
    async def arun_carrying(*args: Any, **kwargs: Any) -> Any:
        return _carry(await arun(*args, **kwargs))

    # Past pydantic, which takes no attribute that isn't a field.
    object.__setattr__(shadow, "_run", run_carrying)
    object.__setattr__(shadow, "_arun", arun_carrying)
    return shadow


def _described_as(run: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return what gives a function the name, signature and annotations of ``run``.

    Langchain looks at both in each call of a tool: they are worked out here, once.
    """

    def describe(function: Any) -> Any:
        function = functools.wraps(run)(function)
        del function.__wrapped__  # at which they would be looked for again
        function.__signature__ = inspect.signature(run)
        try:
            function.__annotations__ = get_type_hints(run, include_extras=True)
        except Exception:  # a name that only type checkers see: langchain does without them, too
            return function
        return function

    return describe


def unwrap_output(output: Any) -> Any:
    """Return the Command that an output carries, or the output."""
    return output.carried if isinstance(output, CarriedCommand) else output


def _carry(result: Any) -> Any:
    several = result if isinstance(result, list) else [result]
    return CarriedCommand(result) if any(isinstance(one, Command) for one in several) else result
