"""Sphinx extension with a directive for each generated part of the reference.

Directives insert Markdown (MyST) into the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from . import (
    checks,
    commands,
    committed,
    errors,
    events,
    langgraph_methods,
    models,
    names,
    operations,
    permissions,
    promises,
    settings,
    sources,
    states,
)

#: Content of each directive without an argument.
PARTS: Mapping[str, Callable[[], str]] = {
    "hitl-checks": checks.page,
    "hitl-dispatcher": lambda: names.one(sources.DISPATCHER),
    "hitl-dispatchers": names.dispatchers,
    "hitl-errors": errors.tree,
    "hitl-extensions": names.extensions,
    "hitl-http-objects": operations.objects,
    "hitl-http-operations": operations.page,
    "hitl-http-overview": operations.overview,
    "hitl-http-problems": operations.problems,
    "hitl-langgraph-methods": langgraph_methods.page,
    "hitl-models": models.page,
    "hitl-names": names.index,
    "hitl-permissions": permissions.page,
    "hitl-policy": lambda: names.one(sources.POLICY),
    "hitl-problems": errors.problems,
    "hitl-promises": promises.page,
    "hitl-interrupt-states": states.interrupts,
    "hitl-services": names.services,
    "hitl-settings": settings.page,
    "hitl-signals": names.signals,
    "hitl-states": states.page,
    "hitl-testing": lambda: names.module(sources.TESTING),
    "hitl-webhook-events": events.page,
    "hitl-webhook-services": lambda: names.module(sources.WEBHOOK_SERVICES),
}
#: Content of each directive with an argument.
CHOSEN: Mapping[str, Callable[[str], str]] = {
    "hitl-command": commands.section,
    "hitl-group": names.group,
}


class Part(SphinxDirective):
    """Inserts a part of the reference."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        text = CHOSEN[self.name](self.arguments[0]) if self.arguments else PARTS[self.name]()
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def skip_field(
    app: Sphinx, kind: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Skip the fields of a named tuple, which its signature already lists."""
    return str(getattr(member, "__doc__", "")).startswith("Alias for field number") or None


def shorten_defaults(
    app: Sphinx, kind: str, name: str, member: Any, options: Any, given: str | None, returned: Any
) -> tuple[str | None, Any]:
    """Replace default values without a Python literal, such as functions, by an ellipsis."""
    return re.sub(r"<[^<>]+>", "...", given) if given else given, returned


def insert_directives(app: Sphinx, name: str, source: list[str]) -> None:
    """Replace the committed parts of a page by their directives."""
    source[0] = committed.insert_directives(source[0])


def setup(app: Sphinx) -> Mapping[str, Any]:
    """Add the directives."""
    for name in (*PARTS, *CHOSEN):
        app.add_directive(name, Part)
    app.connect("source-read", insert_directives)
    app.connect("autodoc-skip-member", skip_field)
    app.connect("autodoc-process-signature", shorten_defaults)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
