"""The node that runs the tool calls of a model."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Lock
from typing import Any

from pydantic import ValidationError

from ..errors import GraphBubbleUp, GraphInterrupt
from ..task.context import TaskContext, current
from ..types import Command, RunnableConfig
from .injection import find_injections
from .tool import Tool, build_tool, holds_command, is_async_only, unwrap_command
from .tool_call import BadCall, ToolCall, ToolCallContext, build_bad_call, list_calls
from .tool_errors import Handling
from .tool_messages import asks_for_tools, build_message, get_messages, get_part


class ToolNode:
    """A node that runs the tool calls of the last message, side by side within one task.

    A tool may ask with interrupt(): its question is kept under the id of its tool call, and the
    other calls run to their end. A call that has ended doesn't run again when the task goes on.

    ``handle_tool_errors`` says which failures become a message to the model: by default only a
    call that doesn't fit the tool; True for every failure, a text to say instead, a function from
    the error to the text (its annotation limits the errors), an exception class or several, False
    for none. Any other failure is the node's. A pause is none, and an answer that doesn't fit its
    question is never handed to the model.
    """

    def __init__(
        self,
        tools: Sequence[Any],
        *,
        name: str = "tools",
        tags: Sequence[str] | None = None,
        handle_tool_errors: Any = None,
        messages_key: str = "messages",
    ) -> None:
        self.name, self.tags, self.messages_key = name, tuple(tags or ()), messages_key
        self.tools_by_name = {_tool_name(tool): tool for tool in tools}
        self._adapted = {name: build_tool(tool) for name, tool in self.tools_by_name.items()}
        self._injections = {
            name: find_injections(tool) for name, tool in self.tools_by_name.items()
        }
        self._handling = Handling(handle_tool_errors)

    def invoke(self, state: Any, config: RunnableConfig | None = None) -> Any:
        """Runs the calls and returns their results as an update of the state."""
        asker, calls = self._read(state)
        context = current.get()
        todo = _remaining(context, calls)
        if context is None:
            for call in todo:
                self._run(call, None)
        elif len(todo) == 1:
            self._run(todo[0], ToolCallContext(context, todo[0], Lock(), context.perform))
        elif todo:
            self._run_together(context, todo)
        return self._finish(context, calls, asker, state)

    async def ainvoke(self, state: Any, config: RunnableConfig | None = None) -> Any:
        """Like invoke, on the running event loop."""
        asker, calls = self._read(state)
        context, lock = current.get(), Lock()
        running = [
            self._arun(
                call,
                None if context is None else ToolCallContext(context, call, lock, context.perform),
            )
            for call in _remaining(context, calls)
        ]
        await asyncio.gather(*running)
        return self._finish(context, calls, asker, state)

    def _read(self, state: Any) -> tuple[Any, list[ToolCall]]:
        """Returns the message with the calls, and the calls; a list of calls is taken as such."""
        asker, calls = self._find_calls(state)
        for call in calls:
            call.state = state
        return asker, calls

    def _find_calls(self, state: Any) -> tuple[Any, list[ToolCall]]:
        if isinstance(state, list) and state and get_part(state[-1], "type") == "tool_call":
            return None, list_calls(state)
        for message in reversed(get_messages(state, self.messages_key)):
            if asks_for_tools(message):
                return message, list_calls(get_part(message, "tool_calls") or ())
        raise ValueError(f"No message of a model found in {self.messages_key!r} to run tools for")

    # Running.

    def _run_together(self, context: TaskContext, calls: list[ToolCall]) -> None:
        """Runs each call on a thread; what they want of the saver is done on this one."""
        inbox: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        lock, saver = Lock(), context.run.saver

        def perform(function: Callable[..., Any], *args: Any) -> Any:
            answer: Future[Any] = Future()

            def make() -> None:
                try:
                    answer.set_result(context.perform(function, *args))
                except BaseException as error:
                    answer.set_exception(error)

            inbox.put(make)
            return answer.result()

        def work(call: ToolCall) -> None:
            try:
                self._run(call, ToolCallContext(context, call, lock, perform))
            except BaseException as error:
                # The process is to end: raised again on the node's own thread.
                call.error = error
            finally:
                if saver is not None and saver.leave_thread is not None:
                    saver.leave_thread()
                inbox.put(None)

        with ThreadPoolExecutor(context.run.config.get("max_concurrency"), "hitl-tool") as pool:
            for call in calls:
                pool.submit(contextvars.copy_context().run, work, call)
            running = len(calls)
            while running:
                wanted = inbox.get()
                if wanted is None:
                    running -= 1
                else:
                    wanted()

    def _run(self, call: ToolCall, seen: Any) -> None:
        token = current.set(seen)
        try:
            tool = self._tool_for(call, seen)
            if isinstance(tool, Tool):
                arguments = tool.arguments(call)
                if tool.is_async:
                    call.result = _run_async(call, lambda: tool.function(**arguments))
                else:
                    call.result = tool.function(**arguments)
            else:
                with _reading(call):
                    if is_async_only(tool):
                        result = _run_async(call, lambda: tool.ainvoke(call.wire, _config_of(seen)))
                    else:
                        result = tool.invoke(call.wire, _config_of(seen))
                call.result = unwrap_command(result)
            call.done = True
        except (Exception, GraphBubbleUp) as error:
            self._handling.settle(call, error)
        finally:
            current.reset(token)

    async def _arun(self, call: ToolCall, seen: Any) -> None:
        token = current.set(seen)
        try:
            tool = self._tool_for(call, seen)
            if hasattr(tool, "ainvoke"):
                with _reading(call):
                    call.result = unwrap_command(await tool.ainvoke(call.wire, _config_of(seen)))
            elif isinstance(tool, Tool) and tool.is_async:
                call.result = await tool.function(**tool.arguments(call))
            else:
                place = contextvars.copy_context()
                running = asyncio.get_running_loop()
                await running.run_in_executor(None, place.run, self._run, call, seen)
                return
            call.done = True
        except (Exception, GraphBubbleUp) as error:
            self._handling.settle(call, error)
        finally:
            current.reset(token)

    def _tool_for(self, call: ToolCall, seen: Any) -> Any:
        """Returns what runs a call, whose arguments that no model gives are filled in."""
        if call.name not in self._adapted:
            known = ", ".join(self._adapted)
            raise BadCall(f"Error: there is no tool {call.name}. Tools: {known}.")
        call.injected = {
            name: make(call.state, seen, call.id)
            for name, make in self._injections[call.name].items()
        }
        return self._adapted[call.name]

    # Results.

    def _finish(
        self, context: TaskContext | None, calls: list[ToolCall], asker: Any, state: Any
    ) -> Any:
        for call in calls:
            if call.done:
                call.result = build_message(call, asker)
        if not all(call.done for call in calls):
            if context is not None:
                # A tool that swallowed its pause has a result that nobody decided.
                ended = {c.memo: c.result for c in calls if c.done and not c.asking}
                context.once = {**context.once, **ended}
            _raise_first(context, calls)
        results = [call.result for call in calls]
        # From a list of messages comes a list of messages; calls say nothing of where to put it.
        alone = isinstance(state, list) and asker is not None
        if not any(holds_command(result) for result in results):
            return results if alone else {self.messages_key: results}
        updates: list[Any] = []
        for result in results:
            for item in result if isinstance(result, list) else [result]:
                if isinstance(item, Command):
                    updates.append(item)
                else:
                    updates.append([item] if alone else {self.messages_key: [item]})
        return updates


def _remaining(context: TaskContext | None, calls: list[ToolCall]) -> list[ToolCall]:
    """Returns the calls that no earlier run of the task has ended."""
    known = {} if context is None else context.once
    for call in calls:
        if call.memo in known:
            call.result, call.done = known[call.memo], True
    return [call for call in calls if not call.done]


def _raise_first(context: TaskContext | None, calls: list[ToolCall]) -> None:
    """Raises the first failure, else a pause for all questions in the order of the calls."""
    interrupts: list[Any] = []
    for call in calls:
        if isinstance(call.error, GraphInterrupt):
            interrupts += call.error.interrupts
        elif call.error is not None:
            raise call.error
    if context is not None:
        places = {question.interrupt.id: place for place, question in enumerate(interrupts)}
        context.open = sorted(context.open, key=lambda q: places.get(q.interrupt.id, -1))
    raise GraphInterrupt(interrupts)


def _run_async(call: ToolCall, start: Callable[[], Any]) -> Any:
    """Runs an async tool to its end on an event loop of its own, as a worker does."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_awaited(start()))
    raise TypeError(
        f"Tool '{call.name}' is async and an event loop is running on this thread: run the graph "
        "with ainvoke or astream."
    )


async def _awaited(result: Any) -> Any:
    return await result


@contextmanager
def _reading(call: ToolCall) -> Iterator[None]:
    """Tells of arguments that don't fit; langchain's tools read them with pydantic."""
    try:
        yield
    except ValidationError as error:
        raise build_bad_call(call.name, error) from error


def _config_of(seen: Any) -> Any:
    return None if seen is None else seen.config()


def _tool_name(tool: Any) -> str:
    name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
    if not name or not (callable(tool) or hasattr(tool, "invoke")):
        raise TypeError(f"Expected a tool or a function, got {type(tool).__name__}: {tool!r}")
    return str(name)
