"""Display of payloads as labelled values.

Payloads come from language models and other untrusted sources. Templates escape all text, and
invisible characters are replaced by their code points. A value has a special format only if a
display hint in the project's code declares one (``value_formats``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext as _

from hitl_django.decision_types import DECISION_TYPES
from hitl_django.dialects import DIALECTS, humanise_name
from hitl_django.forms.action_forms import ActionBlock
from hitl_django.forms.answer_form import make_label
from hitl_django.forms.fields import LINE
from hitl_django.forms.json_input import escape_hidden, format_number, to_json
from hitl_django.graph_registry.display_hints import Names, Path, resolve
from hitl_django.json_text.sanitize import make_title
from hitl_django.models import Interrupt

from .value_formats import Presentation, present, render_value

JSON = Any

#: Maximum number of characters shown of one value. The download contains the whole value.
MAX_TEXT = 20_000
#: Maximum number of characters of a short value.
SHORT = 40
#: Maximum number of characters shown of a payload, counted over all values.
MAX_SHOWN = 60_000
#: Maximum number of characters shown of a key.
MAX_NAME = 200
MAX_VALUES = 200
MAX_ACTIONS = 50
MAX_DEPTH = 3
MAX_COLUMNS, MAX_ROWS = 6, 50


@dataclass(frozen=True)
class DisplayedValue:
    """A labelled value for display.

    ``style`` selects the format: for example, a ``text``, a list of ``values`` or a ``table``.
    ``url`` is set for a link, an image or a file. ``html`` is set for Markdown. ``cut`` is the
    number of omitted characters.
    """

    label: str
    text: Any = ""
    style: str = "text"
    cut: int = 0
    values: Sequence[DisplayedValue] = ()
    columns: Sequence[str] = ()
    table: Sequence[Sequence[DisplayedValue]] = ()
    url: str = ""
    html: str = ""

    @property
    def is_short(self) -> bool:
        """Whether the value fits into a cell next to other values."""
        return self.style in ("text", "number", "none") and len(self.text) <= SHORT


PLAIN = Presentation()


def display_payload(
    payload: JSON, *, skip: Sequence[str] = (), presentation: Presentation = PLAIN
) -> list[DisplayedValue]:
    """Return the values of a payload for display.

    ``skip`` lists keys that the page shows elsewhere.
    """
    layout = _Layout(presentation.at(payload))
    if not isinstance(payload, dict):
        return [] if payload is None else [layout.fact("", payload, 0)]
    left_out = {*skip, *layout.presentation.list_shown_currencies(payload, skip)}
    return layout.values({key: value for key, value in payload.items() if key not in left_out}, 0)


def display_selected(
    payload: JSON, paths: Sequence[Names], presentation: Presentation = PLAIN
) -> list[DisplayedValue]:
    """Return the values of the members at ``paths`` for display. Missing members are omitted."""
    layout = _Layout(presentation.at(payload))
    found = []
    for names in paths:
        try:
            value, path = resolve(payload, names)
        except LookupError:
            continue
        found.append(layout.fact(make_label(names[-1][:MAX_NAME]), value, 0, path))
    return found


def display_values(values: Sequence[JSON]) -> list[DisplayedValue]:
    """Return the items of a list for display, up to the maximum number of rows."""
    layout = _Layout()
    return [layout.fact("", [*values[:MAX_ROWS]], 0), *layout.more(len(values) - MAX_ROWS)]


def display_actions(item: Interrupt, presentation: Presentation = PLAIN) -> list[DisplayedValue]:
    """Return the actions of an interrupt for display, each with its name and arguments."""
    layout = _Layout(presentation)
    found = []
    actions = DIALECTS[item.dialect].actions(item.payload)
    for action in actions[:MAX_ACTIONS]:
        found.append(layout.fact(_("Action"), action.name, 0))
        layout.presentation = presentation.at_arguments(action.args, action.schema)
        hidden = layout.presentation.list_shown_currencies(action.args)
        found += layout.values(
            {name: value for name, value in action.args.items() if name not in hidden}, 0
        )
    return found + layout.more(len(actions) - MAX_ACTIONS)


def display_answer(item: Interrupt, value: JSON) -> list[DisplayedValue]:
    """Return the value that is sent to the graph, formatted for display.

    For an interrupt with several actions, the result contains the decision on each action.
    """
    layout = _Layout(present(item))
    if value is None:
        return [layout.fact("", None, 0)] if item.title else []
    dialect = DIALECTS[item.dialect]
    if not dialect.has_separate_actions(item.payload):
        return display_payload(value, presentation=layout.presentation)
    actions, made = dialect.actions(item.payload), dialect.action_decisions(value)
    found = [
        DisplayedValue(
            f"{number}. {escape_hidden(humanise_name(action.name))}",
            style="facts",
            values=layout.decided(one),
        )
        for number, action, one in zip(range(1, MAX_ACTIONS + 1), actions, made, strict=False)
    ]
    return found + layout.more(len(actions) - MAX_ACTIONS)


def display_arguments(block: ActionBlock) -> list[DisplayedValue]:
    """Return the arguments of a block's action for display.

    If the block combines several actions, the result contains the arguments of each action.
    """
    if len(block.starts) > 1:
        return display_values(block.starts)
    return display_payload(block.start, presentation=present_arguments(block))


def present_arguments(block: ActionBlock) -> Presentation:
    """Return the display hints of an action's arguments."""
    presentation = present(block.interrupt_forms.item)
    return presentation.at_arguments(block.start, block.action.schema)


def is_its_own_title(payload: JSON, title: str) -> bool:
    """Return whether the payload contains only the text that is the page's title."""
    return isinstance(payload, str) and payload == title == make_title(payload, "")


def read_why(payload: JSON) -> str:
    """Return the reason in the payload, or an empty string if it has none."""
    why = payload.get("why") if isinstance(payload, dict) else None
    return escape_hidden(why[:MAX_TEXT]) if isinstance(why, str) else ""


def display_raw(value: JSON) -> DisplayedValue:
    """Return a value for display as JSON text, shortened to the character limit of a page."""
    return _Layout().text("", to_json(value, indent=2), style="code")


class _Layout:
    """Converter of values for display.

    The values that one converter converts share the character limit of a page.
    """

    def __init__(self, presentation: Presentation = PLAIN) -> None:
        self.room, self.presentation = MAX_SHOWN, presentation

    def values(self, mapping: dict[str, JSON], depth: int, path: Path = ()) -> list[DisplayedValue]:
        values: list[DisplayedValue] = []
        for key, value in list(mapping.items())[:MAX_VALUES]:
            if not self.room:
                break
            values.append(self.fact(make_label(key[:MAX_NAME]), value, depth, (*path, key)))
        return values + self.more(len(mapping) - len(values))

    def more(self, count: int) -> list[DisplayedValue]:
        text = _("%(n)d more values not shown.") % {"n": count}
        return [DisplayedValue(_("More"), text)] if count > 0 else []

    def decided(self, one: JSON) -> list[DisplayedValue]:
        """Return the decision on one action of an interrupt for display.

        The result contains the type of the decision. If the decision has a message or edited
        arguments, the result also contains these.
        """
        type_ = DECISION_TYPES.get(one["type"])
        found = [DisplayedValue("", one["type"] if type_ is None else type_.participle)]
        if "message" in one:
            found.append(self.scalar("", one["message"]))
        args = one.get("edited_action", {}).get("args", {})
        self.presentation = self.presentation.at(args)
        return found + self.values(args, 1)

    def fact(self, label: str, value: JSON, depth: int, path: Path = ()) -> DisplayedValue:
        if isinstance(value, dict) and value and depth < MAX_DEPTH:
            return DisplayedValue(label, style="facts", values=self.values(value, depth + 1, path))
        if isinstance(value, list) and value:
            return self.list(label, value, path)
        if isinstance(value, dict | list):
            if not value:
                return DisplayedValue(label, _("(empty)"), style="none")
            return self.text(label, to_json(value, indent=2), style="code")
        return self.scalar(label, value, path)

    def list(self, label: str, values: list[JSON], path: Path) -> DisplayedValue:
        if all(not isinstance(value, dict | list) for value in values) and len(values) <= MAX_ROWS:
            return DisplayedValue(
                label,
                style="list",
                values=[self.scalar("", value, (*path, at)) for at, value in enumerate(values)],
            )
        if columns := _find_common_columns(values):
            table = [
                [
                    self.scalar("", row[key], (*path, at, key))
                    if key in row
                    else DisplayedValue("")
                    for key in columns
                ]
                for at, row in enumerate(values)
            ]
            heads = [make_label(key[:MAX_NAME]) for key in columns]
            return DisplayedValue(label, style="table", columns=heads, table=table)
        return self.text(label, to_json(values, indent=2), style="code")

    def scalar(self, label: str, value: JSON, path: Path = ()) -> DisplayedValue:
        return self.hinted(label, value, path) or self.plain(label, value)

    def hinted(self, label: str, value: JSON, path: Path) -> DisplayedValue | None:
        """Return a value in the format of its display hint.

        Returns None without a hint, or if the value doesn't match the format.
        """
        hint = self.presentation.find_hint(path)
        if hint is None:
            return None
        shown = value[: min(MAX_TEXT, self.room)] if isinstance(value, str) else value
        made = render_value(hint, shown, path, self.presentation)
        if made is None:
            return None
        if isinstance(value, str) and len(shown) < len(value):
            if made.url:
                return None
            made_of = self.text(label, value, style=made.style)
            return replace(made_of, html=made.html)
        return replace(self.text(label, made.text, style=made.style), url=made.url, html=made.html)

    def plain(self, label: str, value: JSON) -> DisplayedValue:
        if value is None:
            return DisplayedValue(label, _("(no value)"), style="none")
        if isinstance(value, bool):
            return DisplayedValue(label, _("Yes") if value else _("No"))
        if not isinstance(value, str):
            return DisplayedValue(label, format_number(value), style="number")
        if value == "":
            return DisplayedValue(label, _("(empty text)"), style="none")
        long = "\n" in value or len(value) > 2 * LINE
        return self.text(label, value, style="long" if long else "text")

    def text(self, label: str, text: str, *, style: str) -> DisplayedValue:
        shown = text[: min(MAX_TEXT, self.room)]
        self.room -= len(shown)
        return DisplayedValue(label, escape_hidden(shown), style=style, cut=len(text) - len(shown))


def _find_common_columns(values: list[JSON]) -> list[str]:
    """Return the keys of the objects in ``values``, as the columns of one table.

    Returns an empty list if the values can't be shown as a table: if one of them isn't an object or
    contains a nested value, or if there are too many rows or columns.
    """
    if len(values) > MAX_ROWS or not all(isinstance(value, dict) for value in values):
        return []
    columns = list(dict.fromkeys(key for value in values for key in value))
    flat = all(not isinstance(cell, dict | list) for value in values for cell in value.values())
    return columns if flat and len(columns) <= MAX_COLUMNS else []
