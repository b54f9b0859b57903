"""Reading and writing of decimals in the reader's language, without rounding.

Decimals are texts such as ``-1234.50`` here, so that no digit of a large number is lost.
"""

from __future__ import annotations

import re

from django.core.exceptions import ValidationError
from django.utils.formats import get_format, number_format

from hitl_django.json_text.strict_json import MAX_INTEGER_DIGITS

from .json_input import AMBIGUOUS, get_decimal_separator, too_much

#: Separators of groups of digits, besides the point and the comma. Each is read as an underscore.
_SPACES = dict.fromkeys(map(ord, " '’\u00a0\u2009\u202f"), "_")
_AMOUNT = re.compile(r"[+-]?(\d[\d_.,]*)?\d|[+-]?[.,]\d+", re.ASCII)
_GROUPED = re.compile(r"\d{1,3}(_\d{3})+", re.ASCII)
#: India groups the digits above the thousands in pairs.
_GROUPED_IN_PAIRS = re.compile(r"\d{1,3}(_\d{2})*_\d{3}", re.ASCII)


def show_decimal(text: str, decimal_places: int | None = None) -> str:
    """Format a decimal with the separators of the current language.

    ``decimal_places`` is the number of decimal places to show. None keeps all decimal places.
    """
    return str(number_format(text, decimal_places, force_grouping=True))


def read_decimal(text: str, decimal_places: int | None = None) -> str:
    """Parse a typed or pasted decimal. The result has a decimal point and no digit groups.

    A point or a comma in the text can be a decimal separator or separate groups of digits. If both
    meanings are possible, the number is ambiguous.

    Raises:
        ValueError: the text isn't a number, or has more decimal places than ``decimal_places``.
        ValidationError: the number is ambiguous or has too many digits.
    """
    text = text.strip()
    if len(text) > 2 * MAX_INTEGER_DIGITS:
        raise too_much("integer_too_long")
    plain = text.replace("\N{MINUS SIGN}", "-").translate(_SPACES)
    if "_" in text or not _AMOUNT.fullmatch(plain):
        raise ValueError(text)
    sign = "-" if plain.startswith("-") else ""
    whole, fraction = _split(plain.lstrip("+-"), decimal_places, text)
    if decimal_places is not None:
        if fraction[decimal_places:].strip("0"):
            raise ValueError(text)
        fraction = fraction[:decimal_places]
    if len(whole) + (decimal_places or 0) > MAX_INTEGER_DIGITS:
        raise too_much("integer_too_long")
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"


def _split(number: str, places: int | None, text: str) -> tuple[str, str]:
    """Return the digits before and after the decimal separator of a typed number.

    ``places`` is the number of decimal places, if known. ``text`` is the typed text, for errors.
    """
    marks = [char for char in number if char in ".,"]
    if not marks:
        return _join_groups(number), ""
    mark = marks[-1]
    before, _mark, after = number.rpartition(mark)
    if len(set(marks)) == 2:
        # The last separator is the decimal separator, so the other one separates groups.
        return _join_groups(before.replace("." if mark == "," else ",", "_")), _digits(after)
    if len(marks) > 1:
        return _join_groups(number.replace(mark, "_")), ""
    whole, fraction = _join_groups(before) if before else "0", _digits(after)
    looks_grouped = len(fraction) == 3 and bool(re.fullmatch("[1-9][0-9]{0,2}", before))
    if mark == get_decimal_separator():
        if looks_grouped and places is not None and places < 3:
            raise ValueError(text)  # This may be a thousands separator of another language.
        return whole, fraction
    if not looks_grouped:
        return whole, fraction
    if places is None or places >= 3:
        either = {"whole": before + after, "decimal": f"{before}{get_decimal_separator()}{after}"}
        raise ValidationError(AMBIGUOUS, params={"text": text, **either}, code="invalid")
    if mark != get_format("THOUSAND_SEPARATOR"):
        raise ValueError(text)
    return before + after, ""


def _join_groups(number: str) -> str:
    """Return the digits of a whole number without the separators of digit groups.

    Raises:
        ValueError: the separators don't form groups of three digits.
    """
    if "_" not in number:
        return _digits(number)
    in_pairs = not isinstance(get_format("NUMBER_GROUPING"), int)
    if not (_GROUPED_IN_PAIRS if in_pairs else _GROUPED).fullmatch(number):
        raise ValueError(number)
    return number.replace("_", "")


def _digits(text: str) -> str:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(text)
    return text
