"""Errors for invalid tool calls made by a model."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pydantic import ValidationError

from hitl_django.engine.bridges import find_langchain
from hitl_django.engine.state.schema import list_faults

_langchain = find_langchain()
_ToolException: Any = Exception if _langchain is None else _langchain.ToolException


class BadCall(Exception):
    """The arguments that the model passed to a tool are not a JSON object."""


class ToolInvocationError(_ToolException):  # type: ignore[misc]
    """The arguments for a tool are invalid.

    ``message`` is the text for the model. ``source`` is pydantic's error. ``filtered_errors`` are
    the errors that the model receives, by default all errors.
    """

    def __init__(
        self,
        tool_name: str,
        source: ValidationError,
        tool_kwargs: dict[str, Any],
        filtered_errors: list[Any] | None = None,
    ) -> None:
        faults = list_reported_errors(source) if filtered_errors is None else filtered_errors
        listed = "\n".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in faults)
        self.message = (
            f"Error invoking tool '{tool_name}' with kwargs {tool_kwargs} with error:\n "
            f"{listed}\n Please fix the error and try again."
        )
        self.tool_name, self.tool_kwargs, self.source = tool_name, tool_kwargs, source
        self.filtered_errors = faults
        super().__init__(self.message)


def list_reported_errors(
    source: ValidationError, injected: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the errors in ``source``, except the errors of injected arguments."""
    return [
        {"loc": place, "msg": reason}
        for place, reason in list_faults(source)
        if not place or place[0] not in injected
    ]
