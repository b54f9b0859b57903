"""What the annotations of a node's function say."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from .types import Command


def hints_of_function(function: Any, seen: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    """Returns the annotations of a function's first parameter and of its return value.

    ``seen`` keeps what texts stand for, by the module they stand in.
    """
    if type(function) is not FunctionType or hasattr(function, "__wrapped__"):
        try:
            return get_type_hints(function, include_extras=True)
        except (TypeError, NameError, AttributeError):
            return {}
    # Evaluating all annotations of every node is most of what compiling a large graph costs.
    names = (*function.__code__.co_varnames[: min(1, function.__code__.co_argcount)], "return")
    raw = function.__annotations__
    if not any(isinstance(raw.get(name), str) for name in names):
        return {name: raw[name] for name in names if name in raw}
    texts = {name: raw[name] for name in names if name in raw}
    said = tuple(hint if isinstance(hint, str) else id(hint) for hint in texts.values())
    known = (id(function.__globals__), *texts, *said)
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


def first_parameter(function: Any) -> str | None:
    if type(function) is FunctionType and not hasattr(function, "__wrapped__"):
        return function.__code__.co_varnames[0] if function.__code__.co_argcount else None
    try:
        return next(iter(inspect.signature(function).parameters), None)
    except (TypeError, ValueError):
        return None


def command_targets(annotation: Any) -> tuple[str, ...]:
    """Returns the node names in a return annotation ``Command[Literal[...]]``."""
    if get_origin(annotation) is not Command:
        return ()
    names = get_args(annotation)[0]
    return tuple(get_args(names)) if get_origin(names) is Literal else ()
