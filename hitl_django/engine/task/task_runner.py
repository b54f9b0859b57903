"""The execution of one task: its calls, its conditional edges, its retries and its writes.

The module does no I/O. A generator yields requests, such as Call and Wait, which a driver performs.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

from ..constants import BRANCH_TO, CHANGED, START, TASKS
from ..errors import (
    DrainSignal,
    GraphInterrupt,
    InterruptChangedError,
    InvalidAnswerError,
    ParentCommand,
    SaverFailed,
    annotate,
    iterate_leaves,
)
from ..state.messages import add_message_ids
from ..types import Command, RetryPolicy, Send
from .context import TaskContext, refuse_foreign_error
from .effects import Call, Report, Wait
from .nodes import Action, Branch, Write
from .retry import should_retry
from .task import Task

logger = logging.getLogger("hitl_django")


Step = Call | Wait | Report
Steps = Generator[Step, Any, None]
#: Calls the function of a conditional edge with a value.
Choose = Callable[[TaskContext, Action, Any], Any]
#: A node's result and its writes.
Attempted = tuple[Any, list[Write]]
#: Errors that end the process, the event loop's task or the run, and don't count as the node's
#: failure.
_PASSING = (KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, SaverFailed)


def run_task(context: TaskContext) -> Steps:
    """Run a task to its end, and set its outcome.

    ``writes`` is set if the task finished, ``pending_interrupts`` if it paused, and ``error`` if it
    failed. KeyboardInterrupt and similar exceptions are raised, because they end the run.
    """
    task = context.task
    node = task.node
    left = context.take_up_attempts() if node.retry else 0
    if left and not (yield from _wait_for_retry(context, Wait(left))):
        return
    while True:
        try:
            attempt = _attempt(context)
            _, writes = yield from (
                attempt if context.run.trace is None else _trace(context, attempt)
            )
            _finish(context, writes)
            return
        except BaseException as error:
            policy = _handle_error(context, error)
            if policy is None:
                return
            seconds = _get_interval(policy, context.attempt)
        if not (yield from _wait_for_retry(context, Wait(seconds, context.count_attempt(seconds)))):
            return
        logger.info(
            "Retrying task %s (node %s) after %.2f seconds, attempt %d",
            task.id, task.name, seconds, context.attempt + 1,
        )  # fmt: skip
        context.begin_attempt()
        if context.run.chunk_buffer is not None:
            context.run.chunk_buffer.take(task.id)


def _attempt(context: TaskContext) -> Generator[Step, Any, Attempted]:
    """Call a task's function and conditional edges, and return the result and the writes."""
    task, node, trace = context.task, context.task.node, context.run.trace
    action = node.action
    if trace is not None and action is not None:
        action = trace.build_action(context, action)
    try:
        output = task.input if action is None else (yield Call(action, task.input))
    except ParentCommand as signal:
        output = _address_to_this_graph(signal)
    writes = _collect_writes(context, output)
    if node.branches:
        writes = yield from _route_branches(context, output, writes)
    return output, writes


def _trace(
    context: TaskContext, attempt: Generator[Step, Any, Attempted]
) -> Generator[Step, Any, Attempted]:
    """Execute an attempt, and report its start and end to LangChain's callbacks."""
    trace = context.run.trace
    yield Report(trace.begin_task, context)
    try:
        output, writes = yield from attempt
    except BaseException as error:
        yield Report(trace.fail_task, context, error)
        raise
    yield Report(trace.end_task, context, output)
    return output, writes


# A driver calls simple nodes directly and sets the outcome with the functions below. The outcome is
# the same as with ``run_task``, but takes less time.


def take_result(context: TaskContext, output: Any, choose: Choose | None = None) -> None:
    """Set the outcome of a task whose node has returned ``output``.

    ``choose`` calls the functions of the node's conditional edges. ``choose`` is None for a node
    without conditional edges.
    """
    try:
        writes = _collect_writes(context, output)
        for branch in context.task.node.branches:
            assert choose is not None
            seen = _view_state(context, branch, output, writes)
            writes = [*writes, *branch.route(choose(context, branch.path, seen))]
        _finish(context, writes)
    except BaseException as error:
        _handle_error(context, error)


def take_error(context: TaskContext, error: BaseException, choose: Choose | None = None) -> None:
    """Set the outcome of a task whose node has raised ``error``.

    Errors that don't count as a failure of the node are raised again.
    """
    if isinstance(error, ParentCommand):
        take_result(context, _address_to_this_graph(error), choose)
    else:
        _handle_error(context, error)


def pass_input_on(task: Task) -> bool:
    """Finish a task that only passes on its input, such as the hidden start task of most graphs.

    Return False if the task must run, because it has a call to make or an error to raise.
    """
    node = task.node
    if node.action is not None or node.branches:
        return False
    try:
        writes = _make_writes(task, task.input)
        _check_targets(task, writes)
    except Exception:
        return False
    task.writes = writes
    return True


def _address_to_this_graph(signal: ParentCommand) -> Command[Any]:
    """Return the Command of a subgraph's node with ``graph`` set to None instead of PARENT.

    The Command then applies to this graph, which has called the subgraph.
    """
    return replace(signal.command, graph=None)


def _finish(context: TaskContext, writes: list[Write]) -> None:
    _check_targets(context.task, writes)
    changed = context.changed
    context.task.writes = [*writes, (CHANGED, list(changed))] if changed else writes


def _handle_error(context: TaskContext, error: BaseException) -> RetryPolicy | None:
    """Return the retry policy with which a failed task is retried.

    If the task isn't retried, set the outcome of the task and return None.
    """
    task = context.task
    if isinstance(error, GraphInterrupt):
        task.pending_interrupts = context.collect_interrupts(error.interrupts)
        task.memory = context.list_exit_writes()
    elif isinstance(error, ParentCommand):
        task.error = error
    elif isinstance(error, DrainSignal):
        task.error = error
        task.memory = context.list_memory_writes()
    elif any(isinstance(leaf, _PASSING) for leaf in iterate_leaves(error)):
        raise error
    else:
        return _fail(context, error)
    return None


def _fail(context: TaskContext, error: BaseException) -> RetryPolicy | None:
    refuse_foreign_error(context.run, error)
    task, failure, policy = context.task, error, None
    if isinstance(error, Exception):
        try:
            policy = _choose_policy(task.node.retry, error)
        except Exception as fault:
            failure = fault  # An error in the policy is also a failure of the task.
    annotate(failure, f"During task with name '{task.name}' and id '{task.id}'")
    if policy is not None and context.attempt < policy.max_attempts:
        return policy
    task.error = failure
    task.memory = context.list_exit_writes()
    return None


def _wait_for_retry(context: TaskContext, wait: Wait) -> Generator[Step, Any, bool]:
    """Wait until the next attempt. Return False if a stop was requested during the wait."""
    try:
        yield wait
    except DrainSignal as signal:
        context.task.error = signal
        return False
    return True


def _collect_writes(context: TaskContext, output: Any) -> list[Write]:
    if context.open:
        # The node caught its own pause with a bare except. If the run continued, the node would act
        # without a decision.
        logger.warning(
            "node %s caught an interrupt() and returned; the run pauses anyway",
            context.task.name,
        )
        raise GraphInterrupt(context.open)
    writes = _make_writes(context.task, output)
    return [*context.pushed, *writes] if context.pushed else writes


def _make_writes(task: Task, output: Any) -> list[Write]:
    writes = task.node.collect(output)
    messages = task.origin.spec.messages
    return add_message_ids(writes, messages) if messages else writes


def _route_branches(
    context: TaskContext, output: Any, writes: list[Write]
) -> Generator[Step, Any, list[Write]]:
    """Return ``writes``, followed by the writes of the node's conditional edges.

    ``output`` is the node's result. ``writes`` are the writes that the result was converted to.
    """
    trace = context.run.trace
    for index, branch in enumerate(context.task.node.branches):
        seen = _view_state(context, branch, output, writes)
        if trace is None:
            chosen = yield Call(branch.path, seen)
        else:
            chosen = yield from _trace_branch(context, index, branch.path, seen)
        writes = [*writes, *branch.route(chosen)]
    return writes


def _view_state(context: TaskContext, branch: Branch, output: Any, writes: Sequence[Write]) -> Any:
    origin = context.task.origin
    return branch.view(output, origin.spec.channels, origin.values, writes)


def _trace_branch(
    context: TaskContext, index: int, path: Action, seen: Any
) -> Generator[Step, Any, Any]:
    """Call a conditional edge's function, and report its start and end to LangChain's callbacks.

    ``seen`` is the argument of the function.
    """
    trace = context.run.trace
    yield Report(trace.begin_branch, context, index, path, seen)
    try:
        chosen = yield Call(path, seen)
    except BaseException as error:
        yield Report(trace.fail_branch, context, error)
        raise
    yield Report(trace.end_branch, context, chosen)
    return chosen


def _check_targets(task: Task, writes: list[Write]) -> None:
    """Raise an error if a goto or a Send names a node that doesn't exist."""
    spec = task.origin.spec
    for name, value in writes:
        if name == TASKS:
            target = value.node if isinstance(value, Send) else None
            if target is None or target in spec.nodes:
                continue
        elif name in spec.channels or not name.startswith(BRANCH_TO):
            continue
        else:
            target = name.removeprefix(BRANCH_TO)
        nodes = ", ".join(node for node in spec.nodes if node != START)
        raise ValueError(f"Node '{task.name}' goes to unknown node '{target}'. Nodes: {nodes}.")


def _choose_policy(policies: tuple[RetryPolicy, ...], error: Exception) -> RetryPolicy | None:
    # A retry can't correct an invalid response or a changed interrupt.
    if isinstance(error, (InvalidAnswerError, InterruptChangedError)):
        return None
    return next((policy for policy in policies if should_retry(policy, error)), None)


def _get_interval(policy: RetryPolicy, attempts: int) -> float:
    interval = min(
        policy.max_interval, policy.initial_interval * policy.backoff_factor ** (attempts - 1)
    )
    return interval + random.uniform(0, 1) if policy.jitter else interval
