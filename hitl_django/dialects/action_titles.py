"""Titles of requested actions, such as "Issue refund: order A-7, 49.90 EUR".

Names and arguments come from language models. Titles contain only short arguments, on one line.
Arguments are omitted if their schema or their name shows that they are secret.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from hitl_django.json_text.currencies import convert_minor_units
from hitl_django.json_text.sanitize import shorten
from hitl_django.json_text.secret_values import HIDDEN, mask_secrets

from .dialect import RequestedAction

#: Maximum number of characters of a title and of an action's name.
TITLE_LENGTH, NAME_LENGTH = 120, 60
#: Maximum number of arguments in a title, and of characters of each.
MAX_ARGUMENTS, ARGUMENT_LENGTH = 3, 40
#: Largest integer that is shown. Python doesn't convert integers of any size to text.
LARGEST_NUMBER = 10**ARGUMENT_LENGTH
#: Maximum number of different names in the title of several actions.
MAX_NAMES = 4

#: Words in the names of arguments, in the order in which arguments are chosen for a title.
_IDENTIFIERS = frozenset({
    "account", "code", "customer", "id", "invoice", "key", "number", "order", "reference", "sku",
    "ticket", "user",
})  # fmt: skip
_NAMES = frozenset({
    "address", "email", "file", "name", "path", "recipient", "subject", "title", "to", "url",
    "username",
})  # fmt: skip
_AMOUNTS = frozenset({"amount", "cents", "cost", "price", "sum", "total"})
#: Words in the names of texts, which are too long for a title.
_TEXTS = frozenset({
    "body", "comment", "content", "description", "message", "note", "prompt", "reason", "text",
})  # fmt: skip
#: Names of arguments whose values need no label.
_SELF_EXPLANATORY = frozenset({
    "email", "name", "query", "question", "recipient", "subject", "title", "to", "url",
})  # fmt: skip
_SECRET = re.compile(
    r"password|passphrase|passwd|secret|token|credential|authorization|"
    r"(?:^| )(?:api key|access key|private key|card number|cvc|cvv|iban|pin)(?: |$)"
)
_CURRENCY = re.compile("[A-Z]{3}")
_SEPARATORS = re.compile(r"[\s_./:-]+")
_CAMEL_CASE = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
#: Names of nodes that LangChain creates for the hooks of a middleware.
_MIDDLEWARE_NODE = re.compile(r"[\w.]+\.(?:before|after)_(?:agent|model)")


class _Argument(NamedTuple):
    words: tuple[str, ...]
    value: Any
    text: str

    def is_one_of(self, words: frozenset[str]) -> bool:
        return not words.isdisjoint(self.words)


def humanise_name(name: str) -> str:
    """Return the name of a tool as words: "issue_refund" and "issueRefund" as "Issue refund"."""
    line = " ".join(name.split())
    if " " not in line:
        words = _split_words(line) or (line,)
        line = " ".join(words)
    return shorten(line[:1].upper() + line[1:], NAME_LENGTH)


def is_middleware_node(node: str) -> bool:
    """Return whether a node was created for a hook of an agent's middleware."""
    return _MIDDLEWARE_NODE.fullmatch(node) is not None


def describe_actions(
    actions: Sequence[RequestedAction],
    schema: Mapping[str, Any] | None = None,
    currencies: Mapping[str, str] | None = None,
) -> str:
    """Return the title of one or several actions.

    If there is only one action, ``schema`` is the schema of its arguments. ``currencies`` maps the
    names of arguments to currencies: the values of these arguments are amounts of money in the
    minor unit, such as cents.
    """
    if len(actions) == 1:
        return describe_action(actions[0], schema, currencies)
    counts = Counter(humanise_name(action.name) for action in actions)
    names = [name if n == 1 or len(counts) == 1 else f"{name} ({n})" for name, n in counts.items()]
    more = ["\N{HORIZONTAL ELLIPSIS}"] if len(names) > MAX_NAMES else []
    title = f"{len(actions)} tool calls: {', '.join([*names[:MAX_NAMES], *more])}"
    return shorten(title, TITLE_LENGTH)


def describe_action(
    action: RequestedAction,
    schema: Mapping[str, Any] | None = None,
    currencies: Mapping[str, str] | None = None,
) -> str:
    """Return the title of an action: its name as words, and the arguments that identify it.

    The optional arguments are those of ``describe_actions``.
    """
    name = humanise_name(action.name)
    arguments = mask_secrets(schema or action.schema, action.args)
    if not isinstance(arguments, dict):  # The schema declares all arguments secret.
        return name
    chosen = list(_choose_arguments(arguments, currencies or {}))
    return shorten(f"{name}: {', '.join(chosen)}" if chosen else name, TITLE_LENGTH)


def format_argument(name: str, value: Any, currencies: Mapping[str, str]) -> str:
    """Return an argument as text on one line, for a title that a review policy defines.

    ``currencies`` is as for ``describe_actions``.
    """
    if isinstance(value, dict | list):
        return shorten(json.dumps(value, ensure_ascii=False), ARGUMENT_LENGTH)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return " ".join(value.split())
    return _format_scalar(name, value, currencies)


def _choose_arguments(arguments: Mapping[str, Any], currencies: Mapping[str, str]) -> Iterator[str]:
    found = [
        _Argument(_split_words(name), value, text)
        for name, value in arguments.items()
        if (text := _format_scalar(name, value, currencies)) and not _is_secret(name)
    ]
    currency = next(
        (one for one in found if "currency" in one.words and _CURRENCY.fullmatch(one.text)), None
    )
    short = [
        one
        for one in found
        if one is not currency and len(one.text) <= ARGUMENT_LENGTH and not one.is_one_of(_TEXTS)
    ]
    if not short:
        long = [one.text for one in found if one is not currency and isinstance(one.value, str)]
        yield from (shorten(text, ARGUMENT_LENGTH) for text in long[:1])
        return
    for one in sorted(short, key=_rank)[:MAX_ARGUMENTS]:
        yield _label(one, "" if currency is None else currency.text)


def _rank(argument: _Argument) -> int:
    for rank, words in enumerate((_IDENTIFIERS, _NAMES, _AMOUNTS)):
        if argument.is_one_of(words):
            return rank
    return len((_IDENTIFIERS, _NAMES, _AMOUNTS))


def _label(argument: _Argument, currency: str) -> str:
    """Return an argument as text, with its name unless the text alone is clear."""
    has_currency = _CURRENCY.fullmatch(argument.text.rpartition(" ")[2])
    if argument.is_one_of(_AMOUNTS):
        if currency and not has_currency:
            return f"{argument.text} {currency}"
        if has_currency:
            return argument.text
    if has_currency and not isinstance(argument.value, str):
        return argument.text
    words = argument.words
    if words[-1:] in (("id",), ("number",)) and len(words) > 1:
        words = words[:-1]  # "order A-7" for "order_id"
    elif words[-1:] == ("cents",):
        words = words[:-1] or ("amount",)
    if not words or (len(words) == 1 and words[0] in _SELF_EXPLANATORY):
        return argument.text
    return f"{' '.join(words)} {argument.text}"


def _format_scalar(name: str, value: Any, currencies: Mapping[str, str]) -> str:
    """Return a string or number as text on one line, or "" for other values."""
    if isinstance(value, str):
        return "" if value == HIDDEN else " ".join(value.split())
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return ""
    words = _split_words(name)
    if isinstance(value, int):
        if abs(value) > LARGEST_NUMBER:
            return ""
        if name in currencies:
            amount = convert_minor_units(value, currencies[name])
            return f"{amount:f} {currencies[name]}".strip()
        return f"{convert_minor_units(value, ''):f}" if words[-1:] == ("cents",) else str(value)
    is_amount = not _AMOUNTS.isdisjoint(words)
    return f"{value:.2f}" if is_amount and round(value, 2) == value else str(value)


def _is_secret(name: str) -> bool:
    return _SECRET.search(" ".join(_split_words(name))) is not None


def _split_words(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case. Abbreviations such as SQL keep their case."""
    words = filter(None, _SEPARATORS.split(_CAMEL_CASE.sub(" ", name)))
    keeps = not name.isupper()
    return tuple(
        word if keeps and len(word) > 1 and word.isupper() else word.lower() for word in words
    )
