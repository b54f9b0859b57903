"""Nodes, conditional edges, and the functions that they call."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import wraps
from types import FunctionType
from typing import Any

from ..bridges import find_langgraph, is_of_langchain
from ..channels import MISSING, SAME, BaseChannel
from ..constants import BRANCH_TO, END, START, TASKS
from ..errors import InvalidUpdateError
from ..serde import add_code_of
from ..types import CachePolicy, RetryPolicy, Send, TimeoutPolicy
from .signatures import check_config_hint

Write = tuple[str, Any]

#: The module that defines @task. If the module isn't loaded, no @task functions exist.
_FUNCTIONAL = "hitl_django.engine.graph.functional"
#: Parameters of a node function that are injected by name.
INJECTED = ("config", "writer", "store", "previous", "runtime", "error")


@dataclass(frozen=True, slots=True)
class Action:
    """A function or graph that a node calls, and the way in which a driver must call it.

    ``injected`` are the names of the arguments to inject. ``is_async`` is true if the call returns
    an awaitable. ``sync`` is a sync version of the same Action, for a driver without an event loop.
    ``apart`` is true if the call may wait for tasks that it starts. Such a call must not be made on
    the driver's own OS thread.
    """

    call: Callable[..., Any]
    injected: tuple[str, ...] = ()
    is_async: bool = False
    sync: Action | None = None
    name: str = ""
    source: Any = None
    apart: bool = False


def build_action(source: Any) -> Action:
    """Return an Action for a function, a callable object, a graph or a LangChain Runnable.

    An Action for a generator function returns the sum of the generator's chunks, or the last chunk
    if the chunks can't be added. For a dict of functions or graphs, the Action calls each value and
    returns a dict of the results.
    """
    if isinstance(source, Action):
        return source
    if type(source) is dict:
        return _combine_actions(source)
    add_code_of(source)
    if type(source) is not FunctionType:  # This is true for most nodes.
        if _is_of_langgraph(source):
            foreign: Action = find_langgraph().build_graph_action(source)
            return foreign
        if _is_runnable(source):
            return _make_invoke_action(source)
    if not callable(source):
        raise TypeError(f"Expected a function or a graph, got {type(source).__name__}: {source!r}")
    call, is_async = _collect_chunks(source)
    return Action(
        call,
        _list_injected(source),
        is_async,
        name=_get_name(source, "__name__"),
        source=source,
        apart=_FUNCTIONAL in sys.modules and _starts_tasks(source, set()),
    )


def _combine_actions(source: Mapping[str, Any]) -> Action:
    """Return an Action that calls several actions with the same input, one after the other.

    The actions don't run in parallel, because the order of their ``interrupt()`` calls must not
    depend on their duration.
    """
    actions = {key: build_action(value) for key, value in source.items()}
    # A NodeError is injected only into the error handler's own function.
    wanted = {name for action in actions.values() for name in action.injected} - {"error"}
    injected = tuple(sorted(wanted))
    apart = any(action.apart for action in actions.values())

    def combine(actions: Mapping[str, Action], is_async: bool) -> Action:
        def call(value: Any, **given: Any) -> Any:
            return {key: _call_with(action, value, given) for key, action in actions.items()}

        async def acall(value: Any, **given: Any) -> Any:
            results = {}
            for key, action in actions.items():
                result = _call_with(action, value, given)
                results[key] = await result if action.is_async else result
            return results

        called = acall if is_async else call
        return Action(called, injected, is_async, name="dict", source=source, apart=apart)

    if not any(action.is_async for action in actions.values()):
        return combine(actions, False)
    plain = {key: action.sync or action for key, action in actions.items()}
    has_sync = not any(action.is_async for action in plain.values())
    return replace(combine(actions, True), sync=combine(plain, False) if has_sync else None)


def _call_with(action: Action, value: Any, given: Mapping[str, Any]) -> Any:
    return action.call(value, **{name: given[name] for name in action.injected if name in given})


def _collect_chunks(source: Callable[..., Any]) -> tuple[Callable[..., Any], bool]:
    """Return a function that returns the complete result of ``source``, and whether it is async.

    For a generator function, the complete result is the sum of its chunks, or the last chunk if the
    chunks can't be added. Any other ``source`` is returned unchanged.
    """
    method = source if type(source) is FunctionType else getattr(source, "__call__", None)  # noqa: B004
    if any(map(inspect.isgeneratorfunction, (source, method))):

        @wraps(source)
        def collect(*args: Any, **kwargs: Any) -> Any:
            output = None
            for chunk in source(*args, **kwargs):
                output = _add_chunk(output, chunk)
            return output

        return collect, False
    if any(map(inspect.isasyncgenfunction, (source, method))):

        @wraps(source)
        async def acollect(*args: Any, **kwargs: Any) -> Any:
            output = None
            async with aclosing(source(*args, **kwargs)) as chunks:
                async for chunk in chunks:
                    output = _add_chunk(output, chunk)
            return output

        return acollect, True
    return source, is_coroutine_function(source)


def _add_chunk(output: Any, chunk: Any) -> Any:
    if output is None:
        return chunk
    try:
        return output + chunk
    except TypeError:
        return chunk


def _get_name(source: Any, attribute: str) -> str:
    """Return the name that a node's callable has in the attribute ``attribute``.

    If the callable has no such attribute, return the name of its class.
    """
    name = getattr(source, attribute, None)
    return name if isinstance(name, str) else type(source).__name__


def is_graph(source: Any) -> bool:
    """Return whether a node's callable is a compiled graph of this engine or of LangGraph."""
    if type(source) is FunctionType:
        return False
    return is_own_graph(source) or _is_of_langgraph(source)


def is_own_graph(value: Any) -> bool:
    """Return whether a value is a compiled graph of this engine."""
    # The attribute is read from the type, because an object may create any attribute on access.
    return getattr(type(value), "reads_context", False) is True


def _is_of_langgraph(source: Any) -> bool:
    return any(base.__module__.startswith("langgraph.pregel") for base in type(source).__mro__)


def _is_runnable(source: Any) -> bool:
    """Return whether an object is called with ``invoke``, like graphs and LangChain's Runnables.

    The type of the object is checked, because a mock object has any attribute.
    """
    kind = type(source)
    if is_own_graph(source):
        return True
    if not hasattr(kind, "invoke") or isinstance(source, type):
        return False
    return is_of_langchain(source) or not callable(source)


def _starts_tasks(function: Any, seen: set[int]) -> bool:
    """Return whether the code of a function mentions a @task function.

    Functions of the same module that the code mentions are also searched. ``seen`` are the ids of
    functions that were already searched.
    """
    function = getattr(function, "__func__", function)
    if type(function) is not FunctionType or id(function) in seen:
        return False
    seen.add(id(function))
    names, there = function.__code__.co_names, function.__globals__
    mentioned = [there[name] for name in names if name in there]
    mentioned += [cell.cell_contents for cell in function.__closure__ or () if _is_bound(cell)]
    return any(
        getattr(value, "starts_tasks", False) is True
        or (getattr(value, "__globals__", None) is there and _starts_tasks(value, seen))
        for value in mentioned
    )


def _is_bound(cell: Any) -> bool:
    try:
        return bool(cell.cell_contents is not cell)
    except ValueError:
        return False


def _make_invoke_action(source: Any) -> Action:
    name = _get_name(source, "name")
    takes_config = "config" in inspect.signature(source.invoke).parameters
    # A graph of this engine reads the running task from the context variable.
    wanted = ("config",) if takes_config and not getattr(source, "reads_context", False) else ()
    sync = Action(source.invoke, wanted, name=name, source=source)
    ainvoke = getattr(source, "ainvoke", None)
    return Action(ainvoke, wanted, True, sync, name, source) if ainvoke else sync


def _list_injected(function: Callable[..., Any]) -> tuple[str, ...]:
    if type(function) is FunctionType and not hasattr(function, "__wrapped__"):
        # Most nodes take only the state. Their code object shows this faster than a signature.
        code = function.__code__
        if code.co_argcount <= 1 and not code.co_kwonlyargcount:
            return ()
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()
    wanted = tuple(
        parameter.name
        for position, parameter in enumerate(parameters)
        if parameter.name in INJECTED
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and (position > 0 or parameter.kind is parameter.KEYWORD_ONLY)
    )
    if "config" in wanted:
        check_config_hint(function)
    return wanted


def is_coroutine_function(function: Any) -> bool:
    """Return whether calling the function returns a coroutine."""
    if type(function) is FunctionType:  # This is true for most functions.
        return inspect.iscoroutinefunction(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - the method itself, not whether it exists
    )


@dataclass(slots=True)
class Branch:
    """A conditional edge: its function ``path`` chooses the next nodes.

    ``path`` receives the state including the node's writes. ``ends`` maps return values to node
    names. ``keys`` are the channels that ``path`` reads.
    """

    path: Action
    ends: Mapping[Any, str] | None = None
    keys: Sequence[str] | str = ()
    coercion: Callable[[dict[str, Any]], Any] | None = None
    passes_output: bool = True

    def view(
        self,
        output: Any,
        channels: Mapping[str, BaseChannel],
        values: Mapping[str, Any],
        writes: Sequence[Write],
    ) -> Any:
        """Return the argument for ``path``: the state ``values`` including the node's ``writes``.

        ``output`` is the node's result.
        """
        value = _read_with_writes(channels, values, writes, self.keys)
        if self.coercion is not None:
            return self.coercion(value)
        if self.passes_output and isinstance(value, dict) and isinstance(output, dict):
            return {**output, **value}
        return value

    def route(self, chosen: Any) -> list[Write]:
        """Return the writes that trigger the nodes chosen by ``path``."""
        targets, ends = [], self.ends
        for target in chosen if isinstance(chosen, (list, tuple)) else [chosen]:
            if ends is not None and not isinstance(target, Send):
                target = ends[target]
            if not isinstance(target, (str, Send)) or target == START:
                raise ValueError("Branch did not return a valid destination")
            targets.append(target)
        return build_goto_writes(targets)


def build_goto_writes(targets: Sequence[Any], value: Any = None) -> list[Write]:
    """Return the writes that trigger ``targets``, which are node names or Sends.

    For a node name, ``value`` is written to the trigger channel of the node. END is left out.
    """
    writes: list[Write] = []
    for target in targets:
        if isinstance(target, Send):
            if target.node == END:
                raise InvalidUpdateError("Cannot send a packet to the END node")
            writes.append((TASKS, target))
        elif target != END:
            writes.append((BRANCH_TO + target, value))
    return writes


@dataclass(slots=True)
class Node:
    """A node of a compiled graph.

    - ``triggers`` are the channels that trigger the node.
    - ``keys`` are the channels that the node reads. With a tuple of names, the node's input is a
      dict. With a single name, the input is the channel's value.
    - ``writers`` convert the node's result to writes.
    - ``branches`` are the conditional edges. They run in the same task after the node.
    - ``handler`` is the name of the error handler node for failures of this node.
    """

    action: Action | None
    triggers: tuple[str, ...]
    keys: tuple[str, ...] | str
    coercion: Callable[[Any], Any] | None = None
    writers: tuple[Callable[[Any], list[Write]], ...] = ()
    branches: tuple[Branch, ...] = ()
    retry: tuple[RetryPolicy, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    hidden: bool = False
    timeout: TimeoutPolicy | None = None
    cache: CachePolicy | None = None
    handler: str | None = None
    sorted_triggers: tuple[str, ...] = ()
    key_set: frozenset[str] = frozenset()
    #: The action if the node consists of a single call without branches, retries or timeout, else
    #: None.
    only: Action | None = None
    #: The action if the node has no retries or timeout, and any OS thread without an event loop may
    #: make the calls of the action and of the branches, else None.
    plain: Action | None = None
    #: Returns the writes for a result of the node.
    collect: Callable[[Any], list[Write]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.sorted_triggers = tuple(sorted(self.triggers))
        self.key_set = frozenset((self.keys,) if isinstance(self.keys, str) else self.keys)
        once = None if self.retry or self.timeout else self.action
        self.only = None if self.branches else once
        calls = [] if once is None else [once, *(branch.path for branch in self.branches)]
        is_plain = not any((call.sync or call).is_async or call.apart for call in calls)
        self.plain = once if is_plain else None
        self.collect = self.writers[0] if len(self.writers) == 1 else self._collect_from_writers

    def _collect_from_writers(self, output: Any) -> list[Write]:
        return [write for writer in self.writers for write in writer(output)]


def _read_with_writes(
    channels: Mapping[str, BaseChannel],
    values: Mapping[str, Any],
    writes: Sequence[Write],
    keys: Sequence[str] | str,
) -> Any:
    """Return the state of the channels ``keys``, including writes that are not applied yet."""
    written: dict[str, list[Any]] = {}
    for name, value in writes:
        written.setdefault(name, []).append(value)
    if isinstance(keys, str):
        found = _folded(channels[keys], values.get(keys, MISSING), written.get(keys))
        return None if found is MISSING else found
    state = {}
    for key in keys:
        if key not in channels or not (key in written or key in values):
            continue
        if channels[key].plain and key not in written:
            state[key] = values[key]
            continue
        found = _folded(channels[key], values.get(key, MISSING), written.get(key))
        if found is not MISSING:
            state[key] = found
    return state


def _folded(channel: BaseChannel, stored_value: Any, written: Sequence[Any] | None) -> Any:
    if written:
        after = channel.fold(stored_value, written)
        stored_value = stored_value if after is SAME else after
    return MISSING if stored_value is MISSING else channel.read(stored_value)
