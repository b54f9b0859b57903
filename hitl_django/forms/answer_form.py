"""The form for a whole response, with one field per leaf of its schema tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from django import forms
from django.core.exceptions import ValidationError
from django.forms.utils import ErrorDict
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from hitl_django.graph_registry.display_hints import (
    Hint,
    Names,
    Path,
    get_names,
    locate,
    to_currency,
)
from hitl_django.json_text.json_pointer import parse_pointer, read_index
from hitl_django.json_text.reasons import say
from hitl_django.json_text.text_diff import Span

from .choice_fields import BooleanField, ChoiceField, ChoicesField, LinesField, TickField
from .date_fields import DateField, DateTimeField, MomentField, TimeField
from .field_tree import Entry, Group, Leaf, Node, OneOf, Rows
from .fields import (
    AnswerField,
    ConstField,
    DecimalField,
    IntegerField,
    JSONField,
    NumberField,
    SecretField,
    TextField,
    UUIDField,
)
from .json_input import escape_hidden, list_hidden, to_json
from .schema_tree import JSON, MAX_FIELDS, MISSING, Kind, SchemaNode, list_hints, to_label
from .unit_fields import UnitField, UnitLinesField
from .units import Money, Unit, find_unit, make_unit

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
    "uuid": UUIDField,
}

NAME = "answer"
#: The maximum length of an original value shown next to a changed field.
MAX_ORIGINAL = 200
#: The number of blank rows of a list, and of rows added by the list's button.
SPARE, MORE = 1, 3
#: The maximum number of fields in the blank rows of one list.
MAX_SPARE = 50
#: Lists of objects with more members are not shown as tables.
MAX_COLUMNS = 6

#: Labels of alternatives without a name.
KIND_WORDS: dict[Kind, Any] = {
    "boolean": _("Yes or no"),
    "choice": _("One of several choices"),
    "choices": _("Several choices"),
    "date": _("Date"),
    "datetime": _("Date and time"),
    "decimal": _("Number"),
    "integer": _("Integer"),
    "json": _("Other (JSON)"),
    "lines": _("List"),
    "number": _("Number"),
    "object": _("Object"),
    "rows": _("List"),
    "text": _("Text"),
    "time": _("Time"),
    "uuid": _("UUID"),
}


@dataclass(frozen=True)
class Row:
    """A row of the form's page: a field (``bound``), a ``group`` of rows, or a list of ``entries``.

    A list of small objects is a table with ``columns``. For a union, ``kinds`` are the
    alternatives, and ``bound`` is the field that selects an alternative.

    ``hidden`` lists the invisible characters in the field's text. If ``is_secret`` is true, typed
    values of the field are not shown again. ``original`` is the field's original value, and
    ``changed`` is true if the value differs from ``original``. For a long text, ``spans`` contains
    the differences word by word.
    """

    bound: forms.BoundField | None = None
    hidden: Sequence[str] = ()
    is_secret: bool = False
    original: str = ""
    changed: bool = False
    spans: Sequence[Span] = ()
    group: Group | Rows | OneOf | None = None
    rows: Sequence[Row] = ()
    absent: forms.BoundField | None = None
    entries: Sequence[Row] = ()
    is_new: bool = False
    columns: Sequence[forms.BoundField] = ()
    kinds: Sequence[RowKind] = ()


@dataclass(frozen=True)
class RowKind:
    """One alternative of a union: the button that selects the alternative, and its rows."""

    radio: forms.boundfield.BoundWidget
    rows: Sequence[Row] = ()


class AnswerForm(forms.Form):
    """A form for a value of the given schema tree, with ``original`` as initial value.

    After successful validation, ``answer`` is the JSON value. Unchanged parts are identical to
    ``original``, and members that the schema doesn't define are preserved. If the user has pressed
    a button that adds blank rows to a list, ``more`` is the name of the list. The submitted values
    are then shown again without validation.

    ``hints`` are the display hints of the values, in addition to the hints of the schema. If a hint
    refers to a currency that the form doesn't contain, the currency is read from ``payload``.
    """

    def __init__(
        self,
        shape: SchemaNode,
        original: JSON = MISSING,
        data: Mapping[str, Any] | None = None,
        *,
        name: str = NAME,
        more: str = "",
        auto_id: str = "id_%s",
        hints: Mapping[Names, Hint] | None = None,
        payload: JSON = None,
    ) -> None:
        super().__init__(data, use_required_attribute=False, auto_id=auto_id)
        self.more = more
        self._room = 2 * MAX_FIELDS
        self._hints = {**list_hints(shape), **(hints or {})}
        self._roots, self._shape = (original, payload), shape
        #: The leaves of each path; a union has several leaves with the same path.
        self._leaves: dict[Path, list[Leaf]] = {}
        label = shape.title or str(_("Your response"))
        self.tree = self._grow(shape, original, name, label, (), wanted=True)
        if self.is_bound:
            self._leave_out_blanks()
            self._settle_units()

    def full_clean(self) -> None:
        if not self.more:
            super().full_clean()
            return
        self._errors = ErrorDict()
        self.cleaned_data = {}

    @property
    def answer(self) -> JSON:
        """The entered JSON value.

        If the form is invalid, the value lacks the invalid parts.
        """
        return self._compose(self.tree)

    def is_edited(self) -> bool:
        """Return whether the user has changed an original value. The form must be valid."""
        for node in self.tree.nodes():
            if isinstance(node, Group) and self._is_taken_away(node):
                return True
            if (
                isinstance(node, OneOf)
                and node.original is not MISSING
                and self._chosen_number(node) != node.start
            ):
                return True
            if isinstance(node, Rows) and any(
                self._is_present(e) != bool(e.removed) for e in node.entries
            ):
                return True
        return any(
            leaf.field.original is not MISSING
            and not is_identical(self.cleaned_data[leaf.name], leaf.field.original)
            for leaf in self.tree.leaves()
            if not leaf.field.left_out
        )

    def typed_texts(self) -> list[tuple[str, str, Sequence[Span]]]:
        """Return the label, text and word differences of each field that the user changed.

        Invalid input is included.
        """
        chosen: list[tuple[str, str, Sequence[Span]]] = [
            (node.label, str(kind_label(node.chosen(number))), ())
            for node in self.tree.nodes()
            if isinstance(node, OneOf) and (number := self._chosen_number(node)) != node.start
            if number
        ]
        return chosen + [
            (
                str(leaf.field.label),
                leaf.field.format_value(self[leaf.name].data),
                leaf.field.spans(self[leaf.name].data),
            )
            for leaf in self.tree.leaves()
            if not leaf.field.is_unchanged(self[leaf.name].data)
        ]

    def original_members(self) -> dict[str, JSON]:
        """Return the members of the original value that have their own field."""
        if not isinstance(self.tree, Group):
            return {}
        return {
            name: member.field.original
            for name, member in self.tree.members.items()
            if isinstance(member, Leaf) and member.field.original is not MISSING
        }

    def list_shown_currencies(self) -> set[str]:
        """Return the names of the payload's members that contain a currency of the form's amounts.

        The form shows these currencies as units.
        """
        hints = [
            self._hints[get_names(path)]
            for path, leaves in self._leaves.items()
            if any(isinstance(leaf.field, UnitField) for leaf in leaves)
        ]
        return {hint.currency_names[0] for hint in hints if len(hint.currency_names) == 1}

    def add_faults(self, faults: Sequence[tuple[str, str]]) -> None:
        """Show errors of a response at their fields. Errors are (JSON pointer, reason) pairs."""
        for pointer, reason in faults:
            node, rest = self._find(pointer)
            if not isinstance(node, Leaf):
                reason = say(reason)
                where = "/".join(rest)
                message = f"{where}: {reason}" if where else reason
                node.errors.append(message)
                self.add_error(None, message)
                continue
            index = read_index(rest[0]) if rest else None
            reason = node.field.describe(reason, of_entry=index is not None)
            if index is not None:
                params = {"number": index + 1, "error": reason}
                reason = gettext("Entry %(number)s: %(error)s") % params
            self.add_error(node.name, reason)

    def add_other_faults(self, faults: Sequence[tuple[str, str]]) -> None:
        """Show errors of a partly invalid response at fields that have no error yet."""
        self.add_faults(
            [
                (pointer, reason)
                for pointer, reason in faults
                if not any(leaf.name in self.errors for leaf in self._find(pointer)[0].leaves())
            ]
        )

    def rows(self) -> list[Row]:
        """Return the rows of the form's page. A row for an object or a list contains more rows."""
        return self._rows(self.tree) if isinstance(self.tree, Group) else [self._row(self.tree)]

    def _row(self, node: Node) -> Row:
        if isinstance(node, Leaf):
            bound = self[node.name]
            is_secret = isinstance(node.field, SecretField)
            shown = "" if is_secret else bound.value()
            changed = self.is_bound and not node.field.is_unchanged(bound.data)
            return Row(
                bound=bound,
                hidden=list_hidden(shown) if isinstance(shown, str) else (),
                is_secret=is_secret,
                original=node.field.format_original(MAX_ORIGINAL),
                changed=changed,
                spans=node.field.spans(bound.data) if changed else (),
            )
        if isinstance(node, Rows):
            entries = [self._entry(entry) for entry in node.entries]
            return Row(group=node, entries=entries, columns=self._columns(node))
        if isinstance(node, OneOf):
            return self._one_of_row(node)
        absent = self[node.absent] if node.absent else None
        return Row(group=node, rows=self._rows(node), absent=absent)

    def _one_of_row(self, node: OneOf) -> Row:
        kinds = []
        for radio in self[node.choice]:
            alternative = node.chosen(radio.data["value"])
            if alternative is None:
                kinds.append(RowKind(radio))
            elif isinstance(alternative, Group):
                kinds.append(RowKind(radio, self._rows(alternative, node.shape.discriminator)))
            else:
                kinds.append(RowKind(radio, [self._row(alternative)]))
        return Row(group=node, bound=self[node.choice], kinds=kinds)

    def _columns(self, node: Rows) -> list[forms.BoundField]:
        """Return the fields of a list's first entry, one for each column of the table.

        Return an empty list if the list is not shown as a table.
        """
        items, first = node.shape.items, node.entries[0].node
        if items is None or not items.is_flat() or len(items.properties) > MAX_COLUMNS:
            return []
        return [self[leaf.name] for leaf in first.leaves()]

    def _rows(self, group: Group, but: str | None = None) -> list[Row]:
        return [self._row(member) for name, member in group.members.items() if name != but]

    def _entry(self, entry: Entry) -> Row:
        rows = self._rows(entry.node) if isinstance(entry.node, Group) else [self._row(entry.node)]
        absent = self[entry.removed] if entry.removed else None
        return Row(rows=rows, absent=absent, is_new=not entry.removed)

    def _grow(
        self, shape: SchemaNode, original: JSON, name: str, label: str, path: Path, *, wanted: bool
    ) -> Node:
        if shape.kind == "object" and _is_object(shape, original):
            return self._grow_group(shape, original, name, label, path, wanted=wanted)
        if shape.kind == "rows" and self._reserve_row_fields(shape, original):
            return self._grow_rows(shape, original, name, label, path, wanted=wanted)
        if shape.kind == "union" and (start := find_alternative(shape, original)) is not None:
            return self._grow_one_of(shape, original, name, label, path, wanted=wanted, start=start)
        made = self._make_field(shape, original, label, path, wanted=wanted)
        self.fields[name] = made
        leaf = Leaf(name, made)
        self._leaves.setdefault(path, []).append(leaf)
        return leaf

    def _make_field(
        self, shape: SchemaNode, original: JSON, label: str, path: Path, *, wanted: bool
    ) -> AnswerField:
        hint = self._hints.get(get_names(path))
        if hint is None or shape.secret:
            return make_field(shape, original, wanted=wanted, label=label)
        unit = find_unit(hint, path, self._roots)
        if unit is None and hint.currency_names and original in (MISSING, None):
            # The currency is typed in the same form.
            typed = _is_member(self._shape, hint.currency_names)
            if typed and UnitField.suits(shape, original, Money()):
                return UnitField(shape, original, wanted=wanted, unit=None, label=label)
        return make_field(shape, original, wanted=wanted, label=label, hint=hint, unit=unit)

    def _settle_units(self) -> None:
        """Set the units of amounts whose currency is entered in the same form."""
        for path, leaves in self._leaves.items():
            hint = self._hints.get(get_names(path))
            if hint is None or not hint.currency_names:
                continue
            units = [leaf.field for leaf in leaves if isinstance(leaf.field, UnitField)]
            found = self._leaves.get(locate(hint.currency_names, path), ())
            source = next((leaf for leaf in found if not leaf.field.left_out), None)
            if not units or source is None:
                continue
            currency = self._read_currency(source)
            for field in units:
                field.settle(make_unit(hint, currency) if currency else None)

    def _read_currency(self, leaf: Leaf) -> str:
        try:
            return to_currency(leaf.field.clean(self[leaf.name].data))
        except ValidationError:
            return ""

    def _grow_group(
        self, shape: SchemaNode, original: JSON, name: str, label: str, path: Path, *, wanted: bool
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
                (*path, prop.name),
                wanted=prop.required,
            )
        return group

    def _grow_one_of(
        self,
        shape: SchemaNode,
        original: JSON,
        name: str,
        label: str,
        path: Path,
        *,
        wanted: bool,
        start: str,
    ) -> OneOf:
        node = OneOf(name, label, shape, original, wanted, choice=f"{name}?kind", start=start)
        for number, alternative in enumerate(shape.alternatives):
            node.alternatives.append(
                self._grow(
                    alternative,
                    original if str(number) == start else MISSING,
                    f"{name}?{number}",
                    alternative.title or label,
                    path,
                    wanted=True,
                )
            )
        choices = [(str(n), kind_label(each)) for n, each in enumerate(node.alternatives)]
        if node.is_optional():
            choices.insert(0, ("", _("No value")))
        self.fields[node.choice] = forms.ChoiceField(
            label=label,
            choices=choices,
            initial=start,
            required=not node.is_optional(),
            widget=forms.RadioSelect,
            error_messages={"required": _("Choose one.")},
        )
        return node

    def _grow_rows(
        self, shape: SchemaNode, original: JSON, name: str, label: str, path: Path, *, wanted: bool
    ) -> Rows:
        assert shape.items is not None
        rows = Rows(name, label, shape, original, wanted, count=f"{name}?rows")
        for value in original or ():
            entry = Entry(
                self._grow_entry(rows, value, path), removed=f"{name}/{len(rows.entries)}?absent"
            )
            self.fields[entry.removed] = forms.BooleanField(required=False, label=_("Remove"))
            rows.entries.append(entry)
        rows.blank = self._blank_rows(rows)
        for _n in range(rows.blank):
            rows.entries.append(Entry(self._grow_entry(rows, MISSING, path)))
        return rows

    def _grow_entry(self, rows: Rows, value: JSON, path: Path) -> Node:
        assert rows.shape.items is not None
        position = len(rows.entries)
        name = f"{rows.name}/{position}"
        return self._grow(rows.shape.items, value, name, "", (*path, position), wanted=True)

    def _reserve_row_fields(self, shape: SchemaNode, original: JSON) -> bool:
        """Reserve fields to show a list as rows. Return False if the form would be too large.

        The result doesn't depend on the submitted values, so a list is always shown in the same
        way.
        """
        assert shape.items is not None
        there: Sequence[JSON] = ()
        if isinstance(original, list):
            there = original
        elif original is not MISSING and not (original is None and shape.nullable):
            return False
        wide = (len(there) + SPARE) * _count_fields(shape.items)
        if wide > self._room or not all(isinstance(value, dict) for value in there):
            return False
        self._room -= wide
        return True

    def _blank_rows(self, rows: Rows) -> int:
        """Return the number of blank rows to show in a list.

        The form submits the previous number of blank rows. If the user pressed "Add rows" for this
        list, MORE is added to this number. The result has a minimum and a maximum.
        """
        assert rows.shape.items is not None
        posted = str(self.data.get(rows.count, "")) if self.is_bound else ""
        wanted = int(posted) if posted.isascii() and posted.isdecimal() and len(posted) < 4 else 0
        if rows.name == self.more:
            wanted += MORE
        return max(SPARE, min(wanted, MAX_SPARE // _count_fields(rows.shape.items)))

    def _leave_out_blanks(self) -> None:
        """Leave out fields that were removed or not selected, and new fields without input.

        The values of these fields are not part of the response.
        """
        for node in self.tree.nodes():
            if isinstance(node, Group):
                absent = not isinstance(node.original, dict) and node.is_optional()
                if self._is_taken_away(node) or (absent and self._is_blank(node)):
                    self._leave_out(node)
            elif isinstance(node, Rows):
                for entry in node.entries:
                    if not self._is_present(entry):
                        self._leave_out(entry.node)
            elif isinstance(node, OneOf):
                chosen = node.chosen(self._chosen_number(node))
                for alternative in node.alternatives:
                    if alternative is not chosen:
                        self._leave_out(alternative)

    def _leave_out(self, left_out: Node) -> None:
        for node in left_out.nodes():
            if isinstance(node, Leaf):
                node.field.left_out = True
            elif isinstance(node, OneOf):
                self.fields[node.choice].required = False

    def _is_blank(self, node: Node) -> bool:
        if isinstance(node, Leaf):
            return isinstance(node.field, ConstField) or node.field.is_blank(self[node.name].data)
        if isinstance(node, OneOf):
            return not self._chosen_number(node)
        return all(map(self._is_blank, node.children()))

    def _chosen_number(self, node: OneOf) -> str:
        number = str(self[node.choice].data or "")
        return "" if node.chosen(number) is None else number

    def _is_taken_away(self, group: Group) -> bool:
        return bool(group.absent and self[group.absent].data)

    def _is_present(self, entry: Entry) -> bool:
        """Return whether an entry of a list is part of the value.

        An original entry is part of the value unless the user removed it. A new entry is part of
        the value only if it has input.
        """
        if entry.removed:
            return not self[entry.removed].data
        return not self._is_blank(entry.node)

    def _compose(self, node: Node) -> JSON:
        if isinstance(node, Leaf):
            # Invalid parts have no value, but valid parts are processed.
            return self.cleaned_data.get(node.name, MISSING)
        if isinstance(node, OneOf):
            chosen = node.chosen(self._chosen_number(node))
            return node.empty_value() if chosen is None else self._compose(chosen)
        if isinstance(node, Rows):
            kept = [self._compose(entry.node) for entry in node.entries if self._is_present(entry)]
            return kept if kept or node.original else node.empty_value()
        if self._is_taken_away(node):
            return None if node.shape.nullable else MISSING
        if not isinstance(node.original, dict) and node.is_optional() and self._is_blank(node):
            return node.original if node.original is None or not node.wanted else None
        members = {key: self._compose(member) for key, member in node.members.items()}
        before = node.original if isinstance(node.original, dict) else {}
        return {key: value for key, value in {**before, **members}.items() if value is not MISSING}

    def _find(self, pointer: str) -> tuple[Node, list[str]]:
        node, parts = self._resolve_node(self.tree), parse_pointer(pointer)
        while parts and (found := self._below(node, parts[0])) is not None:
            node = self._resolve_node(found)
            parts.pop(0)
        return node, parts

    def _resolve_node(self, node: Node) -> Node:
        """Return the selected alternative of a union. Other nodes are returned unchanged."""
        while isinstance(node, OneOf):
            chosen = node.chosen(self._chosen_number(node))
            if chosen is None:
                break
            node = chosen
        return node

    def _below(self, node: Node, part: str) -> Node | None:
        if isinstance(node, Group):
            return node.members.get(part)
        index = read_index(part)
        if isinstance(node, Rows) and index is not None:
            kept = [entry.node for entry in node.entries if self._is_present(entry)]
            return kept[index] if index < len(kept) else None
        return None


def make_field(
    shape: SchemaNode,
    original: JSON,
    *,
    wanted: bool,
    label: str,
    hint: Hint | None = None,
    unit: Unit | None = None,
) -> AnswerField:
    """Return a field of the first field class that can show the original value without loss.

    ``wanted`` is true if the key of the field is required.
    """
    if unit is not None and UnitField.suits(shape, original, unit):
        return UnitField(shape, original, wanted=wanted, unit=unit, label=label)
    if unit is not None and UnitLinesField.suits(shape, original, unit):
        return UnitLinesField(shape, original, wanted=wanted, unit=unit, label=label)
    if unit is not None and shape.kind == "choice" and not shape.labels:
        names = [unit.show(o) if unit.accepts(o) else to_label(o) for o in shape.options]
        shape = replace(shape, labels=tuple(names))
    if shape.secret:
        inner = make_field(replace(shape, secret=False), MISSING, wanted=True, label=label)
        return SecretField(inner, original, wanted=wanted, label=label)
    kinds: list[type[AnswerField]] = [FIELDS.get(shape.kind, JSONField), JSONField]
    if issubclass(kinds[0], MomentField):
        kinds.insert(1, TextField)
    if hint is not None and hint.format == "date" and shape.kind == "text":
        kinds[:0] = [DateField, DateTimeField]
    if shape.kind == "boolean":
        kinds.insert(0, TickField)
    kind = next(kind for kind in kinds if kind.fits(shape, original))
    return kind(shape, original, wanted=wanted, label=label)


def make_label(name: str, shape: SchemaNode | None = None) -> str:
    """Return a property's title, or the property's name as words."""
    label = name.replace("_", " ").strip()
    title = shape.title if shape else ""
    # Pydantic's default titles are capitalized names, but labels in the admin use sentence case.
    if title and title.casefold() != label.casefold():
        return escape_hidden(title)
    return escape_hidden(capfirst(label) or name or '""')


def _is_member(shape: SchemaNode, names: Names) -> bool:
    """Return whether the schema has a member at the path ``names``."""
    if not names:
        return True
    if shape.kind == "rows" and shape.items is not None:
        return _is_member(shape.items, names)
    below = [p.shape for p in shape.properties if p.name == names[0]]
    return any(_is_member(each, names[1:]) for each in below) or any(
        _is_member(each, names) for each in shape.alternatives
    )


def _is_object(shape: SchemaNode, original: JSON) -> bool:
    return (
        original is MISSING or isinstance(original, dict) or (original is None and shape.nullable)
    )


def _count_fields(shape: SchemaNode) -> int:
    return sum(1 for _ in shape.leaves()) + 1


def find_alternative(shape: SchemaNode, original: JSON) -> str | None:
    """Return the number of the alternative that matches a value, or "" for a missing value.

    Return None if no alternative matches. The form then shows the value as JSON text.
    """
    if original is MISSING or (original is None and shape.nullable):
        return ""
    fitting = [
        (each.kind != "json", _count_known_members(each, original), -number)
        for number, each in enumerate(shape.alternatives)
        if each.holds(original)
    ]
    return str(-max(fitting)[2]) if fitting else None


def _count_known_members(shape: SchemaNode, value: JSON) -> int:
    return sum(p.name in value for p in shape.properties) if isinstance(value, dict) else 0


def kind_label(node: Node | None) -> Any:
    """Return the label of an alternative of a union."""
    if node is None:
        return _("No value")
    shape = node.field.shape if isinstance(node, Leaf) else node.shape
    if shape.kind == "const":
        return escape_hidden(to_label(shape.options[0]))
    return escape_hidden(shape.title) if shape.title else KIND_WORDS[shape.kind]


def is_identical(one: JSON, other: JSON) -> bool:
    """Return whether two values are equal as JSON. MISSING is not equal to any value."""
    # The values are compared as JSON, because in Python 1 equals True and 1.0.
    return one is not MISSING and to_json(one) == to_json(other)
