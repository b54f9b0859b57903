"""Changes of a payload, listed by field, with changed words marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from hitl_django.answers import read_options
from hitl_django.forms.answer_form import make_label
from hitl_django.forms.fields import LINE
from hitl_django.forms.json_input import escape_hidden, format_number, is_number, to_json
from hitl_django.graph_registry.display_hints import Path
from hitl_django.json_text import json_patch
from hitl_django.json_text.text_diff import FieldChange, Span, compare_fields, compare_words
from hitl_django.models import Decision, Interrupt

from .payload_display import MAX_TEXT, PLAIN, display_answer
from .value_formats import PLAIN_FORMATS, Presentation, present, render_value

JSON = Any

MAX_CHANGES = 100
#: Shown instead of the old value of a changed secret. The new value has a different placeholder, so
#: that the change is visible.
HIDDEN_BEFORE = "[redacted before]"
#: Maximum number of characters shown, counted over all changes.
MAX_SHOWN = 60_000


@dataclass(frozen=True)
class Difference:
    """One changed field, with its old and new value.

    For longer texts, ``spans`` is the text with marked changes.
    """

    label: str
    old: str = ""
    new: str = ""
    spans: Sequence[Span] = ()


def list_patch_differences(
    item: Interrupt, patch: Sequence[dict[str, JSON]] | None
) -> list[Difference]:
    """Return the changes that a JSON patch makes to an interrupt's payload."""
    if not patch:
        return []
    options = read_options(item)
    original = options.mask_edited(options.original, HIDDEN_BEFORE)
    patch = options.mask_patch(patch)
    try:
        changed = json_patch.apply_patch(original, list(patch))
        return list_differences(original, changed, present(item))
    # The patch doesn't apply, because the payload has changed since.
    except (ValueError, LookupError, TypeError):
        return []


def get_decision_context(item: Interrupt, decision: Decision | None) -> dict[str, Any]:
    """Return the template context for a decision: its response and the reviewer's changes."""
    if decision is None:
        return {"decision": None}
    answer = display_answer(item, decision.value)
    changed = list_patch_differences(item, decision.patch)
    return {"decision": decision, "answer": answer, "changed": changed}


def list_differences(old: JSON, new: JSON, presentation: Presentation = PLAIN) -> list[Difference]:
    """Return the differences between two values.

    The list ends after MAX_CHANGES differences or about MAX_SHOWN characters.
    """
    found, room = [], MAX_SHOWN
    pages = presentation.at(old), presentation.at(new, old)
    for change in compare_fields(old, new)[:MAX_CHANGES]:
        found.append(_difference(change, min(MAX_TEXT, room), *pages))
        room -= len(found[-1].old) + len(found[-1].new)
        room -= sum(len(span.text) for span in found[-1].spans)
        if room <= 0:
            break
    return found


def _difference(
    change: FieldChange, room: int, before: Presentation, after: Presentation
) -> Difference:
    label = " ▸ ".join(_name(part) for part in change.path) or str(_("Value"))
    both = change.old, change.new
    texts = change.kind == "changed" and all(isinstance(text, str) for text in both)
    if texts and any(len(text) > LINE or "\n" in text for text in both):
        spans = compare_words(change.old[:room], change.new[:room])
        return Difference(
            label, spans=[Span(span.kind, escape_hidden(span.text)) for span in spans]
        )
    old = "" if change.kind == "added" else _text(change.old, change.path, before)[:room]
    new = "" if change.kind == "removed" else _text(change.new, change.path, after)[:room]
    return Difference(label, old, new)


def _name(part: str | int) -> str:
    return make_label(part[:MAX_TEXT]) if isinstance(part, str) else str(part + 1)


def _text(value: JSON, path: Path, presentation: Presentation) -> str:
    hint = presentation.find_hint(path)
    if hint is not None and hint.format in PLAIN_FORMATS:
        shown = render_value(hint, value, path, presentation)
        if shown is not None:
            return shown.text
    if isinstance(value, bool):
        return str(_("Yes") if value else _("No"))
    if value is None:
        return str(_("(no value)"))
    if value == "":
        return str(_("(empty text)"))
    if is_number(value):
        return format_number(value)
    return escape_hidden(value if isinstance(value, str) else to_json(value, indent=2))
