"""Reference of the public models and their columns, with the comments beside the columns."""

from __future__ import annotations

import inspect
import re
from typing import Any

from . import markdown, sources

#: A field with the comments above it.
_FIELD = re.compile(r"(?m)(?P<comments>(?:^    #: .*\n)+)^    (?P<name>\w+)(?:: [^=\n]+)? = ")


def page() -> str:
    """Return each model with its description and fields."""
    return markdown.page(_section(sources.load(path)) for path in sources.MODELS)


def read_meanings(model: Any) -> dict[str, str]:
    """Return the comments above the fields of a model and of its base classes, by field."""
    own = [each for each in model.__mro__ if each.__module__.startswith("hitl_django.")]
    meanings = {
        found["name"]: " ".join(found["comments"].replace("    #: ", "").split())
        for each in reversed(own)
        for found in _FIELD.finditer(inspect.getsource(each))
    }
    return {"id": "The primary key."} | meanings


def _section(model: Any) -> str:
    meanings = read_meanings(model)
    return markdown.page(
        [
            f"## `{model.__name__}`",
            markdown.from_docstring(inspect.getdoc(model) or ""),
            markdown.table(
                ["field", "type", "meaning"],
                (
                    [
                        markdown.code(field.name),
                        type(field).__name__,
                        markdown.from_docstring(
                            f"{meanings[field.name]} {_format_target_or_choices(field)}"
                        ),
                    ]
                    for field in model._meta.concrete_fields
                ),
            ),
        ]
    )


def _format_target_or_choices(field: Any) -> str:
    if field.related_model is not None:
        return f"Refers to {markdown.code(field.related_model._meta.label)}."
    choices = markdown.listed(value for value, _ in field.choices or ())
    return choices and f"One of {choices}."
