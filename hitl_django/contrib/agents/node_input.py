"""The input of a ToolNode: a state with messages, a list of messages, or tool calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hitl_django.engine.loop.plan import read_state
from hitl_django.engine.state.schema import get_coercion
from hitl_django.engine.task.context import TaskContext

from .tool_call import ToolCall, list_calls
from .tool_messages import get_messages, get_part, is_from_model
from .tool_request import WITH_CONTEXT


@dataclass(frozen=True, slots=True)
class NodeInput:
    """The tool calls to run, the model's message with these calls, and the state for the tools.

    ``is_list`` is true if the input was a list of messages. The node then also returns a list.
    """

    calls: list[ToolCall]
    asker: Any
    state: Any
    is_list: bool = False


def read_input(given: Any, key: str, context: TaskContext | None) -> NodeInput:
    """Return the tool calls of the model's last message, or the tool calls given as input.

    ``key`` is the state key of the messages.

    Raises:
        ValueError: the input contains neither tool calls nor a message of the model.
    """
    if isinstance(given, dict) and given.get("__type") == WITH_CONTEXT:
        calls = list_calls([given["tool_call"]])
        if "state" in given:
            return NodeInput(calls, None, given["state"])
        return NodeInput(calls, None, _read_state_object(context))
    if isinstance(given, list) and given and get_part(given[-1], "type") == "tool_call":
        return NodeInput(list_calls(given), None, _read_state(context))
    for message in reversed(get_messages(given, key)):
        if is_from_model(message):
            calls = list_calls(get_part(message, "tool_calls") or ())
            return NodeInput(calls, message, given, isinstance(given, list))
    raise ValueError(f"No AI message found in {key!r}")


def _read_state(context: TaskContext | None) -> dict[str, Any]:
    """Return the state of the running graph.

    The node needs this state if a Send starts the node with a single tool call as input.
    """
    if context is None:
        return {}
    origin, graph = context.task.origin, context.run.loop_state.graph
    return read_state(origin.spec, origin.values, graph.state_keys)


def _read_state_object(context: TaskContext | None) -> Any:
    if context is None:
        return {}
    origin, graph = context.task.origin, context.run.loop_state.graph
    state = _read_state(context)
    for name, managed in origin.spec.managed.items():
        state[name] = managed.compute(origin.step, origin.stop)
    coercion = get_coercion(graph.state_schema)
    return state if coercion is None else coercion(state)
