"""Values of LangGraph's classes as ours, and ours as LangGraph's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langgraph.types import Command as ForeignCommand
from langgraph.types import Interrupt as ForeignInterrupt
from langgraph.types import Send as ForeignSend

from hitl_django.engine.constants import ERROR, INTERRUPT, TASKS
from hitl_django.engine.types import Command, Interrupt, Send


def convert_checkpoint(checkpoint: Any, convert: Callable[[str, Any], Any]) -> Any:
    """Returns a checkpoint with the Sends in it converted."""
    values = checkpoint["channel_values"]
    if TASKS not in values:
        return checkpoint
    sent = [convert(TASKS, one) for one in values[TASKS]]
    return {**checkpoint, "channel_values": {**values, TASKS: sent}}


def convert_to_ours(name: str, value: Any) -> Any:
    """Returns a write of LangGraph's as ours."""
    if name == INTERRUPT:
        return tuple(Interrupt(asked.value, asked.id) for asked in value)
    if name == ERROR:
        return repr(value)
    if isinstance(value, ForeignSend):
        return Send(value.node, value.arg)
    return value


def convert_to_theirs(name: str, value: Any) -> Any:
    """Returns a write of ours as LangGraph's."""
    if name == INTERRUPT:
        return tuple(
            ForeignInterrupt(asked.value, asked.id, response_schema=asked.response_schema)
            for asked in value
        )
    if isinstance(value, Send):
        return ForeignSend(value.node, value.arg)
    return value


def convert_command(command: Command[Any], ns: str) -> ForeignCommand[Any]:
    """Returns a Command of ours as LangGraph's, for the graph around the node at ``ns``."""
    goto = command.goto if isinstance(command.goto, list | tuple) else (command.goto,)
    return ForeignCommand(
        graph=ns,
        update=command.update,
        goto=[convert_to_theirs(TASKS, target) for target in goto],
    )
