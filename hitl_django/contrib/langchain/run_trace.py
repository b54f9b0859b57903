"""Tracing of a run with LangChain's callbacks.

In the trace, the graph, each task and each conditional edge are chains.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from inspect import isawaitable
from types import FunctionType
from typing import Any

from langchain_core.callbacks import AsyncCallbackManager, CallbackManager
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers._streaming import _StreamingCallbackHandler

from hitl_django.engine.bridges import is_traced
from hitl_django.engine.constants import PUSH
from hitl_django.engine.task.callbacks import GraphCallbackHandler
from hitl_django.engine.task.context import TaskContext
from hitl_django.engine.task.nodes import Action
from hitl_django.engine.task.run_context import RunContext
from hitl_django.engine.task.task import Task

from .message_stream import MessageStream
from .node_steps import build_steps_action, list_steps
from .progress import ProgressCallbacks

#: Config keys of a run that calls within its nodes don't inherit.
_OWN = ("run_id", "run_name")


def open_trace(run: RunContext, name: str) -> RunTrace | None:
    """Return the trace of a run, or None if no LangChain callback needs the trace.

    The trace is needed if the run's config contains callbacks other than the engine's own handlers,
    or if an environment variable makes LangChain add a tracer.
    """
    callbacks = run.config.get("callbacks") or ()
    is_silent = isinstance(callbacks, list | tuple) and all(
        isinstance(one, GraphCallbackHandler | MessageStream | ProgressCallbacks)
        for one in callbacks
    )
    return None if is_silent and not is_traced() else RunTrace(run, name)


class RunTrace:
    """Reporter of one graph run to LangChain's callbacks.

    A task is a child of the run. The start of a child is reported to the callbacks of its parent,
    and calls made within the child are reported as children of the child. With ``is_async``,
    methods that report a start or an end return an awaitable.
    """

    def __init__(self, run: RunContext, name: str) -> None:
        self._config, self._thread_id = run.config, run.thread_id
        self._name = run.config.get("run_name") or name
        self._run: Any = None
        #: By task id: the parent's callbacks, the task's run, the callbacks for calls within the
        #: task, and the run of the task's current branch.
        self._parents: dict[str, Any] = {}
        self._tasks: dict[str, Any] = {}
        self._callbacks: dict[str, Any] = {}
        self._branches: dict[str, Any] = {}

    def begin(self, value: Any, *, is_async: bool) -> Awaitable[None] | None:
        """Report the start of the run."""
        of_thread = {} if self._thread_id is None else {"thread_id": self._thread_id}
        config = {**self._config, "metadata": {**of_thread, **self._config.get("metadata", {})}}

        def keep(run: Any) -> None:
            self._run = run

        return _start(config, keep, value, self._name, is_async, self._config.get("run_id"))

    def end(self, output: Any) -> Any:
        """Report the end of the run and its output."""
        return self._run.on_chain_end(output)

    def fail(self, error: BaseException) -> Any:
        """Report the error that ended the run."""
        return self._run.on_chain_error(error)

    def get_config(self, task: Task) -> dict[str, Any]:
        """Return the run's config with the callbacks to which a task and its calls report."""
        config = {key: value for key, value in self._config.items() if key not in _OWN}
        return {**config, "callbacks": self._callbacks.get(task.id) or self._find_parent(task)}

    def begin_task(self, context: TaskContext, *, is_async: bool) -> Awaitable[None] | None:
        """Report the start of an attempt of a task."""
        task = context.task

        def keep(run: Any) -> None:
            self._tasks[task.id] = run
            self._enter(context, run.get_child("seq:step:1"))

        config = {**context.config(), "callbacks": self._find_parent(task)}
        return _start(config, keep, task.input, task.name, is_async)

    def end_task(self, context: TaskContext, output: Any, *, is_async: bool) -> Any:
        """Report the end of an attempt and the node's output."""
        run = self._tasks[context.task.id]
        return _aend(run, output) if is_async else run.on_chain_end(output)

    def fail_task(self, context: TaskContext, error: BaseException, *, is_async: bool) -> Any:
        """Report the error that ended an attempt."""
        return self._tasks[context.task.id].on_chain_error(error)

    def build_action(self, context: TaskContext, action: Action) -> Action:
        """Return an action that calls a node with the LangChain callbacks of the trace.

        If the node is a LangChain chain, each runnable of the chain is reported separately. If the
        node isn't a LangChain runnable, ``action`` itself is returned.
        """
        steps = list_steps(action.source)
        if not steps:
            return action
        run, config = self._tasks[context.task.id], context.config()
        configs = [
            {**config, "callbacks": run.get_child(f"seq:step:{number}")}
            for number in range(1, len(steps) + 1)
        ]
        streams = any(_follows_chunks(handler) for handler in run.handlers)
        return build_steps_action(action, steps, configs, streams)

    def begin_branch(
        self, context: TaskContext, index: int, path: Action, seen: Any, *, is_async: bool
    ) -> Awaitable[None] | None:
        """Report the call of a conditional edge's function.

        A Runnable reports its calls itself, so nothing is reported for a Runnable. ``index`` is the
        number of the conditional edge, and ``seen`` is the argument of the function.
        """
        task = context.task
        # The steps of the node, and one step that writes, precede the branch.
        before = len(list_steps(task.node.action and task.node.action.source)) or 1
        callbacks = self._tasks[task.id].get_child(f"seq:step:{before + 2 + index}")
        self._branches.pop(task.id, None)
        self._enter(context, callbacks)
        if not isinstance(path.source, FunctionType):
            return _done() if is_async else None  # A Runnable reports its own start and end.

        def keep(run: Any) -> None:
            self._branches[task.id] = run
            self._enter(context, run.get_child())

        return _start(context.config(), keep, seen, path.name, is_async)

    def end_branch(self, context: TaskContext, chosen: Any, *, is_async: bool) -> Any:
        """Report the result of a conditional edge's function."""
        run = self._branches.get(context.task.id)
        if run is None:
            return _done() if is_async else None
        return run.on_chain_end(chosen)

    def fail_branch(self, context: TaskContext, error: BaseException, *, is_async: bool) -> Any:
        """Report the error raised by a conditional edge's function."""
        run = self._branches.get(context.task.id)
        if run is None:
            return _done() if is_async else None
        return run.on_chain_error(error)

    def _find_parent(self, task: Task) -> Any:
        """Return the callbacks of the task's parent: the run, or the caller of a @task function."""
        parent = self._parents.get(task.id)
        if parent is None:
            if task.node.triggers == (PUSH,):
                # A @task function belongs to the callbacks that its caller had at the time of the
                # call.
                parent = (var_child_runnable_config.get() or {}).get("callbacks")
            else:
                parent = self._run.get_child(f"graph:step:{task.origin.step}")
            self._parents[task.id] = parent
        return parent

    def _enter(self, context: TaskContext, callbacks: Any) -> None:
        """Set the callbacks to which later calls in the task report.

        The callbacks are also set in LangChain's context variable.
        """
        self._callbacks[context.task.id] = callbacks
        var_child_runnable_config.set(context.config())  # type: ignore[arg-type]


def _start(
    config: Any,
    keep: Callable[[Any], None],
    value: Any,
    name: str,
    is_async: bool,
    run_id: Any = None,
) -> Awaitable[None] | None:
    """Report the start of a graph, a task or a conditional edge to the callbacks in ``config``.

    ``value`` is the input, and ``name`` is the displayed name. ``keep`` is called with the run
    manager that LangChain returns.
    """
    kind = AsyncCallbackManager if is_async else CallbackManager
    manager: Any = kind.configure(
        inheritable_callbacks=config.get("callbacks"),
        inheritable_tags=config.get("tags"),
        inheritable_metadata=config.get("metadata"),
    )
    started = manager.on_chain_start(None, value, name=name, run_id=run_id)
    if isawaitable(started):
        return _keep_started(started, keep)
    keep(started)
    return None


async def _keep_started(started: Awaitable[Any], keep: Callable[[Any], None]) -> None:
    keep(await started)


async def _aend(run: Any, output: Any) -> None:
    """Report the end of ``run`` to sync and async callbacks.

    The stream handlers of the run receive the output as a chunk.
    """
    for handler in run.handlers:
        if _follows_chunks(handler):
            async for _ in handler.tap_output_aiter(run.run_id, _iterate(output)):
                pass
    await run.on_chain_end(output)


def _follows_chunks(handler: Any) -> bool:
    return isinstance(handler, _StreamingCallbackHandler) and not isinstance(handler, MessageStream)


async def _iterate(output: Any) -> AsyncIterator[Any]:
    yield output


async def _done() -> None:
    pass
