"""Execution of several inputs in parallel: on OS threads, or on the running event loop."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any

from ..types import RunnableConfig

#: A function that runs the graph with one input and its config.
Run = Callable[[Any, RunnableConfig], Any]
ARun = Callable[[Any, RunnableConfig], Awaitable[Any]]
Jobs = Sequence[tuple[Any, RunnableConfig]]
#: The index of the input, and its result or exception.
Ended = tuple[int, Any]


def run_jobs(run: Run, jobs: Jobs, *, keeps_errors: bool, on_threads: bool) -> Iterator[Ended]:
    """Run each job, and yield its index and result as soon as it ends.

    The first exception is raised, and no further job starts. With ``keeps_errors``, exceptions are
    yielded as results. Without ``on_threads``, the jobs run one after the other.
    """
    if not on_threads or len(jobs) < 2:
        for index, (value, config) in enumerate(jobs):
            yield (
                index,
                _run_or_return_error(run, value, config) if keeps_errors else run(value, config),
            )
        return
    pool = ThreadPoolExecutor(jobs[0][1].get("max_concurrency"), "hitl-batch")
    futures: dict[Future[Any], int] = {}
    try:
        for index, (value, config) in enumerate(jobs):
            variables = contextvars.copy_context()
            futures[pool.submit(variables.run, run, value, config)] = index
        for future in as_completed(futures):
            yield futures[future], _get_result(future, keeps_errors)
    finally:
        pool.shutdown(cancel_futures=True)


async def arun_jobs(run: ARun, jobs: Jobs, *, keeps_errors: bool) -> AsyncIterator[Ended]:
    """Run jobs on the event loop, and yield the index and result of each job as soon as it ends.

    The first exception is raised, and running jobs are cancelled. With ``keeps_errors``, exceptions
    are yielded as results.
    """
    limit = jobs[0][1].get("max_concurrency") if jobs else None
    gate = asyncio.Semaphore(limit or len(jobs) or 1)

    async def run_one(value: Any, config: RunnableConfig) -> Any:
        async with gate:
            return await run(value, config)

    tasks = {asyncio.ensure_future(run_one(*job)): index for index, job in enumerate(jobs)}
    waiting = set(tasks)
    try:
        while waiting:
            ended, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(ended, key=tasks.__getitem__):
                yield tasks[task], _get_result(task, keeps_errors)
    finally:
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting)


def sort_results(ended: Iterable[Ended]) -> list[Any]:
    """Return the results of jobs in the order of their inputs."""
    return [result for _, result in sorted(ended, key=lambda one: one[0])]


def _run_or_return_error(run: Run, value: Any, config: RunnableConfig) -> Any:
    try:
        return run(value, config)
    except Exception as error:
        return error


def _get_result(future: Future[Any] | asyncio.Future[Any], keeps_errors: bool) -> Any:
    error = future.exception() if keeps_errors else None
    return error if isinstance(error, Exception) else future.result()
