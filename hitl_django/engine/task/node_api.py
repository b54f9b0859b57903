"""The API for node code: interrupt, once, transact, and access to the run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast, overload

from ..bridges import find_ambient_variable, find_langgraph, is_langgraph_config
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
    """Return the context of the running node.

    Raises:
        RuntimeError: no node is running.
    """
    context = current.get()
    if context is None:
        raise RuntimeError(_NO_CONTEXT)
    return context


def _get_task_context(name: str, message: str) -> TaskContext:
    """Return the context of the running node of an engine graph or a LangGraph graph.

    ``name`` is the called function, such as ``once``. ``message`` is the error message if no node
    is running.

    Raises:
        RuntimeError: no node is running, or the node's run can't store results of ``name``.
    """
    context = current.get()
    if context is not None:
        return context
    variable = find_ambient_variable()
    ambient = None if variable is None else variable.get()
    configurable = (ambient or {}).get("configurable") or {}
    if not is_langgraph_config(configurable):
        raise RuntimeError(message)
    found: TaskContext | None = find_langgraph().find_task_context(configurable, name)
    if found is None:
        raise RuntimeError(_NO_NODE.format(name))
    return found


_NO_CONTEXT = "Called get_config outside of a runnable context"
_NO_NODE = (
    "{}() was called outside of a node. In a LangGraph graph, it can be called if a worker runs "
    "the graph, i.e. if the graph is registered or is a node of a registered graph."
)


@overload
def interrupt(
    value: Any,
    *,
    response_schema: type[AnswerT],
    key: str | None = None,
    expires: Expiry | timedelta | None = None,
) -> AnswerT: ...


@overload
def interrupt(
    value: Any,
    *,
    response_schema: Any = None,
    key: str | None = None,
    expires: Expiry | timedelta | None = None,
) -> Any: ...


def interrupt(
    value: Any,
    *,
    response_schema: Any = None,
    key: str | None = None,
    expires: Expiry | timedelta | None = None,
) -> Any:
    """Pause the node until a person decides, and return the resume value.

    When a decision exists, the node runs again from its first line. The n-th call in the node
    returns the n-th resume value. Parallel calls within one node, for example in several tools,
    each need a different ``key``. Interrupts with keys can be resolved in any order.

    ``value`` is the payload shown to the person, as plain JSON (None, bool, number, str, list, dict
    with str keys). Decimals, UUIDs, dates and times are converted to text.

    ``response_schema`` is the type of the response. A pydantic model, TypedDict, dataclass or other
    type validates and converts each response. A JSON schema dict validates decisions in the review
    queue, but not the value of ``Command(resume=…)``. ``expires`` sets a time limit and its effect.
    With a timedelta, the run is parked on expiry, i.e. stopped until an operator acts.

    If the node runs again and creates a different interrupt than before, a warning is logged.

    Raises:
        UnserializableError: ``value`` isn't JSON. The message contains the path of the invalid
            part.
        InvalidAnswerError: the response doesn't fit the schema. In a run executed by a worker, the
            interrupt instead becomes pending again and includes the reason.
        InterruptChangedError: the interrupt differs from the one already decided, and the config
            key ``on_interrupt_change`` is ``"error"``.
        NoSaverError: the graph has no checkpointer, so the run couldn't resume.
        RuntimeError: no graph is running.
    """
    return ask(value, response_schema, key, expires)


def ask(
    value: Any,
    response_schema: Any = None,
    key: str | None = None,
    expires: Expiry | timedelta | None = None,
    review_options: Any = None,
) -> Any:
    """Pause the task like ``interrupt()``, with review options.

    ``review_options`` are the options of ``review()``. The checkpoint saver stores these options
    with the interrupt.
    """
    context = _get_task_context("interrupt", _NO_CONTEXT)
    if context.run.saver is None and not context.run.config.get("configurable", {}).get(
        "allow_unsaved"
    ):
        raise NoSaverError(
            f"Node '{context.task.name}' called interrupt(), but the graph has no "
            "checkpointer. Compile the graph with a checkpointer."
        )
    if expires is not None and not isinstance(expires, Expiry):
        expires = Expiry(expires)
    return context.ask(value, response_schema, key, expires, review_options)


def once(key: str, function: Callable[P, ResultT], *args: P.args, **kwargs: P.kwargs) -> ResultT:
    """Call ``function`` once per task; later calls return the stored result.

    The result is stored before it is returned. It remains available after a pause, a retry or a
    crash. If ``function`` fails, or the process crashes before the result is stored, the next
    attempt calls ``function`` again. If ``function`` is async, ``once`` returns an awaitable. The
    result must be serializable like state.

    Node code may make several calls in parallel, in OS threads or coroutines, with a different key
    for each call.

    Raises:
        ConcurrentOnceError: a call with the same key is still running.
        RuntimeError: no node is running.
    """
    context = _get_task_context("once", _NO_NODE.format("once"))
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
    """Call ``function`` like ``once``, and store its result together with its database writes.

    With a DjangoSaver, the function runs in a transaction on the database of the runs. The same
    transaction stores the result. Either the writes and the result are committed or nothing is,
    even if the worker is killed or has lost its lease. The database writes therefore happen exactly
    once. The function should be short, because the transaction is open while it runs. It must not
    call ``interrupt`` or ``once``.

    Raises:
        RuntimeError: no node is running.
        TypeError: the function is async, which Django's transactions don't support.
    """
    context = _get_task_context("transact", _NO_NODE.format("transact"))
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
    """Return the runtime of the running node. ``context_schema`` is only for type checkers."""
    return get_context().runtime()


def get_store() -> Any:
    """Return the store of the running graph."""
    return get_context().run.store


def get_stream_writer() -> Callable[[Any], None]:
    """Return a function that emits custom stream chunks of the running node."""
    return get_context().write
