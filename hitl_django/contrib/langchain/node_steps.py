"""Execution of a Runnable as a node, with callbacks for each step of the chain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from langchain_core.runnables import Runnable, RunnableSequence

from hitl_django.engine.task.nodes import Action, is_graph


def list_steps(source: Any) -> Sequence[Any]:
    """Return the runnables of a node that is a LangChain chain or a single runnable.

    If the node is a function or a graph, the result is empty.
    """
    if not isinstance(source, Runnable) or is_graph(source):
        return ()
    return source.steps if isinstance(source, RunnableSequence) else (source,)


def build_steps_action(
    action: Action, steps: Sequence[Any], configs: Sequence[Any], streams: bool
) -> Action:
    """Return an action that calls the runnables of a chain (``steps``), each with its own config.

    With ``streams``, the runnables are streamed on an event loop, so that the run's stream contains
    their chunks.
    """

    def call(value: Any) -> Any:
        for step, config in zip(steps, configs, strict=True):
            value = step.invoke(value, config)
        return value

    async def acall(value: Any) -> Any:
        if streams:
            return await _join_chunks(_stream(steps, configs, value))
        for step, config in zip(steps, configs, strict=True):
            value = await step.ainvoke(value, config)
        return value

    sync = Action(call, name=action.name, source=action.source)
    return Action(acall, is_async=True, sync=sync, name=action.name, source=action.source)


def _stream(steps: Sequence[Any], configs: Sequence[Any], value: Any) -> AsyncIterator[Any]:
    chunks: AsyncIterator[Any] = steps[0].astream(value, configs[0])
    for step, config in zip(steps[1:], configs[1:], strict=True):
        chunks = step.atransform(chunks, config)
    return chunks


async def _join_chunks(chunks: AsyncIterator[Any]) -> Any:
    """Return the sum of the chunks or, if they can't be added, the last chunk."""
    joined: Any = None
    async for chunk in chunks:
        try:
            joined = chunk if joined is None else joined + chunk
        except TypeError:
            joined = chunk
    return joined
