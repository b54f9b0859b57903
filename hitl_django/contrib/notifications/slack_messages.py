"""An interrupt as Slack blocks.

Untrusted text is sent as plain text, in which Slack neither formats text nor looks for mentions. In
the fallback text, control characters are escaped, so that ``<!channel>`` doesn't mention anyone.
"""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext

from hitl_django.contrib.webhooks.models import Delivery
from hitl_django.events import EventName
from hitl_django.forms.local_time import format_with_zone
from hitl_django.models import Interrupt

from .mails import find_interrupt_url, make_line, name_place, read_payload
from .topics import DUE_SOON, is_escalation

#: Slack's limit for the length of a text in a block.
TEXT_LENGTH = 2900


def build_body(delivery: Delivery, item: Interrupt) -> bytes:
    """Return the message about an interrupt, as ASCII JSON."""
    with translation.override(settings.LANGUAGE_CODE):
        return json.dumps(_build(delivery, item)).encode("ascii")


def build_test() -> bytes:
    with translation.override(settings.LANGUAGE_CODE):
        return json.dumps({"text": gettext("This is a test notification.")}).encode("ascii")


def escape_text(text: str) -> str:
    """Escape the control characters with which Slack marks mentions and links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _build(delivery: Delivery, item: Interrupt) -> dict[str, Any]:
    title = make_line(item.title) or gettext("(erased)")
    headline = _headline(delivery, item)
    link = find_interrupt_url(item)
    about = [name_place(item)]
    if item.group_label:
        about.append(make_line(item.group_label))
    if item.assignee_label:
        about.append(make_line(item.assignee_label))
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": _plain(f"{headline}: {title}")},
        {"type": "context", "elements": [_plain(line) for line in about]},
    ]
    if item.due_at is not None:
        moment = format_with_zone(item.due_at)
        seconds = int(item.due_at.timestamp())
        due = f"<!date^{seconds}^{{date_short_pretty}} {{time}}|{moment}>"
        words = gettext("Due: %(when)s") % {"when": due}
        blocks[-1]["elements"].append({"type": "mrkdwn", "text": words})
    if payload := read_payload("slack", item):
        blocks.append({"type": "section", "text": _plain(payload[:TEXT_LENGTH])})
    if link:
        button = {"type": "button", "text": _plain(gettext("Open request")), "url": link}
        blocks.append({"type": "actions", "elements": [button]})
    return {
        "text": escape_text(f"{headline}: {title}"),
        "mrkdwn": False,
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": blocks,
    }


def _headline(delivery: Delivery, item: Interrupt) -> str:
    event = delivery.event
    if event == DUE_SOON:
        return gettext("Due soon")
    if event == EventName.INTERRUPT_ASSIGNED:
        return gettext("Assigned")
    if is_escalation(delivery, item):
        return gettext("Escalated")
    if event in (EventName.INTERRUPT_OVERDUE, EventName.INTERRUPT_EXPIRED):
        return gettext("Overdue")
    return gettext("Review requested")


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}
