"""The form for a whole answer: one field for each leaf of its shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from django import forms
from django.utils.text import capfirst
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from .choices import BooleanField, ChoiceField, ChoicesField, LinesField, TickField
from .fields import (
    AnswerField,
    ConstField,
    DecimalField,
    IntegerField,
    JSONField,
    NumberField,
    TextField,
)
from .moments import DateField, DateTimeField, MomentField, TimeField
from .shape import JSON, MISSING, Kind, Shape
from .text import hidden, to_json, visible

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


@dataclass
class Leaf:
    """A value that one field asks for."""

    name: str
    field: AnswerField


@dataclass
class Group:
    """An object: its members, and what it was before.

    ``absent`` is the name of the box that takes the whole object away, where it may be away.
    """

    name: str
    label: str
    shape: Shape
    original: JSON
    wanted: bool
    members: dict[str, Leaf | Group] = field(default_factory=dict)
    absent: str = ""
    errors: list[str] = field(default_factory=list)

    def leaves(self) -> Iterator[Leaf]:
        """Yields the fields of the object and of all objects in it."""
        for member in self.members.values():
            yield from [member] if isinstance(member, Leaf) else member.leaves()

    def is_optional(self) -> bool:
        return self.shape.nullable or not self.wanted


@dataclass(frozen=True)
class Row:
    """What the page shows of a leaf (``bound``), or of a group (``rows``).

    ``hidden`` names characters in the field's text that a screen doesn't show.
    """

    bound: forms.BoundField | None = None
    hidden: Sequence[str] = ()
    group: Group | None = None
    rows: Sequence[Row] = ()
    absent: forms.BoundField | None = None


class AnswerForm(forms.Form):
    """Asks for a value of the given shape, starting from ``original``.

    Once valid, ``answer`` is the JSON value: what was not touched is as it was in ``original``,
    and keys that the shape doesn't know come back with it.
    """

    def __init__(
        self,
        shape: Shape,
        original: JSON = MISSING,
        data: Mapping[str, Any] | None = None,
        *,
        name: str = NAME,
    ) -> None:
        super().__init__(data, use_required_attribute=False)
        self.tree = self._grow(shape, original, name, shape.title, wanted=True)
        if self.is_bound:
            self._leave_out_blank_objects(self.tree)

    @property
    def answer(self) -> JSON:
        """The JSON value; only of a valid form."""
        return self._compose(self.tree)

    def is_edited(self) -> bool:
        """Says whether a value that the form came with was changed; only of a valid form."""
        if any(self._is_taken_away(group) for group in _groups(self.tree)):
            return True
        return any(
            leaf.field.original is not MISSING
            and not _identical(self.cleaned_data[leaf.name], leaf.field.original)
            for leaf in _leaves(self.tree)
        )

    def typed(self) -> list[tuple[str, str]]:
        """Returns what a person typed or changed, label and text, valid or not."""
        return [
            (str(leaf.field.label), leaf.field.spoken(self[leaf.name].data))
            for leaf in _leaves(self.tree)
            if not leaf.field.untouched(self[leaf.name].data)
        ]

    def long_texts(self) -> list[str]:
        """Names the properties that the form shows as a text of several lines."""
        if isinstance(self.tree, Leaf):
            return []
        return [
            name
            for name, member in self.tree.members.items()
            if isinstance(member, Leaf)
            and isinstance(member.field, TextField)
            and isinstance(member.field.widget, forms.Textarea)
            and member.field.original
        ]

    def add_faults(self, faults: Sequence[tuple[str, str]]) -> None:
        """Shows each fault of an answer, ``(JSON pointer, reason)``, at the field it is about."""
        for pointer, reason in faults:
            node, rest = self._find(pointer)
            if isinstance(node, Group):
                where = "/".join(rest)
                message = f"{where}: {reason}" if where else reason
                node.errors.append(message)
                self.add_error(None, message)
                continue
            if rest and rest[0].isdecimal():
                said = {"number": int(rest[0]) + 1, "error": reason}
                reason = _now("Entry %(number)s: %(error)s") % said
            self.add_error(node.name, reason)

    def rows(self) -> list[Row]:
        """Returns what the page lays out, objects as groups of rows."""
        if isinstance(self.tree, Leaf):
            return [self._row(self.tree)]
        return self._rows(self.tree)

    def _row(self, leaf: Leaf) -> Row:
        bound = self[leaf.name]
        shown = bound.value()
        return Row(bound=bound, hidden=hidden(shown) if isinstance(shown, str) else ())

    def _rows(self, group: Group) -> list[Row]:
        rows = []
        for member in group.members.values():
            if isinstance(member, Leaf):
                rows.append(self._row(member))
                continue
            absent = self[member.absent] if member.absent else None
            rows.append(Row(group=member, rows=self._rows(member), absent=absent))
        return rows

    def _grow(
        self, shape: Shape, original: JSON, name: str, label: str, *, wanted: bool
    ) -> Leaf | Group:
        if shape.kind != "object" or not _is_object(shape, original):
            made = make_field(shape, original, wanted=wanted, label=label)
            self.fields[name] = made
            return Leaf(name, made)
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
                label_of(prop.name, prop.shape),
                wanted=prop.required,
            )
        return group

    def _leave_out_blank_objects(self, node: Leaf | Group) -> None:
        """Asks nothing of an optional object that wasn't there and in which nothing was typed."""
        for group in _groups(node):
            absent = not isinstance(group.original, dict) and group.is_optional()
            if self._is_taken_away(group) or (absent and self._is_blank(group)):
                for leaf in group.leaves():
                    leaf.field.left_out = True

    def _is_blank(self, group: Group) -> bool:
        return all(
            isinstance(leaf.field, ConstField) or leaf.field.is_blank(self[leaf.name].data)
            for leaf in group.leaves()
        )

    def _is_taken_away(self, group: Group) -> bool:
        return bool(group.absent and self[group.absent].data)

    def _compose(self, node: Leaf | Group) -> JSON:
        if isinstance(node, Leaf):
            return self.cleaned_data[node.name]
        if self._is_taken_away(node):
            return None if node.shape.nullable else MISSING
        if not isinstance(node.original, dict) and node.is_optional() and self._is_blank(node):
            return node.original if node.original is None or not node.wanted else None
        members = {key: self._compose(member) for key, member in node.members.items()}
        before = node.original if isinstance(node.original, dict) else {}
        return {key: value for key, value in {**before, **members}.items() if value is not MISSING}

    def _find(self, pointer: str) -> tuple[Leaf | Group, list[str]]:
        node, parts = self.tree, [_unescape(part) for part in pointer.split("/")[1:]]
        while parts and isinstance(node, Group) and parts[0] in node.members:
            node = node.members[parts.pop(0)]
        return node, parts


def make_field(shape: Shape, original: JSON, *, wanted: bool, label: str) -> AnswerField:
    """Returns the field for a shape: the first that can show the original whole."""
    kinds: list[type[AnswerField]] = [FIELDS.get(shape.kind, JSONField), JSONField]
    if issubclass(kinds[0], MomentField):
        kinds.insert(1, TextField)
    if shape.kind == "boolean":
        kinds.insert(0, TickField)
    kind = next(kind for kind in kinds if kind.fits(shape, original))
    return kind(shape, original, wanted=wanted, label=label)


def label_of(name: str, shape: Shape | None = None) -> str:
    """Returns a property's title, or its name in words."""
    words = name.replace("_", " ").strip()
    title = shape.title if shape else ""
    # Pydantic titles every field after its name; the admin writes labels like sentences.
    if title and title.casefold() != words.casefold():
        return visible(title)
    return visible(capfirst(words) or name)


def _is_object(shape: Shape, original: JSON) -> bool:
    return (
        original is MISSING or isinstance(original, dict) or (original is None and shape.nullable)
    )


def _groups(node: Leaf | Group) -> Iterator[Group]:
    if isinstance(node, Group):
        yield node
        for member in node.members.values():
            yield from _groups(member)


def _leaves(node: Leaf | Group) -> Iterator[Leaf]:
    yield from [node] if isinstance(node, Leaf) else node.leaves()


def _identical(one: JSON, other: JSON) -> bool:
    # As JSON: in Python 1 equals True and 1.0.
    return one is not MISSING and to_json(one) == to_json(other)


def _unescape(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
