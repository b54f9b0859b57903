"""Runs one task from call to writes: its function, its branches, its retries.

Sans-IO, like the loop: a generator that yields what to call or how long to wait. Both drivers
perform the same one.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Generator
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
from .nodes import Action, Write, make_reader
from .retry import should_retry
from .task import Task

logger = logging.getLogger("hitl_django")


Step = Call | Wait | Report
Steps = Generator[Step, Any, None]
#: What a node returned, and its writes.
Attempted = tuple[Any, list[Write]]
#: Errors that aren't a node's: they end the process, the task on an event loop, or the run.
_PASSING = (KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, SaverFailed)


def run_task(context: TaskContext) -> Steps:
    """Run a task to its end, and leave on it what became of it.

    Sets ``writes`` where it finished, ``interrupts`` where it paused, ``error`` where it failed.
    KeyboardInterrupt and the like pass through: they are a crash of the run.
    """
    task = context.task
    node = task.node
    left = context.take_up_attempts() if node.retry else 0
    if left and not (yield from _waited(context, Wait(left))):
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
            policy = _stop(context, error)
            if policy is None:
                return
            seconds = _interval(policy, context.attempt)
        if not (yield from _waited(context, Wait(seconds, context.count_attempt(seconds)))):
            return
        logger.info(
            "Retrying task %s (node %s) after %.2f seconds, attempt %d",
            task.id, task.name, seconds, context.attempt + 1,
        )  # fmt: skip
        context.begin_attempt()
        if context.run.chunk_buffer is not None:
            context.run.chunk_buffer.take(task.id)


def _attempt(context: TaskContext) -> Generator[Step, Any, Attempted]:
    """Call a task's function, and its branches; returns what it returned, and its writes."""
    task, node, trace = context.task, context.task.node, context.run.trace
    action = node.action
    if trace is not None and action is not None:
        action = trace.build_action(context, action)
    try:
        output = task.input if action is None else (yield Call(action, task.input))
    except ParentCommand as signal:
        output = _addressed_here(signal)
    writes = _collected(context, output)
    if node.branches:
        writes = yield from _routed(context, output, writes)
    return output, writes


def _trace(
    context: TaskContext, attempt: Generator[Step, Any, Attempted]
) -> Generator[Step, Any, Attempted]:
    """Make an attempt, and tells langchain's callbacks of its beginning and its end."""
    trace = context.run.trace
    yield Report(trace.begin_task, context)
    try:
        output, writes = yield from attempt
    except BaseException as error:
        yield Report(trace.fail_task, context, error)
        raise
    yield Report(trace.end_task, context, output)
    return output, writes


# Of a node that is called once and no more, the driver makes the call itself, and says here what
# came of it: what ``run_task`` would have made of that, at less cost.


def take_result(context: TaskContext, output: Any) -> None:
    """Leave on a task what became of it, where its one call has returned."""
    try:
        _finish(context, _collected(context, output))
    except BaseException as error:
        _stop(context, error)


def take_error(context: TaskContext, error: BaseException) -> None:
    """Leave on a task what became of it, where its one call has raised; raises a crash again."""
    if isinstance(error, ParentCommand):
        take_result(context, _addressed_here(error))
    else:
        _stop(context, error)


def pass_input_on(task: Task) -> bool:
    """Take a task to its end that only passes its input on, as the hidden first node mostly does.

    False where there is something to call, or to refuse: then it is attempted like any other.
    """
    node = task.node
    if node.action is not None or node.branches:
        return False
    try:
        writes = _written(task, task.input)
        _check_targets(task, writes)
    except Exception:
        return False
    task.writes = writes
    return True


def _addressed_here(signal: ParentCommand) -> Command[Any]:
    """Return the Command that a graph, which the node called, addressed to the node's graph."""
    return replace(signal.command, graph=None)


def _finish(context: TaskContext, writes: list[Write]) -> None:
    """Leave on a task what it wrote."""
    _check_targets(context.task, writes)
    changed = context.changed
    context.task.writes = [*writes, (CHANGED, list(changed))] if changed else writes


def _stop(context: TaskContext, error: BaseException) -> RetryPolicy | None:
    """Leave on a task what stopped it, unless a policy is returned by which it is tried again."""
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
            policy = _policy_for(task.node.retry, error)
        except Exception as fault:
            failure = fault  # a policy that can't be asked is the task's failure too
    annotate(failure, f"During task with name '{task.name}' and id '{task.id}'")
    if policy is not None and context.attempt < policy.max_attempts:
        return policy
    task.error = failure
    task.memory = context.list_exit_writes()
    return None


def _waited(context: TaskContext, wait: Wait) -> Generator[Step, Any, bool]:
    """Wait for the next attempt; False where the run was asked to stop meanwhile."""
    try:
        yield wait
    except DrainSignal as signal:
        context.task.error = signal
        return False
    return True


def _collected(context: TaskContext, output: Any) -> list[Write]:
    """Return the writes in what the node returned."""
    if context.open:
        # The node caught its own pause with a bare except. Going on as if it had been answered
        # would act on nobody's decision.
        logger.warning(
            "node %s caught an interrupt() and returned; the run pauses anyway",
            context.task.name,
        )
        raise GraphInterrupt(context.open)
    writes = _written(context.task, output)
    return [*context.pushed, *writes] if context.pushed else writes


def _written(task: Task, output: Any) -> list[Write]:
    writes = task.node.collect(output)
    messages = task.origin.spec.messages
    return add_message_ids(writes, messages) if messages else writes


def _routed(
    context: TaskContext, output: Any, writes: list[Write]
) -> Generator[Step, Any, list[Write]]:
    """Return the writes with those that lead to what the node's branches choose."""
    origin, trace = context.task.origin, context.run.trace
    for index, branch in enumerate(context.task.node.branches):
        read = make_reader(origin.spec.channels, origin.values, writes)
        seen = branch.view(output, read)
        if trace is None:
            chosen = yield Call(branch.path, seen)
        else:
            chosen = yield from _trace_branch(context, index, branch.path, seen)
        writes = [*writes, *branch.route(chosen)]
    return writes


def _trace_branch(
    context: TaskContext, index: int, path: Action, seen: Any
) -> Generator[Step, Any, Any]:
    """Call a branch, and tells langchain's callbacks of its beginning and its end."""
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
    """Refuse a goto or a Send to a node that isn't there: dropping it would drop the work."""
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


def _policy_for(policies: tuple[RetryPolicy, ...], error: Exception) -> RetryPolicy | None:
    # A wrong answer, or one to another question, doesn't become right by trying again.
    if isinstance(error, (InvalidAnswerError, InterruptChangedError)):
        return None
    return next((policy for policy in policies if should_retry(policy, error)), None)


def _interval(policy: RetryPolicy, attempts: int) -> float:
    interval = min(
        policy.max_interval, policy.initial_interval * policy.backoff_factor ** (attempts - 1)
    )
    return interval + random.uniform(0, 1) if policy.jitter else interval
