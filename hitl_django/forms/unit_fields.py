"""Form fields of values with a unit, such as an amount of money."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.template.loader import render_to_string
from django.utils.formats import localize
from django.utils.translation import gettext_lazy as _

from hitl_django.json_text.reasons import ValidationMessage

from .choice_fields import LinesField
from .fields import AnswerField
from .json_input import escape_hidden, format_number
from .schema_tree import JSON, MISSING, SchemaNode
from .units import Unit

#: The maximum number of characters of a number that the page shows again in its unit.
MAX_NUMBER = 400


class UnitInput(forms.TextInput):
    """An input widget with the unit next to it."""

    unit = ""

    def render(
        self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> Any:
        if not self.unit:
            return super().render(name, value, attrs, renderer)
        attrs = {**self.attrs, **(attrs or {})}
        unit_id = f"{attrs['id']}_unit" if attrs.get("id") else ""
        if unit_id:
            described = f"{unit_id} {attrs.get('aria-describedby', '')}"
            attrs["aria-describedby"] = described.strip()
        shown = super().render(name, value, attrs, renderer)
        context = {"input": shown, "unit": self.unit, "unit_id": unit_id}
        return render_to_string("hitl_django/admin/unit_input.html", context)


class UnitField(AnswerField):
    """A field for a value with a unit, shown and typed in the current language.

    ``unit`` is None if another value of the form determines the unit and is not entered yet. The
    form then calls ``settle`` with the submitted unit.
    """

    def __init__(
        self,
        shape: SchemaNode,
        original: JSON,
        *,
        wanted: bool,
        unit: Unit | None,
        input_mode: str = "",
        **kwargs: Any,
    ) -> None:
        self.unit = self.original_unit = unit
        mode = unit.input_mode if unit is not None else input_mode
        widget = UnitInput(attrs={"inputmode": mode, "autocomplete": "off", "class": "hitl-input"})
        widget.unit = unit.symbol if unit is not None else ""
        super().__init__(shape, original, wanted=wanted, widget=widget, **kwargs)

    default_error_messages: ClassVar[dict[str, Any]] = {
        "currency": _("Enter the currency of this amount, for example EUR."),
    }

    @classmethod
    def suits(cls, shape: SchemaNode, original: JSON, unit: Unit) -> bool:
        """Return whether a field with this unit can show ``original`` without loss."""
        if shape.kind not in unit.kinds:
            return False
        return original is MISSING or original is None or unit.accepts(original)

    def settle(self, unit: Unit | None) -> None:
        """Set the unit that was submitted in the same form, or None if it is missing or invalid."""
        self.unit = unit
        assert isinstance(self.widget, UnitInput)
        self.widget.unit = unit.symbol if unit is not None else ""
        self.help_text = self.make_help_text()

    def initial_value(self) -> str:
        if self.original is MISSING or self.original is None or self.original_unit is None:
            return ""
        return self.original_unit.to_input(self.original)

    def help(self) -> Any:
        if self.unit is not None:
            return ""
        return _("An amount in the currency of this form, for example %(example)s.") % {
            "example": format_number("12.50")
        }

    def is_unchanged(self, raw: Any) -> bool:
        if self.unit != self.original_unit:
            return False
        if super().is_unchanged(raw):
            return True
        if self.unit is None or self.original is MISSING or not isinstance(raw, str):
            return False
        try:
            return self._read(raw) == self.original
        except (ValueError, ValidationError):
            return False

    def format_value(self, raw: Any) -> str:
        text = super().format_value(raw)
        if self.unit is None or self.is_blank(raw) or len(text) > MAX_NUMBER:
            return text
        try:
            return self.unit.show(self._read(text))
        except (ValueError, ValidationError):
            return text

    def format_original(self, length: int) -> str:
        if self.original is MISSING or self.original is None or self.original_unit is None:
            return ""
        text = self.original_unit.show(self.original)
        return text if len(text) <= length else ""

    def describe(self, reason: str, *, of_entry: bool = False) -> str:
        if not isinstance(reason, ValidationMessage) or self.shape.kind == "text":
            return super().describe(reason)
        if self.unit is None:
            return ""  # The number has no meaning without its unit.
        return describe_in_unit(reason, self.unit)

    def make_help_text(self) -> str:
        if self.unit is None or self.shape.kind != "text":
            return super().make_help_text()
        # The limits of a text are about its ISO format, not about the typed text.
        return escape_hidden(self.shape.description)

    def parse(self, raw: str) -> JSON:
        if self.unit is None:
            raise ValidationError(self.error_messages["currency"], code="currency")
        try:
            return self._read(raw)
        except ValueError:
            params = {"example": self.unit.example}
            raise ValidationError(self.unit.invalid, params=params, code="invalid") from None

    def _read(self, text: str) -> JSON:
        assert self.unit is not None
        return self.unit.read(text, like=self.original, kind=self.shape.kind)


class UnitLinesField(LinesField):
    """A field for a list of values with a unit, with one value per line."""

    def __init__(
        self, shape: SchemaNode, original: JSON, *, wanted: bool, unit: Unit, **kwargs: Any
    ) -> None:
        self.unit = unit
        super().__init__(shape, original, wanted=wanted, **kwargs)

    @classmethod
    def suits(cls, shape: SchemaNode, original: JSON, unit: Unit) -> bool:
        """Return whether a field with this unit can show ``original`` without loss."""
        if shape.kind != "lines" or shape.items is None or shape.items.kind not in unit.kinds:
            return False
        return original in (MISSING, None) or (
            isinstance(original, list) and all(map(unit.accepts, original))
        )

    def initial_value(self) -> str:
        return "\n".join(map(self.unit.to_input, self.original or ()))

    def help(self) -> Any:
        if not self.unit.symbol:
            return super().help()
        return _("One per line, in %(unit)s.") % {"unit": self.unit.symbol}

    def describe(self, reason: str, *, of_entry: bool = False) -> str:
        if of_entry and isinstance(reason, ValidationMessage):
            return describe_in_unit(reason, self.unit)
        return super().describe(reason)

    def reader(self) -> Callable[[str], JSON]:
        assert self.shape.items is not None
        kind, like = self.shape.items.kind, self.original[0] if self.original else MISSING
        known = {self.unit.to_input(value): value for value in reversed(self.original or ())}

        def read(line: str) -> JSON:
            if line in known:
                return known[line]
            try:
                return self.unit.read(line, like=like, kind=kind)
            except ValueError:
                params = {"example": self.unit.example}
                raise ValidationError(self.unit.invalid, params=params) from None

        return read


def describe_in_unit(reason: ValidationMessage, unit: Unit) -> str:
    """Return a validation message as a sentence, with the numbers shown in the unit."""

    def show(limit: Any) -> Any:
        whole = int(limit) if isinstance(limit, float) and limit.is_integer() else limit
        return unit.show(whole) if unit.accepts(whole) else localize(limit, use_l10n=True)

    return reason.sentence(show)
