"""Reference of the keys of the setting ``HITL``, from its dataclass."""

from __future__ import annotations

from . import markdown, sources


def page() -> str:
    """Return every key with its type, default and meaning."""
    return markdown.page(
        markdown.directive(
            "confval",
            key.name,
            key.metadata["doc"],
            type=markdown.code(key.type),
            default=markdown.code(repr(key.default)),
        )
        for key in sources.load(sources.SETTINGS)()
    )
