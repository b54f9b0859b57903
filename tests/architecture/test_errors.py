"""Error messages, and the list of errors at the top of each module."""

from __future__ import annotations

import inspect
import re

import hitl_django
from hitl_django import errors as known_to_django
from hitl_django.engine import errors

CLASSES = [
    cls
    for module in (errors, known_to_django)
    for _, cls in inspect.getmembers(module, inspect.isclass)
    if cls.__module__ == module.__name__
]


def test_error_class_docstring_starts_with_a_sentence() -> None:
    first = {cls.__name__: (cls.__doc__ or "").partition("\n\n")[0] for cls in CLASSES}
    faults = {
        name: text
        for name, text in first.items()
        if not re.fullmatch(r"[A-Z].*\.", text, re.DOTALL)
    }
    assert faults == {}


def test_error_class_is_in_the_tree_of_its_module_with_its_builtin_bases() -> None:
    assert [cls.__name__ for cls in CLASSES if not drawn(cls)] == []


def drawn(cls: type[BaseException]) -> bool:
    """Return whether the module's docstring shows a class with the builtins it derives from."""
    builtins = [
        base.__name__
        for base in cls.__bases__
        if not base.__module__.startswith(hitl_django.__name__)
    ]
    shown = f"{cls.__name__}({', '.join(builtins)})" if builtins else cls.__name__
    line = rf"(?m)^[\s│├└─]*{re.escape(shown)}(\s|$)"
    return re.search(line, inspect.getmodule(cls).__doc__ or "") is not None


def test_error_without_message_uses_its_docstring_as_message() -> None:
    assert str(errors.ThreadNotFound()) == "Thread not found."
    assert str(errors.ThreadNotFound("No thread 7.")) == "No thread 7."
