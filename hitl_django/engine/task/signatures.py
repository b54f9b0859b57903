"""Parameters and annotations of node functions."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from types import FunctionType, NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ..types import Command


def read_annotations(function: Any, seen: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    """Return the annotations of a node function, by parameter name, with "return" for the result.

    For a plain function, only the annotations of the first parameter and the result are returned.
    ``seen`` is a cache: equal annotations of functions in the same module are evaluated once.
    """
    if type(function) is not FunctionType or hasattr(function, "__wrapped__"):
        try:
            return get_type_hints(function, include_extras=True)
        except (TypeError, NameError, AttributeError):
            return {}
    # Evaluating all annotations would take most of the time to compile a large graph.
    names = (*function.__code__.co_varnames[: min(1, function.__code__.co_argcount)], "return")
    raw = function.__annotations__
    if not any(isinstance(raw.get(name), str) for name in names):
        return {name: raw[name] for name in names if name in raw}
    texts = {name: raw[name] for name in names if name in raw}
    hints_key = tuple(hint if isinstance(hint, str) else id(hint) for hint in texts.values())
    known = (id(function.__globals__), *texts, *hints_key)
    if known not in seen:
        seen[known] = _evaluated(function, texts)
    return seen[known]


def _evaluated(function: FunctionType, texts: dict[str, Any]) -> dict[str, Any]:
    wanted = FunctionType(function.__code__, function.__globals__, closure=function.__closure__)
    wanted.__annotations__ = texts
    try:
        return get_type_hints(wanted, include_extras=True)
    except (TypeError, NameError, AttributeError):
        return {}


def get_first_parameter(function: Any) -> str | None:
    """Return the name of a function's first parameter, or None if it has no parameters."""
    if type(function) is FunctionType and not hasattr(function, "__wrapped__"):
        return function.__code__.co_varnames[0] if function.__code__.co_argcount else None
    try:
        return next(iter(inspect.signature(function).parameters), None)
    except (TypeError, ValueError):
        return None


def check_config_hint(function: Any) -> None:
    """Warn if the annotation of the parameter ``config`` excludes dicts. Nodes receive a dict."""
    described = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004
    try:
        hint = get_type_hints(described).get("config", Any)
    except (TypeError, NameError, AttributeError):
        return
    if not _takes_dict(hint):
        name = getattr(function, "__name__", type(function).__name__)
        warnings.warn(
            f"The parameter 'config' of {name} is annotated with {hint}, but receives the "
            "run's config. Annotate it with RunnableConfig.",
            UserWarning,
            stacklevel=5,
        )


def _takes_dict(hint: Any) -> bool:
    kind = get_origin(hint) or hint
    if kind in (Union, UnionType):
        return any(_takes_dict(one) for one in get_args(hint) if one is not NoneType)
    if kind is Any or not isinstance(kind, type):
        return True
    return issubclass(kind, Mapping) or kind is object


def list_command_targets(annotation: Any) -> tuple[str, ...]:
    """Return the node names in a return annotation ``Command[Literal[...]]``."""
    if get_origin(annotation) is not Command:
        return ()
    names = get_args(annotation)[0]
    return tuple(get_args(names)) if get_origin(names) is Literal else ()
