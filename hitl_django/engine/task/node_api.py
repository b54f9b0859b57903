"""What node code calls: interrupt, once, transact, and access to its run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast, overload

from ..errors import NoSaverError
from ..types import Expiry, RunnableConfig
from .context import (
    TaskContext,
    astore_results,
    astore_steps,
    current,
    store_results,
    store_steps,
)
from .runtime import Runtime
from .transact import call_in_transaction

ContextT = TypeVar("ContextT")
AnswerT = TypeVar("AnswerT")
ResultT = TypeVar("ResultT")
P = ParamSpec("P")


def get_context() -> TaskContext:
    """Return the context of the running node."""
    context = current.get()
    if context is None:
        raise RuntimeError("Called get_config outside of a runnable context")
    return context


@overload
def interrupt(
    value: Any,
    *,
    response_schema: type[AnswerT],
    key: str | None = None,
    expires: Expiry | None = None,
) -> AnswerT: ...


@overload
def interrupt(
    value: Any,
    *,
    response_schema: Any = None,
    key: str | None = None,
    expires: Expiry | None = None,
) -> Any: ...


def interrupt(
    value: Any,
    *,
    response_schema: Any = None,
    key: str | None = None,
    expires: Expiry | None = None,
) -> Any:
    """Stop the node to ask a person; returns the answer when the node runs again.

    The node runs again from its first line once the answer is there; the n-th call in the node
    gets the n-th answer. Calls that run side by side within one node, as several tools do, take a
    ``key`` each, and are answered by key whatever their order. ``value`` is what the person is
    shown: plain JSON (None, bool, number, str, list, dict with str keys). ``response_schema`` says
    what an answer must look like: a pydantic model, TypedDict, dataclass or other type, by which
    each answer is validated and returned, or a JSON schema dict, which is only advertised.

    ``expires`` says when it need not be answered any more, and what then.

    Raises UnserializableError, with the path, where ``value`` isn't JSON, InvalidAnswerError
    where the answer doesn't fit (a worker asks again instead, and says why), RuntimeError outside
    of a running graph, and NoSaverError in a graph without a checkpointer, which could never go
    on. A question that isn't the one that was
    answered is logged, or with the config key ``on_interrupt_change="error"`` raises
    InterruptChangedError.
    """
    return ask(value, response_schema, key, expires)


def ask(
    value: Any,
    response_schema: Any = None,
    key: str | None = None,
    expires: Expiry | None = None,
    terms: Any = None,
) -> Any:
    """Ask as ``interrupt()`` does, with terms that go to the saver beside the question."""
    context = get_context()
    if context.run.saver is None and not context.run.config.get("configurable", {}).get(
        "allow_unsaved"
    ):
        raise NoSaverError(
            f"Node '{context.task.name}' called interrupt(), but the graph has no "
            "checkpointer. Compile the graph with a checkpointer."
        )
    return context.ask(value, response_schema, key, expires, terms)


def once(key: str, function: Callable[P, ResultT], *args: P.args, **kwargs: P.kwargs) -> ResultT:
    """Call ``function`` a single time for this task, and return the same result ever after.

    The result is stored before it is returned, so it outlives pauses, retries and a crash of a
    later line; a crash within ``function`` or before its result is stored calls it again. For an
    async function it returns an awaitable. The result has to be storable like state.

    Code of a node may do several things at once, by threads or awaiting functions of its own, under
    a key each: ConcurrentOnceError where a key is used while what it stands for is being done.
    """
    context = get_context()
    if inspect.iscoroutinefunction(function):
        return cast("ResultT", _once_async(context, key, function, args, kwargs))
    with context.lock_key(key):
        known: Mapping[str, ResultT] = context.once
        if key in known:
            return known[key]
        context.check_in_time()
        store_steps(context)
        result = function(*args, **kwargs)
        context.remember(key, result)
        store_results(context)
    return result


def transact(
    key: str, function: Callable[P, ResultT], *args: P.args, **kwargs: P.kwargs
) -> ResultT:
    """Call ``function`` like ``once``, and store what it writes to the database with its result.

    With a DjangoSaver it is called within a transaction, on the database that runs are written to,
    in which its result is stored as well: both are there or neither, also where this worker is
    killed or has been replaced meanwhile. So such writes happen exactly once. The transaction lasts
    as long as the function does, which should be short, and neither ask nor call ``once`` itself.
    TypeError for an async function: Django has no transactions for those.
    """
    context = get_context()
    if inspect.iscoroutinefunction(function):
        raise TypeError(
            "transact() doesn't accept async functions, because transactions are bound to a thread."
        )
    with context.lock_key(key):
        known: Mapping[str, ResultT] = context.once
        if key in known:
            return known[key]
        result: ResultT = call_in_transaction(context, key, partial(function, *args, **kwargs))
    return result


async def _once_async(
    context: TaskContext,
    key: str,
    function: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    with context.lock_key(key):
        known = context.once
        if key in known:
            return known[key]
        context.check_in_time()
        await astore_steps(context)
        result = await function(*args, **kwargs)
        context.remember(key, result)
        await astore_results(context)
    return result


def get_config() -> RunnableConfig:
    """Return the config of the running node."""
    return get_context().config()


def get_runtime(context_schema: type[ContextT] | None = None) -> Runtime[ContextT]:
    """Return the runtime of the running node."""
    return get_context().runtime()


def get_store() -> Any:
    """Return the store of the running graph."""
    return get_context().run.store


def get_stream_writer() -> Callable[[Any], None]:
    """Return what emits custom stream chunks from the running node."""
    return get_context().write
