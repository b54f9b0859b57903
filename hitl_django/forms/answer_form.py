"""The form for a whole answer: one field for each leaf of its shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django import forms
from django.forms.utils import ErrorDict
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from hitl_django.json_text import json_schema
from hitl_django.json_text.json_pointer import parse_pointer
from hitl_django.json_text.text_diff import Span

from .choice_fields import BooleanField, ChoiceField, ChoicesField, LinesField, TickField
from .date_fields import DateField, DateTimeField, MomentField, TimeField
from .field_tree import Entry, Group, Leaf, Node, Rows
from .fields import (
    AnswerField,
    ConstField,
    DecimalField,
    IntegerField,
    JSONField,
    NumberField,
    TextField,
)
from .json_input import escape_hidden, list_hidden, to_json
from .shape import JSON, MAX_FIELDS, MISSING, Kind, Shape

FIELDS: dict[Kind, type[AnswerField]] = {
    "boolean": BooleanField,
    "choice": ChoiceField,
    "choices": ChoicesField,
    "const": ConstField,
    "date": DateField,
    "datetime": DateTimeField,
    "decimal": DecimalField,
    "integer": IntegerField,
    "lines": LinesField,
    "number": NumberField,
    "text": TextField,
    "time": TimeField,
}

NAME = "answer"
#: What ``schemas`` says where it gives up, for people.
TOO_COMPLEX = _("is too complex to be checked: send fewer values, or nest them less deeply")

#: The original stands beside a changed field as far as it fits on a line or two.
MAX_ORIGINAL = 200
#: How many blank rows a list shows, and how many more a press on its button brings.
SPARE, MORE = 1, 3
#: Fields that the blank rows of one list may have.
MAX_SPARE = 50


@dataclass(frozen=True)
class Row:
    """What the page shows of a leaf (``bound``), of a ``group`` or of a list (``entries``).

    ``hidden`` names characters in the field's text that a screen doesn't show. ``original`` is what
    the field came with, ``changed`` says that it no longer holds it; of a long text ``spans`` say
    word by word what is different.
    """

    bound: forms.BoundField | None = None
    hidden: Sequence[str] = ()
    original: str = ""
    changed: bool = False
    spans: Sequence[Span] = ()
    group: Group | Rows | None = None
    rows: Sequence[Row] = ()
    absent: forms.BoundField | None = None
    entries: Sequence[Row] = ()
    is_new: bool = False


class AnswerForm(forms.Form):
    """Asks for a value of the given shape, starting from ``original``.

    Once valid, ``answer`` is the JSON value: what was not touched is as it was in ``original``,
    and keys that the shape doesn't know come back with it. ``more`` names a list that is to have
    more blank rows: the form then shows what was posted and finds no fault with it yet.
    """

    def __init__(
        self,
        shape: Shape,
        original: JSON = MISSING,
        data: Mapping[str, Any] | None = None,
        *,
        name: str = NAME,
        more: str = "",
        auto_id: str = "id_%s",
    ) -> None:
        super().__init__(data, use_required_attribute=False, auto_id=auto_id)
        self.more = more
        self._room = 2 * MAX_FIELDS
        label = shape.title or str(_("Your answer"))
        self.tree = self._grow(shape, original, name, label, wanted=True)
        if self.is_bound:
            self._leave_out_blanks()

    def full_clean(self) -> None:
        if not self.more:
            super().full_clean()
            return
        self._errors = ErrorDict()
        self.cleaned_data = {}

    @property
    def answer(self) -> JSON:
        """The JSON value; only of a valid form."""
        return self._compose(self.tree)

    def is_edited(self) -> bool:
        """Says whether a value that the form came with was changed; only of a valid form."""
        for node in self.tree.nodes():
            if isinstance(node, Group) and self._is_taken_away(node):
                return True
            if isinstance(node, Rows) and any(
                self._is_in(e) != bool(e.removed) for e in node.entries
            ):
                return True
        return any(
            leaf.field.original is not MISSING
            and not _identical(self.cleaned_data[leaf.name], leaf.field.original)
            for leaf in self.tree.leaves()
            if not leaf.field.left_out
        )

    def typed_texts(self) -> list[tuple[str, str, Sequence[Span]]]:
        """Returns what a person typed or changed, valid or not: label, text, and word by word."""
        return [
            (
                str(leaf.field.label),
                leaf.field.format_value(self[leaf.name].data),
                leaf.field.spans(self[leaf.name].data),
            )
            for leaf in self.tree.leaves()
            if not leaf.field.is_unchanged(self[leaf.name].data)
        ]

    def original_members(self) -> dict[str, JSON]:
        """Returns the members that the form shows in a field of their own, as they came."""
        if not isinstance(self.tree, Group):
            return {}
        return {
            name: member.field.original
            for name, member in self.tree.members.items()
            if isinstance(member, Leaf) and member.field.original is not MISSING
        }

    def add_faults(self, faults: Sequence[tuple[str, str]]) -> None:
        """Shows each fault of an answer, ``(JSON pointer, reason)``, at the field it is about."""
        for pointer, reason in faults:
            if reason == json_schema.TOO_COMPLEX:
                reason = str(TOO_COMPLEX)
            node, rest = self._find(pointer)
            if not isinstance(node, Leaf):
                where = "/".join(rest)
                message = f"{where}: {reason}" if where else reason
                node.errors.append(message)
                self.add_error(None, message)
                continue
            if rest and rest[0].isdecimal():
                words = {"number": int(rest[0]) + 1, "error": reason}
                reason = gettext("Entry %(number)s: %(error)s") % words
            self.add_error(node.name, reason)

    def rows(self) -> list[Row]:
        """Returns what the page lays out, objects and lists as groups of rows."""
        return self._rows(self.tree) if isinstance(self.tree, Group) else [self._row(self.tree)]

    def _row(self, node: Node) -> Row:
        if isinstance(node, Leaf):
            bound = self[node.name]
            shown = bound.value()
            changed = self.is_bound and not node.field.is_unchanged(bound.data)
            return Row(
                bound=bound,
                hidden=list_hidden(shown) if isinstance(shown, str) else (),
                original=node.field.format_original(MAX_ORIGINAL),
                changed=changed,
                spans=node.field.spans(bound.data) if changed else (),
            )
        if isinstance(node, Rows):
            entries = [self._entry(entry) for entry in node.entries]
            return Row(group=node, entries=entries)
        absent = self[node.absent] if node.absent else None
        return Row(group=node, rows=self._rows(node), absent=absent)

    def _rows(self, group: Group) -> list[Row]:
        return [self._row(member) for member in group.members.values()]

    def _entry(self, entry: Entry) -> Row:
        rows = self._rows(entry.node) if isinstance(entry.node, Group) else [self._row(entry.node)]
        absent = self[entry.removed] if entry.removed else None
        return Row(rows=rows, absent=absent, is_new=not entry.removed)

    def _grow(self, shape: Shape, original: JSON, name: str, label: str, *, wanted: bool) -> Node:
        if shape.kind == "object" and _is_object(shape, original):
            return self._grow_group(shape, original, name, label, wanted=wanted)
        if shape.kind == "rows" and self._has_room(shape, original):
            return self._grow_rows(shape, original, name, label, wanted=wanted)
        made = make_field(shape, original, wanted=wanted, label=label)
        self.fields[name] = made
        return Leaf(name, made)

    def _grow_group(
        self, shape: Shape, original: JSON, name: str, label: str, *, wanted: bool
    ) -> Group:
        group = Group(name, label, shape, original, wanted)
        if isinstance(original, dict) and group.is_optional():
            group.absent = f"{name}?absent"
            self.fields[group.absent] = forms.BooleanField(required=False, label=_("No value"))
        values = original if isinstance(original, dict) else {}
        for prop in shape.properties:
            group.members[prop.name] = self._grow(
                prop.shape,
                values.get(prop.name, MISSING),
                f"{name}/{quote(prop.name, safe='')}",
                make_label(prop.name, prop.shape),
                wanted=prop.required,
            )
        return group

    def _grow_rows(
        self, shape: Shape, original: JSON, name: str, label: str, *, wanted: bool
    ) -> Rows:
        assert shape.items is not None
        rows = Rows(name, label, shape, original, wanted, count=f"{name}?rows")
        for value in original or ():
            entry = Entry(
                self._grow_entry(rows, value), removed=f"{name}/{len(rows.entries)}?absent"
            )
            self.fields[entry.removed] = forms.BooleanField(required=False, label=_("Remove"))
            rows.entries.append(entry)
        rows.blank = self._blank_rows(rows)
        for _n in range(rows.blank):
            rows.entries.append(Entry(self._grow_entry(rows, MISSING)))
        return rows

    def _grow_entry(self, rows: Rows, value: JSON) -> Node:
        assert rows.shape.items is not None
        name = f"{rows.name}/{len(rows.entries)}"
        return self._grow(rows.shape.items, value, name, "", wanted=True)

    def _has_room(self, shape: Shape, original: JSON) -> bool:
        """Says whether a list can be shown as rows: of objects, and not of too many.

        Every list takes its part of what a form may hold, whatever was posted: a list that is
        shown as rows once always is.
        """
        assert shape.items is not None
        there: Sequence[JSON] = ()
        if isinstance(original, list):
            there = original
        elif original is not MISSING and not (original is None and shape.nullable):
            return False
        wide = (len(there) + SPARE) * _width(shape.items)
        if wide > self._room or not all(isinstance(value, dict) for value in there):
            return False
        self._room -= wide
        return True

    def _blank_rows(self, rows: Rows) -> int:
        """Returns how many blank rows a list has: as many as were posted, and some if asked for."""
        assert rows.shape.items is not None
        posted = str(self.data.get(rows.count, "")) if self.is_bound else ""
        wanted = int(posted) if posted.isascii() and posted.isdecimal() and len(posted) < 4 else 0
        if rows.name == self.more:
            wanted += MORE
        return max(SPARE, min(wanted, MAX_SPARE // _width(rows.shape.items)))

    def _leave_out_blanks(self) -> None:
        """Asks nothing of objects that weren't there and in which nothing was typed."""
        for node in self.tree.nodes():
            if isinstance(node, Group):
                absent = not isinstance(node.original, dict) and node.is_optional()
                if self._is_taken_away(node) or (absent and self._is_blank(node)):
                    _leave_out(node)
            elif isinstance(node, Rows):
                for entry in node.entries:
                    if not self._is_in(entry):
                        _leave_out(entry.node)

    def _is_blank(self, node: Node) -> bool:
        return all(
            isinstance(leaf.field, ConstField) or leaf.field.is_blank(self[leaf.name].data)
            for leaf in node.leaves()
        )

    def _is_taken_away(self, group: Group) -> bool:
        return bool(group.absent and self[group.absent].data)

    def _is_in(self, entry: Entry) -> bool:
        """Says whether an entry is in the answer: it was and stays, or something was typed."""
        if entry.removed:
            return not self[entry.removed].data
        return not self._is_blank(entry.node)

    def _compose(self, node: Node) -> JSON:
        if isinstance(node, Leaf):
            return self.cleaned_data[node.name]
        if isinstance(node, Rows):
            kept = [self._compose(entry.node) for entry in node.entries if self._is_in(entry)]
            return kept if kept or node.original else node.empty_value()
        if self._is_taken_away(node):
            return None if node.shape.nullable else MISSING
        if not isinstance(node.original, dict) and node.is_optional() and self._is_blank(node):
            return node.original if node.original is None or not node.wanted else None
        members = {key: self._compose(member) for key, member in node.members.items()}
        before = node.original if isinstance(node.original, dict) else {}
        return {key: value for key, value in {**before, **members}.items() if value is not MISSING}

    def _find(self, pointer: str) -> tuple[Node, list[str]]:
        node, parts = self.tree, parse_pointer(pointer)
        while parts and (found := self._below(node, parts[0])) is not None:
            node = found
            parts.pop(0)
        return node, parts

    def _below(self, node: Node, part: str) -> Node | None:
        if isinstance(node, Group):
            return node.members.get(part)
        if isinstance(node, Rows) and part.isdecimal():
            kept = [entry.node for entry in node.entries if self._is_in(entry)]
            return kept[int(part)] if int(part) < len(kept) else None
        return None


def make_field(shape: Shape, original: JSON, *, wanted: bool, label: str) -> AnswerField:
    """Returns the field for a shape: the first that can show the original whole."""
    kinds: list[type[AnswerField]] = [FIELDS.get(shape.kind, JSONField), JSONField]
    if issubclass(kinds[0], MomentField):
        kinds.insert(1, TextField)
    if shape.kind == "boolean":
        kinds.insert(0, TickField)
    kind = next(kind for kind in kinds if kind.fits(shape, original))
    return kind(shape, original, wanted=wanted, label=label)


def make_label(name: str, shape: Shape | None = None) -> str:
    """Returns a property's title, or its name in words."""
    words = name.replace("_", " ").strip()
    title = shape.title if shape else ""
    # Pydantic titles every field after its name; the admin writes labels like sentences.
    if title and title.casefold() != words.casefold():
        return escape_hidden(title)
    return escape_hidden(capfirst(words) or name)


def _is_object(shape: Shape, original: JSON) -> bool:
    return (
        original is MISSING or isinstance(original, dict) or (original is None and shape.nullable)
    )


def _width(shape: Shape) -> int:
    """Counts the fields of one row."""
    return sum(1 for _ in shape.leaves()) + 1


def _leave_out(node: Node) -> None:
    for leaf in node.leaves():
        leaf.field.left_out = True


def _identical(one: JSON, other: JSON) -> bool:
    # As JSON: in Python 1 equals True and 1.0.
    return one is not MISSING and to_json(one) == to_json(other)
