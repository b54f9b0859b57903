"""Reference of the public models and their columns."""

from __future__ import annotations

import inspect
from typing import Any

from . import markdown, sources


def page() -> str:
    """Return each model with its description and fields."""
    return markdown.page(_section(sources.load(path)) for path in sources.MODELS)


def _section(model: Any) -> str:
    return markdown.page(
        [
            f"## `{model.__name__}`",
            markdown.from_docstring(inspect.getdoc(model) or ""),
            markdown.table(
                ["field", "type", "related model or values"],
                (
                    [
                        markdown.code(field.name),
                        type(field).__name__,
                        _format_target_or_choices(field),
                    ]
                    for field in model._meta.concrete_fields
                ),
            ),
        ]
    )


def _format_target_or_choices(field: Any) -> str:
    if field.related_model is not None:
        return markdown.code(field.related_model._meta.label)
    return markdown.listed(value for value, _ in field.choices or ())
