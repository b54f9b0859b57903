"""The events that a webhook may be sent."""

from __future__ import annotations

from . import markdown, sources


def page() -> str:
    """Return the names of the events."""
    events = sources.load(sources.DELIVERY).Event
    heard = sources.load(sources.WEBHOOK_CHANNEL).events
    return markdown.table(
        ["event", "sent when"],
        (
            [markdown.code(event.value), str(event.label)]
            for event in events
            if event in heard or event is events.TEST
        ),
    )
