"""A payload laid out to be read: names and values, never markup.

Payloads come from models and strangers. What is made here is plain text, which templates escape;
nothing in it becomes a link, and characters that don't show are shown by their code points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from hitl_django.forms.answer import label_of
from hitl_django.forms.fields import LINE
from hitl_django.forms.text import to_json, visible
from hitl_django.models import Decision
from hitl_django.text import TITLE_KEYS, question_title

JSON = Any

#: More characters of one value than this are left to the download.
MAX_TEXT = 20_000
MAX_FACTS = 200
MAX_DEPTH = 3
MAX_COLUMNS, MAX_ROWS = 6, 50


@dataclass(frozen=True)
class Fact:
    """One named value: a ``text``, a list of ``facts``, a ``table``, or ``code`` as it stands.

    ``cut`` is the number of characters that aren't shown.
    """

    label: str
    text: str = ""
    style: str = "text"
    cut: int = 0
    facts: Sequence[Fact] = ()
    columns: Sequence[str] = ()
    table: Sequence[Sequence[str]] = field(default=())


def facts_of(payload: JSON, *, skip: Sequence[str] = ()) -> list[Fact]:
    """Returns what a payload says; ``skip`` names keys that the page shows elsewhere."""
    if not isinstance(payload, dict):
        return [] if payload is None else [_fact("", payload, 0)]
    return _facts({key: value for key, value in payload.items() if key not in skip}, 0)


def told_elsewhere(payload: JSON, title: str) -> list[str]:
    """Names the keys of a payload that the head of its page shows whole: title and why."""
    if not isinstance(payload, dict):
        return []
    keys = [key for key in TITLE_KEYS if payload.get(key) == title][:1]
    return [*keys, "why"] if why_of(payload) else keys


def is_its_own_title(payload: JSON, title: str) -> bool:
    """Says whether a payload is nothing but the sentence that its page is headed with."""
    return isinstance(payload, str) and payload == title == question_title(payload, "")


def why_of(payload: JSON) -> str:
    """Returns the payload's own words on why somebody is asked."""
    why = payload.get("why") if isinstance(payload, dict) else None
    return visible(why[:MAX_TEXT]) if isinstance(why, str) else ""


def decided(decision: Decision | None) -> dict[str, Any]:
    """Returns what a page shows of a decision."""
    if decision is None:
        return {"decision": None}
    return {"decision": decision, "answer": facts_of(decision.value)}


def raw(value: JSON) -> Fact:
    """Returns a value as JSON text, as much of it as a page should hold."""
    return _text("", to_json(value, indent=2), style="code")


def _facts(mapping: dict[str, JSON], depth: int) -> list[Fact]:
    facts = [_fact(label_of(key), value, depth) for key, value in list(mapping.items())[:MAX_FACTS]]
    if len(mapping) > MAX_FACTS:
        more = len(mapping) - MAX_FACTS
        facts.append(Fact(_("And more"), _("%(n)d more values are in the raw data.") % {"n": more}))
    return facts


def _fact(label: str, value: JSON, depth: int) -> Fact:
    if isinstance(value, dict) and value and depth < MAX_DEPTH:
        return Fact(label, style="facts", facts=_facts(value, depth + 1))
    if isinstance(value, list) and value:
        return _list(label, value, depth)
    if isinstance(value, dict | list):
        if not value:
            return Fact(label, _("(nothing)"), style="none")
        return _text(label, to_json(value, indent=2), style="code")
    return _scalar(label, value)


def _list(label: str, values: list[JSON], depth: int) -> Fact:
    if all(not isinstance(value, dict | list) for value in values) and len(values) <= MAX_ROWS:
        return Fact(label, style="list", facts=[_scalar("", value) for value in values])
    if columns := _columns(values):
        table = [[_cell(row.get(key, "")) for key in columns] for row in values]
        return Fact(label, style="table", columns=[label_of(key) for key in columns], table=table)
    return _text(label, to_json(values, indent=2), style="code")


def _columns(values: list[JSON]) -> list[str]:
    """Returns the columns of a list of like, flat objects; none where it isn't one."""
    if len(values) > MAX_ROWS or not all(isinstance(value, dict) for value in values):
        return []
    columns = list(dict.fromkeys(key for value in values for key in value))
    flat = all(not isinstance(cell, dict | list) for value in values for cell in value.values())
    return columns if flat and len(columns) <= MAX_COLUMNS else []


def _cell(value: JSON) -> str:
    return _scalar("", value).text


def _scalar(label: str, value: JSON) -> Fact:
    if value is None:
        return Fact(label, _("(no value)"), style="none")
    if isinstance(value, bool):
        return Fact(label, _("Yes") if value else _("No"))
    if not isinstance(value, str):
        return Fact(label, to_json(value), style="number")
    if value == "":
        return Fact(label, _("(empty text)"), style="none")
    long = "\n" in value or len(value) > 2 * LINE
    return _text(label, value, style="long" if long else "text")


def _text(label: str, text: str, *, style: str) -> Fact:
    return Fact(label, visible(text[:MAX_TEXT]), style=style, cut=max(len(text) - MAX_TEXT, 0))
