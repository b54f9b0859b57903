"""Asynchronous versions of the services, which call the services in an OS thread."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar, overload
from uuid import UUID

from asgiref.sync import sync_to_async

from .reviews.decide import decide
from .runs.operate import cancel, retry
from .runs.start import start
from .runs.state import run_result

P = ParamSpec("P")
R = TypeVar("R")
ResultT = TypeVar("ResultT")


def _make_coroutine(verb: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    call = sync_to_async(verb)

    @wraps(verb)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        return await call(*args, **kwargs)

    twin.__name__ = twin.__qualname__ = f"a{verb.__name__}"
    twin.__module__ = __name__
    twin.__doc__ = f"Like {verb.__name__}."
    return twin


astart = _make_coroutine(start)
adecide = _make_coroutine(decide)
acancel = _make_coroutine(cancel)
aretry = _make_coroutine(retry)


@overload
async def arun_result(run_id: UUID | str, *, by: Any = None) -> Any: ...


@overload
async def arun_result(run_id: UUID | str, schema: type[ResultT], *, by: Any = None) -> ResultT: ...


async def arun_result(run_id: UUID | str, schema: Any = None, *, by: Any = None) -> Any:
    """Return the result of a run, like ``run_result``."""
    return await sync_to_async(lambda: run_result(run_id, schema, by=by))()
