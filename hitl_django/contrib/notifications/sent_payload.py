"""The payload of an interrupt outside of the site: labelled texts for emails and Slack messages.

A payload leaves the site only if the policy allows it. Values of redacted keys are hidden.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext

from hitl_django.admin.display.payload_display import (
    SHORT,
    DisplayedValue,
    display_payload,
    display_selected,
)
from hitl_django.admin.display.value_formats import present
from hitl_django.admin.request.request_view import display_interrupt, display_why
from hitl_django.dialects import DIALECTS
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.display_hints import Names, parse_names
from hitl_django.json_text.sanitize import list_heading_keys
from hitl_django.models import Interrupt
from hitl_django.permissions import get_policy
from hitl_django.run_events.redaction import redact_value

#: Maximum number of characters of a payload.
PAYLOAD_LENGTH = 8000
#: Between the label of an object and the label of its member.
JOINT = " ▸ "


@dataclass(frozen=True, slots=True)
class Fact:
    """A labelled text. A long text needs its own line."""

    label: str
    text: str

    @property
    def is_short(self) -> bool:
        return len(self.text) <= SHORT and "\n" not in self.text

    @property
    def line(self) -> str:
        """The label and the text as plain text."""
        if not self.label:
            return self.text
        return f"{self.label}: {self.text}" if self.is_short else f"{self.label}:\n{self.text}"


@dataclass(frozen=True, slots=True)
class SentPayload:
    """The reason and the facts of an interrupt.

    Facts that the review policy names come first.
    """

    why: str = ""
    facts: Sequence[Fact] = ()

    @property
    def short(self) -> list[Fact]:
        return [fact for fact in self.facts if fact.is_short]

    @property
    def long(self) -> list[Fact]:
        return [fact for fact in self.facts if not fact.is_short]


def read_payload(channel: str, item: Interrupt) -> SentPayload:
    """Return the payload, or an empty payload if the policy doesn't allow sending it."""
    if not get_policy().may_send_payload(channel, item):
        return SentPayload()
    redacted = copy_redacted(item)
    return SentPayload(display_why(redacted, None), [*_flatten(display_redacted(redacted))])


def copy_redacted(item: Interrupt) -> Interrupt:
    """Return a copy of an interrupt without the redacted values of its payload."""
    copied = copy.copy(item)
    hidden = registry.get_redacted_keys(item.graph)
    copied.payload = redact_value(item.payload, PAYLOAD_LENGTH, hidden)[0]
    return copied


def display_redacted(item: Interrupt) -> Sequence[DisplayedValue]:
    """Return the redacted payload of an interrupt for display."""
    dialect, payload = DIALECTS[item.dialect], item.payload
    if dialect.requests_actions:
        # A shortened payload may lack the members that the dialect needs.
        return (
            display_interrupt(item, None) if dialect.matches(payload) else display_payload(payload)
        )
    names = [parse_names(fact) for fact in registry.get_review_policy(item.graph).facts]
    if not names or not isinstance(payload, dict):
        return display_interrupt(item, None)
    presentation, skip = present(item), list_heading_keys(payload, item.title)
    names = [path for path in names if path[0] not in skip]
    rest = payload
    for path in names:
        rest = _remove(rest, path)
    return [
        *display_selected(payload, names, presentation),
        *display_payload(rest, skip=skip, presentation=presentation),
    ]


def _remove(value: Any, path: Names) -> Any:
    """Return a value without the member at a path, and without objects that become empty."""
    if not isinstance(value, dict) or path[0] not in value:
        return value
    rest = _remove(value[path[0]], path[1:]) if path[1:] else {}
    return {
        name: rest if name == path[0] else member
        for name, member in value.items()
        if name != path[0] or rest != {}
    }


def _flatten(values: Iterable[DisplayedValue], parent: str = "") -> Iterator[Fact]:
    for value in values:
        label = JOINT.join(part for part in (parent, str(value.label)) if part)
        if value.style == "facts":
            yield from _flatten(value.values, label)
        elif value.style == "list":
            texts = [str(one.text) for one in value.values]
            yield Fact(label, ", ".join(texts) if _fits(texts) else "\n".join(texts))
        elif value.style == "table":
            rows = [value.columns, *([cell.text for cell in row] for row in value.table)]
            yield Fact(label, "\n".join(" | ".join(map(str, row)) for row in rows))
        else:
            yield Fact(label, _complete(value))


def _fits(texts: Sequence[str]) -> bool:
    return sum(len(text) + 2 for text in texts) <= SHORT


def _complete(value: DisplayedValue) -> Any:
    text = str(value.text)
    if not value.cut:
        return text
    return f"{text}\n" + gettext("%(n)s more characters not shown.") % {"n": value.cut}
