"""Execution of one tool call of a ToolNode, with the node's wrapper and error handling."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ValidationError

from hitl_django.engine.bridges import find_langchain, is_of_langchain
from hitl_django.engine.errors import GraphBubbleUp, ParentCommand, resolve_group
from hitl_django.engine.task.context import current
from hitl_django.engine.task.tool_stream import ToolCallChunks

from .injection import LEFT_OUT, CallScope, Injection, ToolRuntime, build_runtime, find_injections
from .invocation_error import ToolInvocationError, list_reported_errors
from .tool import Tool, build_tool, is_async_only
from .tool_call import ToolCall
from .tool_errors import Failure, Handling
from .tool_messages import build_message
from .tool_request import AsyncToolCallWrapper, ToolCallRequest, ToolCallWrapper


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a tool: the message with the tool call, the state, and the context of the call.

    ``config`` is the config for the tool.
    """

    asker: Any
    state: Any
    seen: Any
    config: Any


class CallRunner:
    """A runner of the tool calls of one ToolNode.

    Each call of ``run`` or ``arun`` runs one tool call, on any OS thread.
    """

    def __init__(
        self,
        tools: Mapping[str, Any],
        handling: Handling,
        messages_key: str,
        wrap: ToolCallWrapper | None,
        awrap: AsyncToolCallWrapper | None,
    ) -> None:
        self._tools, self._handling, self._messages_key = tools, handling, messages_key
        self._wrap, self._awrap = wrap, awrap
        self._known = {name: _KnownTool(tool) for name, tool in tools.items()}

    def run(self, call: ToolCall, caller: Caller) -> None:
        """Run a tool call on this OS thread, and set its result or its error."""
        token = current.set(caller.seen)
        try:
            call.result = self._make(call, caller)
            call.done = True
        except (Exception, GraphBubbleUp) as error:
            call.error = error
        finally:
            current.reset(token)

    async def arun(self, call: ToolCall, caller: Caller) -> None:
        token = current.set(caller.seen)
        try:
            call.result = await self._amake(call, caller)
            call.done = True
        except (Exception, GraphBubbleUp) as error:
            call.error = error
        finally:
            current.reset(token)

    def _make(self, call: ToolCall, caller: Caller) -> Any:
        request = self._build_request(call, caller)
        if self._wrap is None and self._awrap is None:
            return self._execute(caller, request)
        try:
            with _ResolvingGroups(caller):
                if self._wrap is not None:
                    result = self._wrap(request, partial(self._execute, caller))
                else:
                    # Run the async wrapper even without an event loop. It may interrupt for an
                    # approval and must not be skipped.
                    result = _run_async(call.name, partial(self._await_wrapper, caller, request))
        except Exception as error:
            result = self._describe(error, wrapped=True)
        return self._build_message(request, caller, result)

    async def _amake(self, call: ToolCall, caller: Caller) -> Any:
        if self._awrap is None and self._wrap is not None:
            return await _run_on_thread(partial(self._make, call, caller))
        request = self._build_request(call, caller)
        if self._awrap is None:
            return await self._aexecute(caller, request)
        try:
            with _ResolvingGroups(caller):
                result = await self._await_wrapper(caller, request)
        except Exception as error:
            result = self._describe(error, wrapped=True)
        return self._build_message(request, caller, result)

    async def _await_wrapper(self, caller: Caller, request: ToolCallRequest) -> Any:
        assert self._awrap is not None
        return await self._awrap(request, partial(self._aexecute, caller))

    def _build_request(self, call: ToolCall, caller: Caller) -> ToolCallRequest:
        tool, runtime = self._tools.get(call.name), None
        is_wrapped = self._wrap is not None or self._awrap is not None
        if is_wrapped and caller.seen is not None:
            runtime = build_runtime(ToolRuntime, self._build_scope(caller, caller.state, call.id))
        return ToolCallRequest(call.wire, tool, caller.state, runtime)

    def _execute(self, caller: Caller, request: ToolCallRequest) -> Any:
        attempt = self._begin(caller, request)
        if attempt is None:
            return self._refuse(caller, request)
        try:
            with _ResolvingGroups(caller):
                result = attempt.call()
            return attempt.finish(self._build_message(request, caller, result))
        except Exception as error:
            attempt.fail(error)
            return self._build_message(request, caller, self._describe(error))
        except ParentCommand as signal:
            attempt.fail(signal)
            raise

    async def _aexecute(self, caller: Caller, request: ToolCallRequest) -> Any:
        attempt = self._begin(caller, request)
        if attempt is None:
            return self._refuse(caller, request)
        try:
            with _ResolvingGroups(caller):
                result = await attempt.acall()
            return attempt.finish(self._build_message(request, caller, result))
        except Exception as error:
            attempt.fail(error)
            return self._build_message(request, caller, self._describe(error))
        except ParentCommand as signal:
            attempt.fail(signal)
            raise

    def _begin(self, caller: Caller, request: ToolCallRequest) -> _Attempt | None:
        """Return an attempt with its injected arguments, or None if the node has no such tool."""
        given = request.tool_call
        tool = request.tool
        if tool is None:
            return None
        known = self._known.get(given["name"])
        if known is None or known.tool is not tool:
            known = _KnownTool(build_tool(tool))
        filled_in: dict[str, Any] = {}
        if known.injections:
            scope = self._build_scope(caller, request.state, given.get("id"))
            values = {name: make(scope) for name, make in known.injections.items()}
            filled_in = {name: value for name, value in values.items() if value is not LEFT_OUT}
        attempt = _Attempt(known, given, filled_in, caller)
        attempt.begin()
        return attempt

    def _build_scope(self, caller: Caller, state: Any, call_id: str | None) -> CallScope:
        tools = list(self._tools.values())
        return CallScope(state, caller.seen, caller.config, call_id, tools, self._messages_key)

    def _refuse(self, caller: Caller, request: ToolCallRequest) -> Any:
        known = ", ".join(self._tools)
        name = request.tool_call["name"]
        text = f"Error: {name} is not a valid tool, try one of [{known}]."
        return self._build_message(request, caller, Failure(text))

    def _describe(self, error: Exception, *, wrapped: bool = False) -> Failure:
        """Return the failure with the error message for the model.

        If the model must not receive a message, raise the error. ``wrapped`` is true if the wrapper
        has raised the error.
        """
        text = self._handling.describe(error, wrapped=wrapped)
        if text is None:
            raise error
        return Failure(text)

    def _build_message(self, request: ToolCallRequest, caller: Caller, result: Any) -> Any:
        call = request.tool_call
        return build_message(result, call["name"], call.get("id"), caller.asker, self._messages_key)


class _KnownTool:
    """A tool of the node, with the function to call and the arguments that the node injects."""

    __slots__ = ("injections", "langchain", "runs", "tool")

    def __init__(self, tool: Any) -> None:
        self.tool = tool
        function = tool.function if isinstance(tool, Tool) else tool
        self.injections: dict[str, Injection] = find_injections(function)
        #: Bridge to LangChain if the tool is a LangChain tool, otherwise None.
        self.langchain = find_langchain() if is_of_langchain(tool) else None
        self.runs = tool if self.langchain is None else self.langchain.keep_commands(tool)


class _Attempt:
    """One attempt of a tool call."""

    __slots__ = ("_args", "_chunks", "_config", "_filled_in", "_given", "_known", "_seen")

    def __init__(
        self,
        known: _KnownTool,
        given: Mapping[str, Any],
        filled_in: dict[str, Any],
        caller: Caller,
    ) -> None:
        self._known, self._given, self._filled_in = known, given, filled_in
        self._seen, self._config = caller.seen, caller.config
        self._args = given["args"]
        if isinstance(self._args, dict) and known.injections:
            self._args = {n: v for n, v in self._args.items() if n not in known.injections}
        self._chunks: ToolCallChunks | None = None

    def begin(self) -> None:
        """Emit the start of the tool call in the stream mode ``tools``.

        For LangChain tools, LangChain's callbacks do this.
        """
        seen = self._seen
        if seen is None:
            return
        seen.progress()
        if seen.run.tool_stream is None or self._known.langchain is not None:
            return
        self._chunks = seen.run.tool_stream.begin(
            seen.task.origin.levels,
            str(self._given.get("id")),
            self._given["name"],
            self._args,
            self._config["tags"],
        )

    def finish(self, message: Any) -> Any:
        """Emit the end of the tool call in the stream mode ``tools``, and return ``message``.

        ``message`` contains the result of the call.
        """
        if self._seen is not None:
            self._seen.progress()
        if self._chunks is not None:
            self._chunks.finish(message)
        return message

    def fail(self, error: BaseException) -> None:
        if self._chunks is not None:
            self._chunks.fail(error)

    def call(self) -> Any:
        """Run the tool on this OS thread, and return its result."""
        tool = self._known.runs
        if isinstance(tool, Tool):
            arguments = tool.arguments(self._args, self._filled_in)
            if tool.is_async:
                return _run_async(tool.name, lambda: tool.function(**arguments))
            return tool.function(**arguments)
        try:
            if is_async_only(tool):
                name = self._given["name"]
                result = _run_async(name, lambda: tool.ainvoke(self._wire, self._config))
            else:
                result = tool.invoke(self._wire, self._config)
        except ValidationError as error:
            raise self._build_error(error) from error
        return self._unwrap(result)

    async def acall(self) -> Any:
        tool = self._known.runs
        if isinstance(tool, Tool) and tool.is_async:
            return await tool.function(**tool.arguments(self._args, self._filled_in))
        if isinstance(tool, Tool) or not hasattr(tool, "ainvoke"):
            return await _run_on_thread(self.call)
        try:
            result = await tool.ainvoke(self._wire, self._config)
        except ValidationError as error:
            raise self._build_error(error) from error
        return self._unwrap(result)

    def _unwrap(self, result: Any) -> Any:
        langchain = self._known.langchain
        return result if langchain is None else langchain.unwrap_output(result)

    @property
    def _wire(self) -> dict[str, Any]:
        return {**self._given, "args": {**self._args, **self._filled_in}, "type": "tool_call"}

    def _build_error(self, error: ValidationError) -> ToolInvocationError:
        told = list_reported_errors(error, self._known.injections)
        return ToolInvocationError(self._given["name"], error, self._args, told)


class _ResolvingGroups:
    """A context manager that replaces an exception group by one exception.

    The exception is an error, a pause or another GraphBubbleUp. If an exception group contains
    interrupts and a failure, the interrupts are withdrawn, because the failure may become a message
    to the model.
    """

    __slots__ = ("_caller",)

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        if not isinstance(error, BaseExceptionGroup):
            return
        resolved, seen = resolve_group(error), self._caller.seen
        if seen is not None and not isinstance(resolved, GraphBubbleUp):
            seen.withdraw_interrupts(error)
        if resolved is not error:
            raise resolved from error


async def _run_on_thread(work: Callable[[], Any]) -> Any:
    place = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(None, place.run, work)


def _run_async(name: str, start: Callable[[], Any]) -> Any:
    """Run an async tool to its end on a new event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_awaited(start()))
    raise TypeError(
        f"Tool '{name}' is async and an event loop is running on this thread: run the graph "
        "with ainvoke or astream."
    )


async def _awaited(result: Any) -> Any:
    return await result
