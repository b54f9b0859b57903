"""Functions that perform saver calls and queries on the calling OS thread."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from ..loop.effects import (
    CallStorage,
    ListCheckpoints,
    LoadCheckpoint,
    Query,
    Save,
    SaveAll,
    SaverCall,
)
from ..savers.checkpoint import BaseCheckpointSaver
from ..task.effects import Call


def perform_effects(effects: Generator[Any, Any, Any], perform: Callable[[Any], Any]) -> Any:
    """Perform the effects of a generator with ``perform``, and return the generator's result.

    Errors of an effect are raised inside the generator.
    """
    try:
        effect = next(effects)
        while True:
            try:
                reply = perform(effect)
            except BaseException as error:
                effect = effects.throw(error)
            else:
                effect = effects.send(reply)
    except StopIteration as done:
        return done.value


def run_query(query: Query, saver: BaseCheckpointSaver) -> Any:
    """Perform a query or a change of stored checkpoints, and return its result."""
    return perform_effects(query, partial(perform_saver_call, saver=saver))


def perform_saver_call(effect: SaverCall | Call, saver: BaseCheckpointSaver) -> Any:
    """Make the saver call that an effect describes, and return its result."""
    if isinstance(effect, LoadCheckpoint):
        return saver.get_tuple(effect.config)
    if isinstance(effect, ListCheckpoints):
        return list(
            saver.list(
                effect.config, filter=effect.filter, before=effect.before, limit=effect.limit
            )
        )
    if isinstance(effect, Save):
        return saver.commit(effect.commit)
    if isinstance(effect, SaveAll):
        return saver.commit_all(effect.commits)
    if isinstance(effect, CallStorage):
        return effect.call()
    if effect.action.is_async:
        raise TypeError(
            f"{effect.action.name} is async; use the async method (ainvoke, astream, …)."
        )
    return effect.action.call(effect.value)
