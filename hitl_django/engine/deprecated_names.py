"""Support for renamed parameters.

A call with an old parameter name works and emits a deprecation warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def takes_old_names(**renamed: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for functions with renamed parameters, given as ``old="new"``.

    The decorated function accepts the old and the new names. It raises TypeError if a call passes
    both names of a parameter.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for old, new in renamed.items():
                if old in kwargs:
                    if new in kwargs:
                        raise TypeError(f"{function.__qualname__}() got {old} and {new}.")
                    warnings.warn(
                        f"{old} is deprecated; use {new}.", DeprecationWarning, stacklevel=2
                    )
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
