"""Form fields for choices, and for lists of simple values.

A form submits the number of a choice instead of its value, so that the value keeps its type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from hitl_django.conf import hitl

from .fields import LARGE, AnswerField, DecimalField, IntegerField, NumberField, TextField
from .json_input import escape_hidden, format_number, is_number, normalize_newlines, to_json
from .schema_tree import JSON, MISSING, Kind, SchemaNode

#: The maximum number of invalid lines in an error message.
MAX_FAULTS = 20


class ChoiceField(AnswerField):
    """A choice of one value."""

    widget = forms.Select
    default_error_messages: ClassVar[dict[str, Any]] = {"required": _("Choose one.")}

    def __init__(self, shape: SchemaNode, original: JSON, *, wanted: bool, **kwargs: Any) -> None:
        self.values = _merge_options(
            shape.options, [] if original in (MISSING, None) else [original]
        )
        super().__init__(shape, original, wanted=wanted, **kwargs)
        choices = [(str(n), self.label_of(value)) for n, value in enumerate(self.values)]
        for n, label in enumerate(shape.labels):
            choices[n] = str(n), escape_hidden(label)
        if shape.nullable or original is MISSING or original is None:
            choices.insert(0, ("", _("(no value)") if self.may_be_blank() else _("(choose)")))
        self.widget.choices = choices

    @classmethod
    def fits(cls, shape: SchemaNode, original: JSON) -> bool:
        return not isinstance(original, dict | list)

    def label_of(self, value: JSON) -> Any:
        return _label(value)

    def initial_value(self) -> str:
        position = _position(self.values, self.original)
        return "" if position is None else str(position)

    def format_value(self, raw: Any) -> str:
        return _spoken(self.widget.choices, [raw])

    def parse(self, raw: str) -> JSON:
        return self.values[_number(raw, self.values)]


class BooleanField(ChoiceField):
    """A choice of yes or no, without a default, so that the reviewer must choose."""

    def __init__(self, shape: SchemaNode, original: JSON, *, wanted: bool, **kwargs: Any) -> None:
        shape = replace(shape, options=(True, False))
        super().__init__(shape, original, wanted=wanted, **kwargs)

    @classmethod
    def fits(cls, shape: SchemaNode, original: JSON) -> bool:
        return original is MISSING or original is None or isinstance(original, bool)

    def label_of(self, value: JSON) -> Any:
        return _("Yes") if value else _("No")


class TickField(AnswerField):
    """A checkbox for a boolean that has an original value."""

    widget = forms.CheckboxInput

    @classmethod
    def fits(cls, shape: SchemaNode, original: JSON) -> bool:
        return isinstance(original, bool) and not shape.nullable

    def initial_value(self) -> Any:
        return self.original

    def may_be_blank(self) -> bool:
        return True

    def is_blank(self, raw: Any) -> bool:
        return False

    def is_unchanged(self, raw: Any) -> bool:
        return bool(raw) == self.original

    def format_value(self, raw: Any) -> str:
        return str(_("Yes") if raw else _("No"))

    def parse(self, raw: Any) -> bool:
        return bool(raw)


class ChoicesField(AnswerField):
    """A choice of several distinct values."""

    widget = forms.CheckboxSelectMultiple

    def __init__(self, shape: SchemaNode, original: JSON, *, wanted: bool, **kwargs: Any) -> None:
        self.values = _merge_options(shape.options, original or [])
        super().__init__(shape, original, wanted=wanted, **kwargs)
        self.widget.choices = [(str(n), _label(value)) for n, value in enumerate(self.values)]

    @classmethod
    def fits(cls, shape: SchemaNode, original: JSON) -> bool:
        if shape.nullable:
            return False
        if not isinstance(original, list):
            return original is MISSING
        return [_position(original, value) for value in original] == list(range(len(original)))

    def initial_value(self) -> list[str]:
        return [str(_position(self.values, value)) for value in self.original or ()]

    def may_be_blank(self) -> bool:
        return True

    def is_unchanged(self, raw: Any) -> bool:
        return set(raw or ()) == set(self.initial)

    def format_value(self, raw: Any) -> str:
        return _spoken(self.widget.choices, raw or ())

    def blank_value(self) -> Any:
        return MISSING if self.original is MISSING and not self.wanted else []

    def parse(self, raw: Sequence[str]) -> list[JSON]:
        chosen = {_number(one, self.values) for one in raw}
        # Original values keep their order. New values follow.
        kept = [int(number) for number in self.initial if int(number) in chosen]
        return [self.values[n] for n in [*kept, *sorted(chosen.difference(kept))]]


class LinesField(AnswerField):
    """A list of simple values, with one value per line."""

    def __init__(self, shape: SchemaNode, original: JSON, *, wanted: bool, **kwargs: Any) -> None:
        attrs = {"rows": min(max(len(original or ()) + 1, 3), 12), "class": LARGE}
        kwargs.setdefault("widget", forms.Textarea(attrs=attrs))
        super().__init__(shape, original, wanted=wanted, **kwargs)

    @classmethod
    def fits(cls, shape: SchemaNode, original: JSON) -> bool:
        if not isinstance(original, list) or shape.items is None:
            return super().fits(shape, original)
        # A value fits on a line only if parsing the line returns the same value: no line ends, not
        # blank, no surrounding spaces, and not parsed as another type.
        lines = [_spell(shape.items, value) for value in original]
        options = [_line(value) for value in shape.items.options]
        if len(set(options)) < len(options):
            return False
        field = ITEMS[shape.items.kind]
        return all(
            value is not None
            and field.fits(shape.items, value)
            and line
            and line == line.strip()
            and line.splitlines() == [line]
            for value, line in zip(original, lines, strict=True)
        )

    def initial_value(self) -> str:
        assert self.shape.items is not None
        return "\n".join(_spell(self.shape.items, value) for value in self.original or ())

    def help(self) -> Any:
        return _("One per line.")

    def may_be_blank(self) -> bool:
        return True

    def blank_value(self) -> Any:
        if self.original is MISSING and not self.wanted:
            return MISSING
        return None if self.shape.nullable and self.original is None else []

    def parse(self, raw: str) -> list[JSON]:
        lines = normalize_newlines(raw).split("\n")
        if sum(map(bool, map(str.strip, lines))) > hitl.RESPONSE_MAX_ITEMS:
            message = gettext("Enter at most %(limit)s lines.")
            raise ValidationError(message % {"limit": hitl.RESPONSE_MAX_ITEMS})
        read = self.reader()
        answer, faults = [], []
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                answer.append(read(line.strip()))
            except ValidationError as error:
                params = {"number": number, "error": " ".join(error.messages)}
                faults.append(gettext("Line %(number)s: %(error)s") % params)
            if len(faults) == MAX_FAULTS:
                break
        if faults:
            raise ValidationError(faults)
        return answer

    def reader(self) -> Callable[[str], JSON]:
        """Return a function that parses a line.

        For an unchanged line, the function returns the original value.
        """
        items = self.shape.items
        assert items is not None
        known: dict[str, JSON] = {}
        for value in (*(self.original or ()), *items.options):
            known.setdefault(_spell(items, value), value)
        like = self.original[0] if self.original else MISSING
        field = ITEMS[items.kind](items, like, wanted=True)

        def read(line: str) -> JSON:
            if line in known:
                return known[line]
            if items.kind == "choice":
                values = ", ".join(map(_line, items.options))
                raise ValidationError(gettext("Choose from: %(values)s.") % {"values": values})
            return field.clean(line)

        return read


#: Types of values that fit on a line.
ITEMS: dict[Kind, type[AnswerField]] = {
    "choice": ChoiceField,
    "decimal": DecimalField,
    "integer": IntegerField,
    "number": NumberField,
    "text": TextField,
}


def _position(values: Sequence[JSON], wanted: JSON) -> int | None:
    # In JSON, true differs from 1, but in Python both are equal.
    for number, value in enumerate(values):
        if type(value) is type(wanted) and value == wanted:
            return number
    return None


def _merge_options(options: Sequence[JSON], present: Sequence[JSON]) -> list[JSON]:
    """Return ``options``, followed by the values of ``present`` that are not among the options."""
    return [*options, *(value for value in present if _position(options, value) is None)]


def _number(raw: str, values: Sequence[JSON]) -> int:
    if not (raw.isascii() and raw.isdecimal() and len(raw) < 6 and int(raw) < len(values)):
        raise ValueError(raw)
    return int(raw)


def _spoken(choices: Any, chosen: Sequence[str]) -> str:
    return ", ".join(str(label) for number, label in choices if number in chosen)


def _label(value: JSON) -> Any:
    return _("(empty text)") if value == "" else escape_hidden(_line(value))


def _spell(items: SchemaNode, value: JSON) -> str:
    if items.kind == "decimal" and isinstance(value, str):
        return format_number(value)
    return _line(value)


def _line(value: JSON) -> str:
    if is_number(value):
        return format_number(value)
    return value if isinstance(value, str) else to_json(value)
