"""Execution of one task on the calling OS thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from ..errors import DrainSignal, SaverFailed
from ..task.ambient_config import AMBIENT_CONFIG
from ..task.context import TaskContext, current, store_commit
from ..task.effects import Call, Report, Wait
from ..task.nodes import Action
from ..task.runtime import RunControl
from ..task.task import Task
from ..task.task_runner import run_task, take_error, take_result
from ..types import TimeoutPolicy
from .node_call import convert_error, get_injected
from .timeouts import AttemptTimer, check_stoppable


def call_here(context: TaskContext, action: Action, value: Any) -> Any:
    """Call a node's function on this OS thread and return its result."""
    if action.is_async:
        if action.sync is None:
            return _run_async(context, action, value)
        action = action.sync
    given = get_injected(context, action) if action.injected else {}
    around = context.run.around_call
    if around is None:
        return action.call(value, **given)
    with around(context.task.name):
        return action.call(value, **given)


def _run_async(context: TaskContext, action: Action, value: Any) -> Any:
    _refuse_loop(context)
    return _run_on_loop(
        context, _awaited(context, action.call(value, **get_injected(context, action)))
    )


def _run_on_loop(context: TaskContext, running: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine like asyncio.run, and cancel it if a stop of the run is requested."""
    control = context.run.control
    if control is None:
        return asyncio.run(running)
    with asyncio.Runner() as runner:
        try:
            return runner.run(_stoppable(control, running))
        except BaseException as error:
            # The stop is stored before the loop waits for its tasks, because the process may be
            # killed meanwhile.
            control.note_stop(error, (context.task.name,))
            if control.stopped is not None and isinstance(error, asyncio.CancelledError):
                raise SaverFailed(control.stopped) from None
            raise


async def _stoppable(control: RunControl, running: Awaitable[Any]) -> Any:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    with control.cancelling(partial(loop.call_soon_threadsafe, task.cancel)):
        return await running


def _make_timed_call(
    limit: TimeoutPolicy, context: TaskContext
) -> Callable[[TaskContext, Action, Any], Any]:
    """Return a function that calls a function of the task within the time limits ``limit``."""
    watch = AttemptTimer(limit, context, _started)

    def make(context: TaskContext, action: Action, value: Any) -> Any:
        if action.is_async:
            _refuse_loop(context)
            return _run_on_loop(context, _awaited(context, watch.call(Call(action, value))))
        if action is context.task.node.action:
            check_stoppable(context.task.name, action)
        return call_here(context, action, value)

    return make


def _started(context: TaskContext, call: Call) -> Awaitable[Any]:
    running: Awaitable[Any] = call.action.call(call.value, **get_injected(context, call.action))
    return running


def _refuse_loop(context: TaskContext) -> None:
    """Raise TypeError if this OS thread has a running event loop.

    A sync call would block the event loop.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise TypeError(
        f"Node '{context.task.name}' is async and an event loop is running on this thread: run "
        "the graph with ainvoke or astream."
    )


async def _awaited(context: TaskContext, running: Awaitable[Any]) -> Any:
    try:
        return await running
    finally:
        if context.calls is not None:
            await context.calls.wait()


def _wait(context: TaskContext, wait: Wait) -> None:
    """Wait for the delay before the next attempt of a task.

    Raises:
        DrainSignal: a stop of the run was requested.
    """
    if wait.commit is not None:
        store_commit(context, wait.commit)
    control = context.run.control
    if control is None:
        time.sleep(wait.seconds)
    elif control.wait(wait.seconds):
        raise DrainSignal


def _call_plain(context: TaskContext, action: Action) -> None:
    """Run a task that isn't traced and has neither retries nor a timeout.

    All functions of the task must be sync, and must not start other tasks.
    """
    try:
        output = call_here(context, action, context.task.input)
    except BaseException as error:
        take_error(context, convert_error(context, error), _choose)
    else:
        take_result(context, output, _choose)


def _choose(context: TaskContext, path: Action, value: Any) -> Any:
    """Call the function of a conditional edge."""
    try:
        return call_here(context, path, value)
    except BaseException as error:
        converted = convert_error(context, error)
        if converted is error:
            raise
        raise converted from converted.__cause__


def perform_task(context: TaskContext) -> Task:
    control = context.run.control
    if control is None or control.around_task is None:
        return _perform(context)
    with control.around_task(context):
        return _perform(context)


def _perform(context: TaskContext) -> Task:
    token = current.set(context)
    run = context.run
    ambient = run.ambient_config
    outer = None
    if ambient is not None:
        # The call's callbacks belong to the surrounding call, which is known only here.
        outer = ambient.set(AMBIENT_CONFIG if run.trace is None else context.config())
    try:
        action = context.task.node.plain
        if action is None or run.trace is not None:
            _go_through(context)
        else:
            _call_plain(context, action)
        if context.calls is not None:
            context.calls.settle()
            context.calls = None
        return context.task
    finally:
        current.reset(token)
        if ambient is not None and outer is not None:
            ambient.reset(outer)


def _go_through(context: TaskContext) -> None:
    steps = run_task(context)
    limit = context.task.node.timeout
    call = call_here if limit is None else _make_timed_call(limit, context)
    reply: Any = None
    try:
        step = next(steps)
        while True:
            try:
                if type(step) is Call:
                    reply = call(context, step.action, step.value)
                elif type(step) is Report:
                    reply = step.tell(*step.arguments, is_async=False)
                else:
                    _wait(context, step)  # type: ignore[arg-type]
                    reply = None
            except BaseException as error:
                step = steps.throw(convert_error(context, error))
            else:
                step = steps.send(reply)
    except StopIteration:
        return
