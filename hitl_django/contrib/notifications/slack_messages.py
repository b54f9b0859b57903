"""An interrupt as Slack blocks.

Untrusted text is sent as plain text, in which Slack neither formats text nor looks for mentions. In
the fallback text, control characters are escaped, so that ``<!channel>`` doesn't mention anyone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from hitl_django.contrib.webhooks.models import Delivery
from hitl_django.decision_types import APPROVE, EDIT, REJECT
from hitl_django.events import EventName
from hitl_django.forms.decision_form import get_button_label
from hitl_django.forms.local_time import format_with_zone
from hitl_django.models import Interrupt
from hitl_django.page_urls import find_request_url

from .mails import make_line, name_node
from .quick_decisions import list_quick_decisions
from .sent_payload import Fact, SentPayload, read_payload
from .topics import DUE_SOON, is_escalation

#: Start of the ids of buttons that decide.
ACTION = "hitl_"
#: Slack's limit for the text of a confirmation.
TITLE_LENGTH = 300
OUTCOMES: dict[str, Any] = {
    APPROVE: _("Approved by %(who)s"),
    EDIT: _("Approved with changes by %(who)s"),
    REJECT: _("Rejected by %(who)s"),
}
#: Slack's limit for the length of a text in a block.
TEXT_LENGTH = 2900
#: Slack's limits for the number of fields in a block, and for the length of a field.
FIELDS, FIELD_LENGTH = 10, 2000


def build_body(delivery: Delivery, item: Interrupt) -> bytes:
    """Return the message about an interrupt, as ASCII JSON."""
    with translation.override(settings.LANGUAGE_CODE):
        return json.dumps(_build(delivery, item)).encode("ascii")


def build_message(delivery: Delivery, item: Interrupt) -> dict[str, Any]:
    """Return the message that the Slack app posts about an interrupt.

    The message has buttons while the interrupt is pending, and later the outcome instead.
    """
    with translation.override(settings.LANGUAGE_CODE):
        if item.status != Interrupt.Status.PENDING:
            return _build_outcome(item)
        return _build(delivery, item, buttons=list_quick_decisions(item))


def build_test_message() -> dict[str, Any]:
    with translation.override(settings.LANGUAGE_CODE):
        return {"text": gettext("This is a test notification.")}


def build_test() -> bytes:
    with translation.override(settings.LANGUAGE_CODE):
        return json.dumps(build_test_message()).encode("ascii")


def escape_text(text: str) -> str:
    """Escape the characters with which Slack marks mentions and links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def make_plain(text: str) -> dict[str, Any]:
    """Return a text that Slack doesn't format."""
    return {"type": "plain_text", "text": text, "emoji": False}


def make_title(item: Interrupt) -> str:
    """Return the title of an interrupt as one line."""
    return make_line(item.title) or gettext("(erased)")


def write_value(item: Interrupt) -> str:
    """Return a text that identifies an interrupt and its version, for Slack buttons and modals."""
    return f"{item.pk}:{item.version}:{item.payload_digest}"


def _build(delivery: Delivery, item: Interrupt, buttons: Sequence[str] = ()) -> dict[str, Any]:
    title = make_title(item)
    headline = _headline(delivery, item)
    link = find_request_url(item)
    about = [name_node(item)]
    if item.group_label:
        about.append(make_line(item.group_label))
    if item.assignee_label:
        about.append(make_line(item.assignee_label))
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": make_plain(f"{headline}: {title}")},
        {"type": "context", "elements": [make_plain(line) for line in about]},
    ]
    if item.due_at is not None:
        moment = format_with_zone(item.due_at)
        seconds = int(item.due_at.timestamp())
        due = f"<!date^{seconds}^{{date_short_pretty}} {{time}}|{moment}>"
        words = gettext("Due: %(when)s") % {"when": due}
        blocks[-1]["elements"].append({"type": "mrkdwn", "text": words})
    blocks += _list_payload_blocks(read_payload("slack", item))
    elements = [_make_button(item, type_) for type_ in buttons]
    if link:
        elements.append(
            {"type": "button", "text": make_plain(gettext("Open request")), "url": link}
        )
    if elements:
        blocks.append({"type": "actions", "elements": elements})
    return _wrap(f"{headline}: {title}", blocks)


def _list_payload_blocks(sent: SentPayload) -> list[dict[str, Any]]:
    """Return Slack blocks with the reason for the review and the labelled values of the payload.

    Up to ten short values come first, in two columns. The other values have a line each.
    """
    blocks: list[dict[str, Any]] = []
    if sent.why:
        blocks.append({"type": "section", "text": make_plain(sent.why[:TEXT_LENGTH])})
    short = sent.short[:FIELDS]
    if short:
        blocks.append({"type": "section", "fields": [make_plain(_stack(fact)) for fact in short]})
    lines = [fact.line for fact in (*sent.short[FIELDS:], *sent.long)]
    if lines:
        text = "\n".join(lines)[:TEXT_LENGTH]
        blocks.append({"type": "section", "text": make_plain(text)})
    return blocks


def _stack(fact: Fact) -> str:
    return "\n".join(part for part in (fact.label, fact.text or "–") if part)[:FIELD_LENGTH]


def _build_outcome(item: Interrupt) -> dict[str, Any]:
    title = make_title(item)
    decision = item.closing()
    outcome = str(item.get_status_display())
    if decision is not None:
        words = OUTCOMES.get(decision.type, _("Decided by %(who)s"))
        outcome = str(words) % {"who": make_line(decision.by_label)}
    blocks: list[dict[str, Any]] = [
        {"type": "section", "text": make_plain(title)},
        {"type": "context", "elements": [make_plain(outcome), make_plain(name_node(item))]},
    ]
    if link := find_request_url(item):
        button = {"type": "button", "text": make_plain(gettext("Open request")), "url": link}
        blocks.append({"type": "actions", "elements": [button]})
    return _wrap(f"{title}: {outcome}", blocks)


def _make_button(item: Interrupt, type_: str) -> dict[str, Any]:
    label = str(get_button_label(item, type_))
    button = {
        "type": "button",
        "action_id": f"{ACTION}{type_}",
        "text": make_plain(label),
        "style": "primary",
        "value": write_value(item),
    }
    if type_ == REJECT:
        # A modal asks for the reason.
        return {**button, "text": make_plain(f"{label}…"), "style": "danger"}
    confirm = {
        "title": make_plain(label[:100]),
        "text": make_plain(make_title(item)[:TITLE_LENGTH]),
        "confirm": make_plain(label[:30]),
        "deny": make_plain(gettext("Cancel")),
    }
    return {**button, "confirm": confirm}


def _wrap(text: str, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "text": escape_text(text),
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
