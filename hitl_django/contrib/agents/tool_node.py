"""The node that runs the tool calls of a model."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue
from threading import Lock
from types import NoneType
from typing import Any

from hitl_django.engine.errors import GraphInterrupt
from hitl_django.engine.graph.run_config import merge_configs
from hitl_django.engine.graph.runnable import InvokedRunnable
from hitl_django.engine.task.context import TaskContext, current
from hitl_django.engine.types import Command, RunnableConfig

from .call_runner import Caller, CallRunner
from .node_input import NodeInput, read_input
from .tool import build_tool
from .tool_call import ToolCall, ToolCallContext
from .tool_errors import Handling, describe_bad_call
from .tool_request import AsyncToolCallWrapper, ToolCallWrapper

#: Prefix of the name under which a task stores messages that a call wrote in addition to its
#: result.
_PUSHED = "pushed:"


class ToolNode(InvokedRunnable):
    """Node that runs the tool calls of the last message in parallel, within one task.

    A tool can call interrupt(). The id of the tool call identifies the interrupt, and the other
    calls run to completion. When the task resumes, completed calls don't run again.

    ``handle_tool_errors`` selects the errors of tools that become a message to the model. If an
    error isn't selected, the node fails. By default, only invalid arguments (ToolInvocationError)
    become a message. Allowed values:

    - True for all errors, or False for no errors
    - an exception class, or a tuple of exception classes
    - the text of the message for all errors
    - a function that returns the text for an error, for the exception classes in the annotation of
      its parameter

    A call of an unknown tool, and arguments that are not an object, always become a message. A
    pause, and an invalid response to an interrupt, never become a message.

    ``wrap_tool_call(request, execute)`` is a function that wraps each call. The function receives a
    ToolCallRequest, calls ``execute`` any number of times with the same or a changed request, and
    returns the message. The function can also call interrupt(). ``awrap_tool_call``, the async
    form, is used on an event loop, or if ``wrap_tool_call`` isn't given.
    """

    def __init__(
        self,
        tools: Sequence[Any],
        *,
        name: str = "tools",
        tags: Sequence[str] | None = None,
        handle_tool_errors: Any = describe_bad_call,
        messages_key: str = "messages",
        wrap_tool_call: ToolCallWrapper | None = None,
        awrap_tool_call: AsyncToolCallWrapper | None = None,
    ) -> None:
        self.name, self.tags, self.messages_key = name, tuple(tags or ()), messages_key
        built = [build_tool(tool) for tool in tools]
        self._tools_by_name: dict[str, Any] = {str(tool.name): tool for tool in built}
        handling = Handling(handle_tool_errors)
        self._runner = CallRunner(
            self._tools_by_name, handling, messages_key, wrap_tool_call, awrap_tool_call
        )

    @property
    def tools_by_name(self) -> dict[str, Any]:
        """The tools by name: LangChain tools as given, and functions as a Tool."""
        return self._tools_by_name

    def invoke(self, input: Any, config: RunnableConfig | None = None) -> Any:
        """Run the tool calls in ``input``, and return their results as an update of the state."""
        context = current.get()
        given = read_input(input, self.messages_key, context)
        todo, config = _remaining(context, given.calls), _build_config(context, config)
        if context is None:
            for call in todo:
                self._runner.run(call, Caller(given.asker, given.state, None, config))
        elif len(todo) == 1:
            seen = ToolCallContext(context, todo[0], Lock(), context.perform)
            self._runner.run(todo[0], Caller(given.asker, given.state, seen, config))
        elif todo:
            self._run_together(context, given, todo, config)
        return self._finish(context, given)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None) -> Any:
        context, lock = current.get(), Lock()
        given = read_input(input, self.messages_key, context)

        def build_caller(call: ToolCall) -> Caller:
            seen = context and ToolCallContext(context, call, lock, context.perform)
            return Caller(given.asker, given.state, seen, tool_config)

        todo, tool_config = _remaining(context, given.calls), _build_config(context, config)
        await asyncio.gather(*[self._runner.arun(call, build_caller(call)) for call in todo])
        return self._finish(context, given)

    def _run_together(
        self, context: TaskContext, given: NodeInput, calls: list[ToolCall], config: Any
    ) -> None:
        """Run each tool call on a separate OS thread, and saver calls on the calling OS thread."""
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
                seen = ToolCallContext(context, call, lock, perform)
                self._runner.run(call, Caller(given.asker, given.state, seen, config))
            except BaseException as error:
                # The node's OS thread raises signals that end the process again.
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

    def _finish(self, context: TaskContext | None, given: NodeInput) -> Any:
        calls = given.calls
        if not all(call.done for call in calls):
            if context is not None:
                # A tool may catch its own pause and return a result. Discard that result, because
                # nobody has responded to the interrupt.
                ended = [call for call in calls if call.done and not call.asking]
                context.once = {
                    **context.once,
                    **{call.memo: call.result for call in ended},
                    **{_PUSHED + call.memo: call.pushed for call in ended if call.pushed},
                }
            _raise_first(context, calls)
        for name, value in (write for call in calls for write in call.pushed):
            assert context is not None
            context.push(name, value)
        results: list[Any] = []
        for call in calls:
            results += call.result if isinstance(call.result, list) else [call.result]
        if not any(isinstance(result, Command) for result in results):
            # If the input is a list of messages, the result is also a list of messages.
            return results if given.is_list else {self.messages_key: results}
        updates = [
            result
            if isinstance(result, Command)
            else ([result] if given.is_list else {self.messages_key: [result]})
            for result in results
        ]
        return _join_for_parent(updates)


def _join_for_parent(updates: list[Any]) -> list[Any]:
    """Combine the Commands for the calling graph (``Command.PARENT``) into one Command.

    Separate Commands would not all be applied, because this graph ends at the first of them.
    """
    above = [u for u in updates if isinstance(u, Command) and u.graph == Command.PARENT]
    if len(above) < 2 or any(not isinstance(u.update, dict | NoneType) for u in above):
        return updates
    pairs = [pair for command in above for pair in (command.update or {}).items()]
    targets = [
        target
        for command in above
        for target in (command.goto if isinstance(command.goto, list | tuple) else (command.goto,))
    ]
    joined = replace(above[0], update=pairs or None, goto=targets)
    return [update for update in updates if update not in above] + [joined]


def _build_config(context: TaskContext | None, given: RunnableConfig | None) -> Any:
    """Return the config for the tools of a node called with the config ``given``.

    If ``given`` is derived from the node's config, it is returned unchanged, as in LangGraph.
    Otherwise, it is merged with the node's config.
    """
    if context is None:
        return given
    if given and given.get("configurable", {}).get("checkpoint_ns") == context.task.ns:
        return given
    return merge_configs(context.config(), given)


def _remaining(context: TaskContext | None, calls: list[ToolCall]) -> list[ToolCall]:
    """Return the calls that have no stored result from an earlier execution of the task."""
    known = {} if context is None else context.once
    if not known:
        return calls  # Avoids serializing the arguments of the calls to look them up.
    for call in calls:
        if call.memo in known:
            call.result, call.done = known[call.memo], True
            call.pushed = list(known.get(_PUSHED + call.memo, ()))
    return [call for call in calls if not call.done]


def _raise_first(context: TaskContext | None, calls: list[ToolCall]) -> None:
    """Raise the error of the first failed tool call.

    If no call has failed, raise GraphInterrupt with the interrupts of all calls, in order of the
    calls.
    """
    interrupts: list[Any] = []
    for call in calls:
        if isinstance(call.error, GraphInterrupt):
            interrupts += call.error.interrupts
        elif call.error is not None:
            raise call.error
    if context is not None:
        places = {pending.interrupt.id: place for place, pending in enumerate(interrupts)}
        context.open = sorted(context.open, key=lambda q: places.get(q.interrupt.id, -1))
    raise GraphInterrupt(interrupts)
