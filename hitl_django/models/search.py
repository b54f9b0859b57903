"""Search for interrupts by parts of words in the payload and related data.

The search text of an interrupt contains the words of this data in lower case, each after a space.
On PostgreSQL, an index contains the grams of the search text, i.e. all sequences of three letters
within a word, and the first letter and the first two letters of each word. On SQLite, a search
reads the rows one after another.

A word consists of letters and digits. Addresses and file names are split into words. A search term
of one or two letters matches the beginning of a word. A longer term matches any part of a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from django.db import connections, models
from django.db.models import Case, F, Func, Q, Value, When

#: Maximum number of words in a search. Further words are ignored.
MOST = 10
#: Maximum length of a search text. The text after this length isn't searched.
LENGTH = 2000
GRAM = 3

_WORD = re.compile(r"[^\W_]+")


def build_search_text(*values: Any) -> str:
    """Return the search text for strings and JSON values.

    Keys of JSON objects are not included.
    """
    found = ""
    for text in _list_texts(values):
        if words := _list_words(text[: LENGTH - len(found)]):
            found = f"{found} {' '.join(words)}"
            if len(found) >= LENGTH:
                break
    return found[:LENGTH]


def build_grams(text: str) -> str:
    """Return the grams of a search text, separated by spaces.

    Grams are the parts of words by which the index finds a search text.
    """
    found: set[str] = set()
    for word in text.split():
        found.update(_list_grams(word), (f"^{word[:1]}", f"^{word[:2]}"))
    return " ".join(sorted(found))


def _list_grams(word: str) -> Iterator[str]:
    return (word[at : at + GRAM] for at in range(len(word) - GRAM + 1))


def _list_words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _list_texts(values: Any) -> Iterator[str]:
    """Yield the strings and numbers in JSON values, in their order."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from _list_texts(value.values())
        elif isinstance(value, list | tuple):
            yield from _list_texts(value)
        elif value is not None and not isinstance(value, bool):
            yield str(value)


class _Grams(Func):
    """A database function that returns the grams in a column as an array."""

    # PostgreSQL uses the index only for exactly the same expression.
    template = "string_to_array(%(expressions)s, ' ')"
    output_field = models.TextField()


class _HasAll(Func):
    template = "%(expressions)s"
    arg_joiner = " @> "
    output_field = models.BooleanField()


class _PostgreSQLIndex(models.Index):
    """An inverted index on an expression.

    The index is created on PostgreSQL only.
    """

    def create_sql(self, model: Any, schema_editor: Any, using: str = "", **options: Any) -> Any:
        if schema_editor.connection.vendor != "postgresql":
            # Django executes the returned statement, so return a statement without effect.
            return "SELECT 1"
        return super().create_sql(model, schema_editor, using=" USING gin", **options)

    def remove_sql(self, model: Any, schema_editor: Any, **options: Any) -> Any:
        if schema_editor.connection.vendor != "postgresql":
            return "SELECT 1"
        return super().remove_sql(model, schema_editor, **options)


class GramIndex(_PostgreSQLIndex):
    """The inverted index on a column with the grams of search texts (see ``build_grams``)."""

    def __init__(self, *expressions: Any, grams: str = "", **options: Any) -> None:
        self.grams = grams
        super().__init__(_Grams(F(grams)), **options)

    def deconstruct(self) -> Any:
        path, _, options = super().deconstruct()
        return path, (), {**options, "grams": self.grams}


def has_index(using: str) -> bool:
    """Return whether the database has an index of grams, i.e. is PostgreSQL."""
    return connections[using].vendor == "postgresql"


def index_text(text: str | None, using: str) -> str | None:
    """Return the grams of a search text, or None if the database has no index of grams."""
    return build_grams(text) if text and has_index(using) else None


def has_words(text: str, using: str, *, common: bool = False, through: str = "") -> Q:
    """Return a condition: the interrupt's search text contains every word of ``text``.

    The index of grams is fast if few rows match. If many rows match, this index is slow, because
    all matching rows are read. If many matches are expected, pass ``common``: the query then
    doesn't use the index and reads the rows in the requested order. If the query is for
    another model, ``through`` is the lookup from that model to interrupts, such as
    ``interrupt__``.
    """
    words = _list_words(text)[:MOST]
    if not words:
        return Q(pk__in=[])
    has_all = Q(*(Q((f"{through}search_text__contains", _build_needle(word))) for word in words))
    if has_index(using) and not common:
        # Check the matches of the index again, because a gram can be part of another word.
        grams = _build_sought_grams(words)
        return Q(_HasAll(_Grams(F(f"{through}search_grams")), _Grams(Value(grams)))) & has_all
    if not has_index(using):
        return has_all
    # For a condition inside CASE, the query planner uses no index and expects half of all rows to
    # match. It then reads the rows in the requested order.
    return Q(Case(When(has_all, then=True), default=False))


def _build_sought_grams(words: list[str]) -> str:
    """Return the grams that a search text must contain in order to contain these words."""
    found: set[str] = set()
    for word in words:
        found.update(_list_grams(word) if len(word) >= GRAM else (f"^{word}",))
    return " ".join(sorted(found))


def _build_needle(word: str) -> str:
    return word if len(word) >= GRAM else f" {word}"
