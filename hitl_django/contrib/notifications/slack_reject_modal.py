"""The Slack modal that asks for the reason of a rejection."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from hitl_django.decision_types import REJECT
from hitl_django.forms.decision_form import SUGGESTED_PREFIX, ReasonForm, get_button_label
from hitl_django.graph_registry import registry
from hitl_django.json_text.sanitize import shorten
from hitl_django.models import Interrupt

from .slack_messages import ACTION, make_plain, make_title, write_value

#: Identifies the modal in submissions.
CALLBACK = f"{ACTION}{REJECT}"
REASON, USUAL_REASON = "reason", f"{SUGGESTED_PREFIX}reason"
#: Slack's limits: characters of a title or button, of an option, and of a text field, and options.
LABEL_LENGTH, OPTION_LENGTH, INPUT_LENGTH, MAX_OPTIONS = 24, 75, 3000, 100


def build_modal(item: Interrupt) -> dict[str, Any]:
    """Return the modal as a view for Slack's method ``views.open``."""
    label = str(get_button_label(item, REJECT))[:LABEL_LENGTH]
    form = _make_form(item.graph)
    blocks: list[dict[str, Any]] = [{"type": "section", "text": make_plain(make_title(item))}]
    if USUAL_REASON in form.fields:
        reasons = _list_reasons(item.graph)
        select = {"type": "static_select", "options": [_make_option(one) for one in reasons]}
        blocks.append(_make_input(form, USUAL_REASON, select, form.fields[USUAL_REASON].label))
    area = {"type": "plain_text_input", "multiline": True, "max_length": INPUT_LENGTH}
    blocks.append(_make_input(form, REASON, area, form.fields[REASON].label))
    return {
        "type": "modal",
        "callback_id": CALLBACK,
        "private_metadata": write_value(item),
        "title": make_plain(label),
        "submit": make_plain(label),
        "blocks": blocks,
    }


def read_reason(graph: str, values: Mapping[str, Any]) -> ReasonForm:
    """Return the bound form with the submitted values of the modal.

    Raises:
        AttributeError, KeyError, TypeError: if the values don't have Slack's format.
    """
    typed = values[REASON][REASON].get("value") or ""
    chosen = ((values.get(USUAL_REASON) or {}).get(USUAL_REASON) or {}).get("selected_option")
    key = "" if chosen is None else chosen["value"]
    found = {_make_key(one): one for one in _list_reasons(graph)}
    return _make_form(graph, {REASON: typed, USUAL_REASON: found.get(key, key)})


def find_errors(form: ReasonForm) -> dict[str, str]:
    """Return the errors of an invalid form, by the id of the modal's input block."""
    return {
        name if name in form.fields else REASON: " ".join(str(error) for error in errors)
        for name, errors in form.errors.items()
    }


def _make_form(graph: str, data: Mapping[str, str] | None = None) -> ReasonForm:
    return ReasonForm(data, reasons=registry.get_review_policy(graph).reasons)


def _list_reasons(graph: str) -> list[str]:
    return [str(one) for one in registry.get_review_policy(graph).reasons][:MAX_OPTIONS]


def _make_input(form: ReasonForm, name: str, element: dict[str, Any], label: Any) -> dict[str, Any]:
    return {
        "type": "input",
        "block_id": name,
        "optional": not form.needs_reason,
        "label": make_plain(str(label)),
        "element": {**element, "action_id": name},
    }


def _make_option(reason: str) -> dict[str, Any]:
    return {"text": make_plain(shorten(reason, OPTION_LENGTH)), "value": _make_key(reason)}


def _make_key(reason: str) -> str:
    """Return a hash that identifies a suggested reason in the modal's list of options.

    The reason itself may be longer than Slack allows.
    """
    return hashlib.sha256(reason.encode()).hexdigest()[:32]
