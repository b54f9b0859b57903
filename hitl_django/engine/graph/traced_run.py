"""Tracing of runs with LangChain's callbacks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing

from ..loop.state import LoopState
from ..types import Chunk
from .results import find_failure


def trace_run(state: LoopState, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield the chunks of a run, and report its start and end to LangChain's callbacks."""
    trace = state.run.trace
    trace.begin(state.job.input, is_async=False)
    try:
        yield from chunks
    except BaseException as error:
        trace.fail(error)
        raise
    failure = find_failure(state)
    if failure is None:
        trace.end(state.read_output())
    else:
        trace.fail(failure)


async def atrace_run(state: LoopState, chunks: AsyncGenerator[Chunk]) -> AsyncGenerator[Chunk]:
    """Async variant of trace_run."""
    trace = state.run.trace
    await trace.begin(state.job.input, is_async=True)
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk
    except BaseException as error:
        await trace.fail(error)
        raise
    failure = find_failure(state)
    if failure is None:
        await trace.end(state.read_output())
    else:
        await trace.fail(failure)
