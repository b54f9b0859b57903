"""Validation messages and descriptions of limits, as translatable text.

A message is an English text for the API, and can be translated for display.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from typing import Any

from django.utils.formats import localize
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy, override

#: The maximum number of characters of a value quoted in a message.
QUOTED = 80
#: The parameters of messages that are values of a number's own kind.
NUMBER_LIMITS = frozenset({"least", "most", "step"})


class ValidationMessage(str):
    """A validation message in English that can be translated to the current language."""

    words: Any
    params: dict[str, Any]

    @classmethod
    def make(cls, words: Any, **params: Any) -> ValidationMessage:
        """Return the message for a translatable template and its parameters."""
        params = {name: _drop_zero_decimals(value) for name, value in params.items()}
        with override(None):
            made = cls(words % params)
        made.words, made.params = words, params
        return made

    def sentence(self, show_number: Callable[[Any], str] | None = None) -> str:
        """Return the message as a sentence in the current language.

        ``show_number`` formats the limits of a number, for example as amounts of money.
        """
        shown = {name: _localized(value) for name, value in self.params.items()}
        if show_number is not None:
            limits = self.params.keys() & NUMBER_LIMITS
            shown |= {name: show_number(self.params[name]) for name in limits}
        return f"{capfirst(str(self.words % shown)).removesuffix('.')}."


def say(reason: str) -> str:
    """Return the translation of a reason, or the reason itself if there is no translation."""
    return reason.sentence() if isinstance(reason, ValidationMessage) else reason


def explain(keyword: str, rule: Any, value: Any, schema: Any) -> ValidationMessage | None:
    """Return the message for a value that violates a keyword of a schema.

    ``rule`` is the value of the keyword in the schema. Return None if the keyword has no message.
    """
    explain_keyword = _FAULTS.get(keyword)
    return None if explain_keyword is None else explain_keyword(rule, value, schema)


def describe_limits(schema: dict[str, Any]) -> list[ValidationMessage]:
    """Return the limits in a schema as messages, to help people enter a value."""
    found = [
        _within(schema, _BETWEEN, "minimum", "maximum"),
        _more_than(schema),
        _within(schema, _LENGTH, "minLength", "maxLength"),
        _within(schema, _ENTRIES, "minItems", "maxItems"),
    ]
    if _is_number(step := schema.get("multipleOf")) and step != 1:
        found.append(ValidationMessage.make(_("in increments of %(step)s"), step=step))
    if schema.get("uniqueItems") is True and "enum" not in (schema.get("items") or ()):
        found.append(ValidationMessage.make(_("no duplicates")))
    if example := EXAMPLES.get(str(schema.get("format", ""))):
        found.append(ValidationMessage.make(_("for example %(example)s"), example=example))
    return [limit for limit in found if limit is not None]


#: Examples of text formats. Formats that have their own form field have no example.
EXAMPLES = {
    "duration": "P3DT4H",
    "email": "dana@example.com",
    "hostname": "www.example.com",
    "idn-email": "dana@example.com",
    "idn-hostname": "www.example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "iri": "https://example.com/page",
    "uri": "https://example.com/page",
    "uuid": "8f14e45f-ceea-467f-a0e6-1d6c1a5d0f3b",
}

_FORMATS = {
    "date": _("must be a date as YYYY-MM-DD, for example 2026-01-31"),
    "date-time": _("must be a date and time, for example 2026-01-31T14:30:00"),
    "date-time-local": _(
        "must be a day and a time without a time zone, such as 2026-01-31T14:30:00"
    ),
    "duration": _("must be an ISO 8601 duration, for example P3DT4H"),
    "email": _("must be an email address, for example dana@example.com"),
    "hostname": _("must be a host name, for example www.example.com"),
    "idn-email": _("must be an email address, for example dana@example.com"),
    "idn-hostname": _("must be a host name, for example www.example.com"),
    "ipv4": _("must be an IPv4 address, for example 192.0.2.1"),
    "ipv6": _("must be an IPv6 address, for example 2001:db8::1"),
    "iri": _("must be a URL, for example https://example.com/page"),
    "time": _("must be a time as HH:MM, for example 14:30"),
    "uri": _("must be a URL, for example https://example.com/page"),
    "uuid": _("must be a UUID, for example 8f14e45f-ceea-467f-a0e6-1d6c1a5d0f3b"),
}
_TYPES = {
    "array": _("must be a list"),
    "boolean": _("must be true or false"),
    "integer": _("must be an integer"),
    "null": _("must be null"),
    "number": _("must be a number"),
    "object": _("must be an object"),
    "string": _("must be a string"),
}

#: The text for both limits, for the lower limit only, and for the upper limit only.
_BETWEEN = (
    _("between %(least)s and %(most)s"),
    _("at least %(least)s"),
    _("at most %(most)s"),
)
_LENGTH = (
    _("between %(least)s and %(most)s characters"),
    ngettext_lazy("at least %(least)s character", "at least %(least)s characters", "least"),
    ngettext_lazy("at most %(most)s character", "at most %(most)s characters", "most"),
)
_ENTRIES = (
    _("between %(least)s and %(most)s items"),
    ngettext_lazy("at least %(least)s item", "at least %(least)s items", "least"),
    ngettext_lazy("at most %(most)s item", "at most %(most)s items", "most"),
)
_MUST_BETWEEN = (
    _("must be between %(least)s and %(most)s"),
    _("must be at least %(least)s"),
    _("must be at most %(most)s"),
)
_MUST_LENGTH = (
    _("must have between %(least)s and %(most)s characters, but has %(found)s"),
    ngettext_lazy(
        "must have at least %(least)s character, but has %(found)s",
        "must have at least %(least)s characters, but has %(found)s",
        "least",
    ),
    ngettext_lazy(
        "must have at most %(most)s character, but has %(found)s",
        "must have at most %(most)s characters, but has %(found)s",
        "most",
    ),
)
_MUST_ENTRIES = (
    _("must have between %(least)s and %(most)s items, but has %(found)s"),
    ngettext_lazy(
        "must have at least %(least)s item, but has %(found)s",
        "must have at least %(least)s items, but has %(found)s",
        "least",
    ),
    ngettext_lazy(
        "must have at most %(most)s item, but has %(found)s",
        "must have at most %(most)s items, but has %(found)s",
        "most",
    ),
)


def _within(
    schema: Any, words: tuple[Any, Any, Any], low: str, high: str, **params: Any
) -> ValidationMessage | None:
    least, most = schema.get(low), schema.get(high)
    has_least, has_most = _is_number(least), _is_number(most)
    if low != "minimum" and least in (0, 1) and has_least and not params:
        # A minimum of 1 makes the value required, which the form already marks.
        has_least = False
    if has_least and has_most:
        return ValidationMessage.make(words[0], least=least, most=most, **params)
    if has_least:
        return ValidationMessage.make(words[1], least=least, **params)
    return ValidationMessage.make(words[2], most=most, **params) if has_most else None


def _more_than(schema: Any) -> ValidationMessage | None:
    least, most = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if _is_number(least) and _is_number(most):
        return ValidationMessage.make(
            _("more than %(least)s and less than %(most)s"), least=least, most=most
        )
    if _is_number(least):
        return ValidationMessage.make(_("more than %(least)s"), least=least)
    return ValidationMessage.make(_("less than %(most)s"), most=most) if _is_number(most) else None


def _range(
    words: tuple[Any, Any, Any], low: str, high: str
) -> Callable[..., ValidationMessage | None]:
    def explain_range(rule: Any, value: Any, schema: Any) -> ValidationMessage | None:
        found = {"found": len(value)} if isinstance(value, str | list) else {"found": ""}
        return _within(schema, words, low, high, **found)

    return explain_range


def _explain_type(rule: Any, value: Any, schema: Any) -> ValidationMessage | None:
    kinds = [rule] if isinstance(rule, str) else rule
    real = [kind for kind in kinds if kind != "null"] or kinds
    if len(real) == 1 and real[0] in _TYPES:
        return ValidationMessage.make(_TYPES[real[0]])
    return ValidationMessage.make(
        _("must be one of these types: %(kinds)s"), kinds=", ".join(map(str, kinds))
    )


def _explain_format(rule: Any, value: Any, schema: Any) -> ValidationMessage | None:
    if rule in _FORMATS:
        return ValidationMessage.make(_FORMATS[rule])
    return ValidationMessage.make(_("must be in %(format)s format"), format=rule)


def _explain_additional(rule: Any, value: Any, schema: Any) -> ValidationMessage | None:
    known = schema.get("properties", {})
    names = [name for name in value if name not in known]
    return ValidationMessage.make(_("has unexpected keys: %(names)s"), names=_list(names))


#: Maps a violated keyword to a function that returns the message for the keyword's value, the
#: instance and the schema.
_FAULTS: dict[str, Callable[[Any, Any, Any], ValidationMessage | None]] = {
    "additionalProperties": _explain_additional,
    "anyOf": lambda rule, value, schema: ValidationMessage.make(
        _("does not match any allowed schema")
    ),
    "const": lambda rule, value, schema: ValidationMessage.make(
        _("must be %(value)s"), value=_quote(rule)
    ),
    "enum": lambda rule, value, schema: ValidationMessage.make(
        _("must be one of: %(values)s"), values=_list(rule)
    ),
    "exclusiveMaximum": lambda rule, value, schema: ValidationMessage.make(
        _("must be less than %(most)s"), most=rule
    ),
    "exclusiveMinimum": lambda rule, value, schema: ValidationMessage.make(
        _("must be more than %(least)s"), least=rule
    ),
    "format": _explain_format,
    "maxItems": _range(_MUST_ENTRIES, "minItems", "maxItems"),
    "maxLength": _range(_MUST_LENGTH, "minLength", "maxLength"),
    "maximum": _range(_MUST_BETWEEN, "minimum", "maximum"),
    "minItems": _range(_MUST_ENTRIES, "minItems", "maxItems"),
    "minLength": _range(_MUST_LENGTH, "minLength", "maxLength"),
    "minimum": _range(_MUST_BETWEEN, "minimum", "maximum"),
    "multipleOf": lambda rule, value, schema: ValidationMessage.make(
        _("must be a multiple of %(step)s"), step=rule
    ),
    "oneOf": lambda rule, value, schema: ValidationMessage.make(
        _("does not match any allowed schema")
    ),
    "pattern": lambda rule, value, schema: ValidationMessage.make(
        _("doesn’t match the pattern %(pattern)s"), pattern=_shorten(str(rule))
    ),
    "required": lambda rule, value, schema: ValidationMessage.make(_("is required")),
    "type": _explain_type,
    "uniqueItems": lambda rule, value, schema: ValidationMessage.make(_("contains duplicates")),
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _drop_zero_decimals(value: Any) -> Any:
    """Return a float without a fraction as an integer. Other values are returned unchanged.

    In some schemas, pydantic writes a limit of 0 as 0.0.
    """
    is_short = isinstance(value, float) and abs(value) < 10**15 and value.is_integer()
    return int(value) if is_short else value


def _localized(value: Any) -> Any:
    return localize(value, use_l10n=True) if isinstance(value, float) else value


def _list(values: Any) -> str:
    return _shorten(", ".join(map(_quote, islice(values, QUOTED))))


def _quote(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _shorten(text)


def _shorten(text: str) -> str:
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}…"
