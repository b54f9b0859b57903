"""Reference of the webhook events."""

from __future__ import annotations

from . import markdown, sources


def page() -> str:
    """Return the list of event names."""
    sent = {*sources.load(sources.WEBHOOK_EVENTS)(), sources.load(sources.WEBHOOK_TEST)}
    return markdown.table(
        ["event", "meaning"],
        (
            [markdown.code(name), str(label)]
            for name, label in sources.load(sources.EVENT_LABELS)().items()
            if name in sent
        ),
    )
