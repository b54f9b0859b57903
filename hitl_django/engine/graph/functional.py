"""The functional API: @entrypoint makes a graph of a function, and @task stores a call's result."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Generic, ParamSpec, TypeVar, get_args, get_origin, get_type_hints, overload

from ..channels import EphemeralValue, LastValue
from ..constants import END, PREVIOUS, PUSH, RETURN, START
from ..deprecated_names import takes_old_names
from ..drivers.task_calls import TaskCalls
from ..drivers.timeouts import check_stoppable
from ..loop.node_cache import BaseCache, build_cache_namespace
from ..savers.checkpoint import BaseCheckpointSaver
from ..state.register_types import register_schema_types
from ..task.futures import AnyFuture
from ..task.node_api import get_context
from ..task.nodes import Action, Node, Write, build_action
from ..types import CachePolicy, ContextT, RetryPolicy, TimeoutPolicy
from .policies import Policies
from .pregel import Pregel

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
Retry = RetryPolicy | Sequence[RetryPolicy] | None
Timeout = float | timedelta | TimeoutPolicy | None


class TaskFunction(Generic[P]):
    """A function decorated with @task. Each of its calls within a run is a separate task.

    A call returns a future. Sync code calls the future's ``result()``; async code awaits the
    future.
    """

    #: A node that refers to this function runs on a worker thread, which may wait for the task.
    starts_tasks = True

    def __init__(self, function: Callable[P, Any], name: str | None, policies: Policies) -> None:
        functools.update_wrapper(self, function)
        action = build_action(function)
        inner = function.func if isinstance(function, functools.partial) else function
        self.func = function
        self.name: str = name or getattr(inner, "__name__", None) or action.name
        self.__name__ = self.name
        self._positions = _positions(function, action.injected)
        self._is_async = action.is_async
        if policies.timeout is not None:
            check_stoppable(self.name, action)
        self._node = Node(
            action=Action(
                self._call, action.injected, action.is_async, name=self.name, source=function
            ),
            triggers=(PUSH,),
            keys=(),
            writers=(_returned,),
            retry=policies.retry,
            timeout=policies.timeout,
            cache=policies.cache,
        )
        register_schema_types(_hints(function).get("return"))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> AnyFuture:
        """Start a task and return its future.

        If the caller runs again, and the task with this name and call number has already finished,
        the future has the stored result.
        """
        context = get_context()
        calls = TaskCalls.open(context.full_context)
        return calls.make(context, self._node, self.name, (args, kwargs), self._is_async)

    def clear_cache(self, cache: BaseCache) -> None:
        """Delete this function's results from a cache."""
        cache.clear([build_cache_namespace(self.name, self._node)])

    async def aclear_cache(self, cache: BaseCache) -> None:
        await cache.aclear([build_cache_namespace(self.name, self._node)])

    def _call(self, value: tuple[tuple[Any, ...], dict[str, Any]], **given: Any) -> Any:
        args, kwargs = value
        for name in given:
            if name not in kwargs and len(args) <= self._positions[name]:
                kwargs = {**kwargs, name: given[name]}
        return self.func(*args, **kwargs)


@overload
def task(function: Callable[P, Any], /) -> TaskFunction[P]: ...
@overload
def task(
    function: None = None,
    /,
    *,
    name: str | None = None,
    retry_policy: Retry = None,
    cache_policy: CachePolicy | None = None,
    timeout: Timeout = None,
) -> Callable[[Callable[P, Any]], TaskFunction[P]]: ...
@takes_old_names(retry="retry_policy")
def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry_policy: Retry = None,
    cache_policy: CachePolicy | None = None,
    timeout: Timeout = None,
) -> Any:
    """Turn a function into a task with a stored result.

    The function must be called within an @entrypoint or a node of a graph. A call starts the task
    and returns a future. Tasks started before the first ``result()`` call run in parallel.

    A result is stored before the caller receives it. All calls of @task functions by one caller are
    numbered. When the caller runs again after a pause, a failure or a crash, the n-th call returns
    the stored result of the earlier n-th call, and the task doesn't run again. The caller must
    therefore call the same @task functions in the same order each time. A failed task runs again. A
    task may call interrupt() and other tasks.

    The result must be serializable like state. ``retry_policy`` defaults to the policy of the
    entrypoint. If ``cache_policy`` is given and the graph has a cache, a call with the same
    arguments as an earlier call returns the cached result. ``timeout`` requires an async function.
    Sync code can call an async function only in an async run.
    """
    policies = Policies.given(retry_policy, cache_policy, timeout)
    if function is None:
        return lambda wrapped: TaskFunction(wrapped, name, policies)
    return TaskFunction(function, name, policies)


@dataclass(frozen=True, slots=True)
class Final(Generic[R, S]):
    """The result of an entrypoint, with a separate value to save for the thread's next run."""

    value: R
    save: S


class entrypoint(Generic[ContextT]):
    """A decorator that turns a function into a graph with the function's input and output.

    With a checkpointer, the function can pause for a response. When the run resumes, the function
    starts again from its first line, and the stored results of @task functions are reused.

    The function's first parameter is the input. Optional parameters are ``config``, ``runtime``,
    ``store``, ``writer`` and ``previous``. ``previous`` is the value returned by the thread's
    previous run, or the value that the previous run saved with ``return entrypoint.final(value=...,
    save=...)``.

    ``retry_policy`` also applies to tasks without a retry policy. ``timeout`` and ``cache_policy``
    work as for nodes. ``cache`` is used for the function and for its tasks.
    """

    final = Final

    @takes_old_names(retry="retry_policy", config_schema="context_schema")
    def __init__(
        self,
        checkpointer: BaseCheckpointSaver | bool | None = None,
        store: Any = None,
        cache: BaseCache | None = None,
        context_schema: Any = None,
        cache_policy: CachePolicy | None = None,
        retry_policy: Retry = None,
        timeout: Timeout = None,
    ) -> None:
        if inspect.isfunction(checkpointer):
            raise TypeError(
                f"Write @entrypoint() with parentheses above {checkpointer.__name__}()."
            )
        self.checkpointer, self.store, self.cache = checkpointer, store, cache
        self.context_schema = context_schema
        self.policies = Policies.given(retry_policy, cache_policy, timeout)

    def __call__(self, function: Callable[..., Any]) -> Pregel:
        """Turn the function into a graph with one node, named after the function."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise NotImplementedError("Generators are not supported in the Functional API.")
        first = next(iter(inspect.signature(function).parameters), None)
        if first is None:
            raise ValueError("Entrypoint function must have at least one parameter")
        hints = _hints(function)
        takes = hints.get(first, Any)
        register_schema_types(takes)
        register_schema_types(hints.get("return"))
        action = replace(build_action(function), apart=True)
        policies = self.policies
        if policies.timeout is not None:
            check_stoppable(action.name, action)
        node = Node(
            action=action,
            triggers=(START,),
            keys=START,
            writers=(_finished,),
            retry=policies.retry,
            timeout=policies.timeout,
            cache=policies.cache,
        )
        graph = Pregel(
            nodes={action.name: node},
            channels={START: EphemeralValue(takes), END: LastValue(Any), PREVIOUS: LastValue(Any)},
            input_channels=START,
            output_channels=END,
            stream_channels=END,
            stream_mode="updates",
            checkpointer=self.checkpointer,
            store=self.store,
            cache=self.cache,
            input_schema=takes,
            context_schema=self.context_schema,
            auto_validate=False,  # The channels have reserved names.
            name=action.name,
        )
        graph.retry_policy = policies.retry
        graph.returned_type = _find_returned(hints.get("return", Any))
        graph.schema_name = "LangGraph"  # LangGraph uses this name for all functions.
        for name in ("__module__", "__qualname__", "__doc__"):
            setattr(graph, name, getattr(function, name, None))
        return graph


def _returned(output: Any) -> list[Write]:
    return [(RETURN, output)]


def _finished(output: Any) -> list[Write]:
    if isinstance(output, Final):
        return [(END, output.value), (PREVIOUS, output.save)]
    return [(END, output), (PREVIOUS, output)]


def _find_returned(annotation: Any) -> Any:
    if annotation is Final:
        return Any
    return get_args(annotation)[0] if get_origin(annotation) is Final else annotation


def _positions(function: Any, names: Sequence[str]) -> dict[str, int]:
    """Return the position of each parameter in ``names``.

    The position of a keyword-only parameter is sys.maxsize.
    """
    if not names:
        return {}
    return {
        parameter.name: sys.maxsize if parameter.kind is parameter.KEYWORD_ONLY else position
        for position, parameter in enumerate(inspect.signature(function).parameters.values())
        if parameter.name in names
    }


def _hints(function: Any) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (TypeError, NameError, AttributeError):
        return {}
