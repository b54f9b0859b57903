"""The events that a webhook may be sent."""

from __future__ import annotations

from . import markdown, sources


def page() -> str:
    """Return the names of the events."""
    return markdown.table(
        ["event", "sent when"],
        (
            [markdown.code(event.value), str(event.label)]
            for event in sources.load(sources.DELIVERY).Event
        ),
    )
