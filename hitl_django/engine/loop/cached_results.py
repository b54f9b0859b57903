"""Reading and writing of task results in the cache."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from typing import Any

from ..errors import PayloadError, annotate
from ..task.task import Task
from .chunks import build_cached_chunks, emit_writes
from .effects import CacheRead, CacheWrite, Effects
from .node_cache import FullKey, make_cache_key
from .state import LoopState

logger = logging.getLogger("hitl_django")


def read_cached_results(state: LoopState, tasks: Sequence[Task]) -> Generator[Any, Any, list[Task]]:
    """Assign the writes in the cache to ``task.writes`` of each task with a cached result.

    Return the tasks without a cached result, which must run.
    """
    keys: dict[str, FullKey] = {}
    state.cache_keys = keys
    for task in tasks:
        if task.node.cache is None or depends_on_people(state, task):
            continue
        try:
            keys[task.id] = make_cache_key(task)
        except Exception as error:
            annotate(error, f"Before task with name '{task.name}' and path '{task.path}'")
            task.error = error
            return list(tasks)
    if not keys:
        return list(tasks)
    found: dict[FullKey, Any] = yield CacheRead(list(keys.values()))
    left = []
    for task in tasks:
        writes = found.get(keys.get(task.id, ((), "")))
        if writes is None:
            left.append(task)
            continue
        del keys[task.id]
        task.writes = [(name, value) for name, value in writes]
        if state.saver is not None:
            state.commits.add_task(task)
        if chunks := build_cached_chunks(state, task):
            yield from emit_writes(state, task, chunks)
    return left


def cache_results(keys: dict[str, FullKey], ended: Sequence[Task]) -> Effects:
    """Cache the writes of ended tasks. Tasks that failed or paused are left out."""
    for task in ended:
        policy = task.node.cache
        if policy is None or not task.writes or task.id not in keys:
            continue
        try:
            yield CacheWrite({keys[task.id]: (list(task.writes), policy.ttl)})
        except PayloadError as error:
            # The value may still be valid for a run without a saver, so the run continues.
            logger.warning("could not cache the result of node %s: %s", task.name, error)


def depends_on_people(state: LoopState, task: Task) -> bool:
    """Return whether a task has received, or may still receive, a resume value.

    The result of such a task must not be cached, because a decision applies to one task only.
    """
    status = state.statuses.get(task.id)
    if state.run.wildcard:
        return True
    return status is not None and bool(status.answers or status.keyed or status.interrupts)
