"""Form fields with JSON values: text and numbers.

A field stores its original value. If the submitted text equals the displayed text, the field
returns the original value, with its type and all digits. Only changed texts are parsed.
"""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from hitl_django.json_text.reasons import say
from hitl_django.json_text.secret_values import HIDDEN
from hitl_django.json_text.text_diff import Span, compare_words

from .json_input import (
    escape_hidden,
    format_number,
    from_json,
    is_decimal,
    is_number,
    is_same_text,
    normalize_newlines,
    parse_decimal,
    parse_integer,
    parse_number,
    to_json,
)
from .schema_tree import JSON, MISSING, SchemaNode

LINE = 80
LARGE = "vLargeTextField"
#: The maximum number of characters compared with the original text.
MAX_COMPARED = 20_000


class AnswerField(forms.Field):
    """A form field whose value is a JSON value.

    ``original`` is the initial value, or MISSING. ``wanted`` is true if the response must contain
    the field's key.
    """

    default_error_messages: ClassVar[dict[str, Any]] = {
        "required": _("This field is required."),
        "invalid": _("This is not one of the available choices."),
    }

    def __init__(self, shape: SchemaNode, original: JSON, *, wanted: bool, **kwargs: Any) -> None:
        self.shape, self.original, self.wanted = shape, original, wanted
        #: Set by the form if an optional object was left blank.
        self.left_out = False
        super().__init__(required=False, initial=self.initial_value(), **kwargs)
        self.help_text = self.make_help_text()

    @classmethod
    def fits(cls, shape: SchemaNode, original: JSON) -> bool:
        """Return whether the field can show ``original`` without loss."""
        return original is MISSING or original is None

    def initial_value(self) -> Any:
        """Return the initial value as the widget displays it."""
        return "" if self.original is MISSING or self.original is None else str(self.original)

    def help(self) -> Any:
        """Return help about the input format, for a schema without a description."""
        return ""

    def make_help_text(self) -> str:
        """Return the schema's description, followed by the limits.

        Without a description, return help about the input, followed by the limits.
        """
        limits = [self.describe(limit) for limit in self.shape.limits]
        texts = [escape_hidden(self.shape.description) or self.help(), *limits]
        return " ".join(filter(None, map(str, texts)))

    def describe(self, reason: str, *, of_entry: bool = False) -> str:
        """Return a message about a limit or a fault of the value, for display.

        ``reason`` is the message. A ValidationMessage is translated. If ``of_entry`` is true, the
        message is about an entry of a list.
        """
        return say(reason)

    def is_blank(self, raw: Any) -> bool:
        """Return whether the user has typed or selected nothing."""
        return raw is None or raw in ("", [])

    def may_be_blank(self) -> bool:
        """Return whether an empty input is valid."""
        return self.shape.nullable or not self.wanted

    @property
    def is_needed(self) -> bool:
        """Whether input is required. If so, the page marks the label of the field."""
        return not self.may_be_blank()

    def is_unchanged(self, raw: Any) -> bool:
        """Return whether the submitted value equals the displayed value."""
        return is_same_text(raw, self.initial)

    def format_value(self, raw: Any) -> str:
        """Return the submitted value as text."""
        return "" if raw is None else str(raw)

    def format_original(self, length: int) -> str:
        """Return the original value as text, or an empty string if the text is too long."""
        text = "" if self.original is MISSING else self.format_value(self.initial)
        return escape_hidden(text) if len(text) <= length else ""

    def spans(self, raw: Any) -> list[Span]:
        """Return the differences between the original text and the submitted text, word by word.

        Return an empty list for values other than texts.
        """
        return []

    def clean(self, value: Any) -> Any:
        """Convert the submitted value to a JSON value, or to MISSING.

        Raises:
            ValidationError: the submitted value is invalid.
        """
        if self.left_out:
            return MISSING
        if self.original is not MISSING and self.is_unchanged(value):
            return self.original
        if self.is_blank(value):
            return self.blank_value()
        try:
            return self.parse(value)
        except ValueError:
            raise ValidationError(
                self.error_messages["invalid"],
                params={"example": format_number("12.50")},
                code="invalid",
            ) from None

    def blank_value(self) -> Any:
        """Return the value of an empty input: MISSING (no key), or None if null is allowed.

        Raises:
            ValidationError: input is required.
        """
        if not self.wanted and (self.original is MISSING or not self.shape.nullable):
            return MISSING
        if self.shape.nullable:
            return None
        raise ValidationError(self.error_messages["required"], code="required")

    def parse(self, raw: Any) -> Any:
        """Convert a submitted value, which the user has changed, to a JSON value.

        Raises:
            ValueError: the submitted value is invalid.
        """
        raise NotImplementedError


class TextField(AnswerField):
    """A text field. If the schema allows null, empty input can mean null."""

    def __init__(self, shape: SchemaNode, original: JSON, *, wanted: bool, **kwargs: Any) -> None:
        text = original if isinstance(original, str) else ""
        widget = text_widget(text, long=shape.long)
        if shape.display == "code":
            widget.attrs["class"] += " hitl-code"
        kwargs.setdefault("widget", widget)
        super().__init__(shape, original, wanted=wanted, **kwargs)

    @classmethod
    def fits(cls, shape: SchemaNode, original: JSON) -> bool:
        return isinstance(original, str) or super().fits(shape, original)

    def help(self) -> Any:
        if not self.shape.nullable:
            return ""
        if self.original == "":
            return _("If left empty, an empty string is sent.")
        return _("Leave empty for no value.")

    def may_be_blank(self) -> bool:
        return not self.shape.refuses_empty or super().may_be_blank()

    def blank_value(self) -> Any:
        if self.shape.refuses_empty:
            return super().blank_value()
        if self.original is MISSING and not self.wanted:
            return MISSING
        return None if self.shape.nullable and self.original != "" else ""

    def spans(self, raw: Any) -> list[Span]:
        if not isinstance(raw, str) or not isinstance(self.original, str):
            return []
        old, new = (
            normalize_newlines(self.original)[:MAX_COMPARED],
            normalize_newlines(raw)[:MAX_COMPARED],
        )
        if len(old) <= LINE and "\n" not in old:
            return []
        return [Span(span.kind, escape_hidden(span.text)) for span in compare_words(old, new)]

    def parse(self, raw: str) -> str:
        # Browsers submit all line ends as CR LF. The response uses LF, unless the original text
        # used CR LF.
        crlf = isinstance(self.original, str) and "\r\n" in self.original
        return normalize_newlines(raw).replace("\n", "\r\n") if crlf else normalize_newlines(raw)


class UUIDField(AnswerField):
    """A field for a UUID."""

    widget = forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off"})
    default_error_messages: ClassVar[dict[str, Any]] = {"invalid": _("Enter a valid UUID.")}

    @classmethod
    def fits(cls, shape: SchemaNode, original: JSON) -> bool:
        return isinstance(original, str) or super().fits(shape, original)

    def parse(self, raw: str) -> str:
        return str(UUID(raw.strip()))


class SecretField(AnswerField):
    """A field for a secret, typed in a password input and never displayed.

    ``inner`` is the field that parses the secret. If the input is left empty, the original value
    remains.
    """

    def __init__(self, inner: AnswerField, original: JSON, *, wanted: bool, **kwargs: Any) -> None:
        self.inner = inner
        attrs = {"autocomplete": "new-password", "data-hitl-secret": True}
        if isinstance(inner.widget, forms.Textarea):
            widget: forms.Widget = SecretTextarea(attrs={**inner.widget.attrs, **attrs})
        else:
            widget = forms.PasswordInput(attrs={"class": "vTextField", **attrs})
        super().__init__(inner.shape, original, wanted=wanted, widget=widget, **kwargs)

    @property
    def has_original(self) -> bool:
        """Whether the field has an original value."""
        return self.original is not MISSING and self.original is not None

    def initial_value(self) -> str:
        return ""

    def help(self) -> Any:
        if self.has_original:
            return _("If left empty, the value does not change.")
        return self.inner.help()

    def may_be_blank(self) -> bool:
        return self.has_original or super().may_be_blank()

    def is_unchanged(self, raw: Any) -> bool:
        return self.is_blank(raw)

    def format_value(self, raw: Any) -> str:
        return "" if self.is_blank(raw) else HIDDEN

    def parse(self, raw: str) -> JSON:
        return self.inner.clean(raw)


class SecretTextarea(forms.Textarea):
    """A text area that is always displayed empty."""

    def format_value(self, value: Any) -> str:
        return ""


class IntegerField(AnswerField):
    """A field for an integer."""

    widget = forms.TextInput(attrs={"inputmode": "numeric", "autocomplete": "off"})
    default_error_messages: ClassVar[dict[str, Any]] = {
        "invalid": _("Enter a whole number, for example 12."),
    }

    @classmethod
    def fits(cls, shape: SchemaNode, original: JSON) -> bool:
        return is_number(original) or super().fits(shape, original)

    def initial_value(self) -> str:
        return format_number(self.original) if is_number(self.original) else ""

    def parse(self, raw: str) -> JSON:
        return parse_integer(raw)


class NumberField(IntegerField):
    """A field for a number, integer or not."""

    widget = forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"})
    default_error_messages: ClassVar[dict[str, Any]] = {
        "invalid": _("Enter a number, for example %(example)s."),
    }

    def parse(self, raw: str) -> JSON:
        return parse_number(raw, like=self.original)


class DecimalField(NumberField):
    """A field for an exact decimal, which is a string or a number in JSON."""

    @classmethod
    def fits(cls, shape: SchemaNode, original: JSON) -> bool:
        return is_decimal(original) or super().fits(shape, original)

    def initial_value(self) -> str:
        if isinstance(self.original, str):
            return format_number(self.original)
        return super().initial_value()

    def parse(self, raw: str) -> JSON:
        return parse_decimal(raw, like=self.original, spelling=self.shape.spelling)


class JSONField(AnswerField):
    """A field for any JSON value, edited as JSON text."""

    def __init__(self, shape: SchemaNode, original: JSON, *, wanted: bool, **kwargs: Any) -> None:
        lines = 1 if original is MISSING else to_json(original, indent=2).count("\n") + 1
        attrs = {"rows": min(max(lines, 2), 24), "class": f"{LARGE} hitl-code"}
        kwargs.setdefault("widget", forms.Textarea(attrs={**attrs, "spellcheck": "false"}))
        super().__init__(shape, original, wanted=wanted, **kwargs)

    @classmethod
    def fits(cls, shape: SchemaNode, original: JSON) -> bool:
        return True

    def initial_value(self) -> str:
        return "" if self.original is MISSING else to_json(self.original, indent=2)

    def help(self) -> Any:
        if self.shape.takes_text:
            return _(
                "Enter text or JSON. Input that is valid JSON, for example 12, true "
                'or "12", is read as JSON.'
            )
        return _(
            'Enter JSON: strings in double quotes, for example "yes"; numbers, '
            "true, false and null without quotes."
        )

    def is_blank(self, raw: Any) -> bool:
        return not (raw or "").strip()

    def parse(self, raw: str) -> JSON:
        try:
            return from_json(raw)
        except ValueError as error:
            if self.shape.takes_text and raw.lstrip()[:1] not in ("{", "[", '"'):
                return normalize_newlines(raw)
            message = _("Enter valid JSON: %(error)s.") % {"error": error}
            raise ValidationError(message, code="invalid") from None


class ConstField(AnswerField):
    """A read-only field for a constant value."""

    widget = forms.TextInput(attrs={"readonly": True})

    @classmethod
    def fits(cls, shape: SchemaNode, original: JSON) -> bool:
        return True

    def value(self) -> JSON:
        return self.shape.options[0] if self.original is MISSING else self.original

    def initial_value(self) -> str:
        value = self.value()
        return value if isinstance(value, str) else to_json(value)

    def may_be_blank(self) -> bool:
        return True

    def is_unchanged(self, raw: Any) -> bool:
        return True

    def clean(self, value: Any) -> JSON:
        # The submitted value is ignored, because a user can change read-only inputs in the browser.
        if self.left_out or (self.original is MISSING and not self.wanted):
            return MISSING
        return self.value()


def text_widget(text: str, *, long: bool = False) -> forms.Widget:
    """Return an input or a text area that fits the text."""
    lines = sum(1 + len(line) // LINE for line in normalize_newlines(text).split("\n"))
    if lines == 1 and not long:
        return forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off"})
    return forms.Textarea(attrs={"class": LARGE, "rows": min(max(lines + 1, 3), 24)})
