"""Tool calls, and the view of the running task's context for each tool call."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from hitl_django.engine.errors import GraphInterrupt
from hitl_django.engine.task.context import TaskContext
from hitl_django.engine.task.part_context import PartContext
from hitl_django.engine.types import Expiry


@dataclass(slots=True)
class ToolCall:
    """A tool call, and its result or error.

    ``result`` is set if the call is ``done``. ``error`` is set if the call failed. ``key`` is
    unique within the task, and the same in every execution of the task. ``asking`` is true if the
    call has a pending interrupt.
    """

    name: str
    args: Any
    id: str | None
    key: str
    place: int
    total: int
    result: Any = None
    error: BaseException | None = None
    done: bool = False
    asking: bool = False
    #: Writes to the state in addition to the result of the call.
    pushed: list[Any] = field(default_factory=list)

    @property
    def memo(self) -> str:
        """The key under which the task stores the result: the key and the arguments of the call."""
        return f"tool:{self.key}:{json.dumps(self.args, sort_keys=True, default=repr)}"

    @property
    def wire(self) -> dict[str, Any]:
        """The call as a dict in LangChain's format."""
        return {"name": self.name, "args": self.args, "id": self.id, "type": "tool_call"}


def list_calls(given: Sequence[Mapping[str, Any]]) -> list[ToolCall]:
    """Return the tool calls in ``given``, a list of dicts in LangChain's or OpenAI's format."""
    calls: list[ToolCall] = []
    for place, one in enumerate(given):
        name, args = _parse_call(one)
        key = one.get("id") or f"{name}:{place}"
        if any(call.key == key for call in calls):
            key = f"{key}:{place}"
        calls.append(ToolCall(name, args, one.get("id"), key, place, len(given)))
    return calls


def _parse_call(call: Mapping[str, Any]) -> tuple[str, Any]:
    function = call.get("function")
    if function is None:
        return call["name"], call.get("args") or {}
    arguments = function.get("arguments") or "{}"
    try:
        return function["name"], json.loads(arguments)
    except ValueError:
        return function["name"], arguments


class ToolCallContext(PartContext):
    """A view of the running task's context for one of its tool calls.

    Interrupts, once() results and subgraphs are identified by the tool call, so that they don't
    depend on the order of the calls. ``lock`` is shared by all tool calls of the task, and protects
    changes of the task. ``perform`` is the function through which the saver is called.
    """

    def __init__(
        self, context: TaskContext, call: ToolCall, lock: Lock, perform: Callable[..., Any]
    ) -> None:
        super().__init__(context, perform)
        self._call, self._lock = call, lock
        self._graphs = itertools.count()
        self._tasks = itertools.count()

    def get_part(self) -> str:
        return self._call.key

    def ask(
        self,
        value: Any,
        schema: Any,
        key: str | None,
        expires: Expiry | None = None,
        review_options: Any = None,
    ) -> Any:
        with self._lock:
            try:
                return super().ask(value, schema, key, expires, review_options)
            except GraphInterrupt:
                self._call.asking = True
                raise GraphInterrupt(self._context.open[-1:]) from None

    def push(self, name: str, value: Any) -> None:
        """Add a write to the channel ``name``, as a write of this tool call.

        The node returns the writes of all calls in order of the calls.
        """
        self._call.pushed.append((name, value))

    def next_call_index(self, numbers: Iterator[int]) -> int:
        """Return the index of the next @task call that this tool call makes.

        ``numbers``, the counter of the task, is not used. Each tool call has a separate counter.
        """
        return self._call.place + self._call.total * next(self._tasks)

    def child_ns(self) -> str:
        """Return the namespace of the next graph that this tool call runs."""
        count = self._call.place + self._call.total * next(self._graphs)
        return f"{self._context.task.ns}|{count}" if count else self._context.task.ns
