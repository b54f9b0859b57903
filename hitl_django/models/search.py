"""Finding questions by letters within the words of what they ask and of what they are about.

A question is stored with its *search text*: its words in lower case, a space before each. Beside it
PostgreSQL has an index of their *grams*: each three letters that follow one another within a word,
and the first one and two of a word. SQLite looks at one row after the other.

A word is letters and digits without anything between them, wherever it stands: in a tag, an address
or a file's name, too. One or two letters are looked for where words begin, more of them anywhere.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from django.db import connections, models
from django.db.models import Case, F, Func, Q, Value, When

#: Words of a search; more of them find nothing that the first ones don't.
MOST = 10
#: Characters of a question that can be found.
LENGTH = 2000
GRAM = 3

_WORD = re.compile(r"[^\W_]+")


def build_search_text(*values: Any) -> str:
    """Return the search text of texts and of JSON values, whose keys aren't part of it."""
    found: list[str] = []
    left = LENGTH
    for text in _list_texts(values):
        words = _list_words(text[:left])
        found += words
        left -= sum(map(len, words)) + len(words)
        if left <= 0:
            break
    return "".join(f" {word}" for word in found)[:LENGTH]


def build_grams(text: str) -> str:
    """Return the grams of a search text, a space between them."""
    found: set[str] = set()
    for word in text.split():
        found.update(_list_grams(word), (f"^{word[:1]}", f"^{word[:2]}"))
    return " ".join(sorted(found))


def _list_grams(word: str) -> Iterator[str]:
    return (word[at : at + GRAM] for at in range(len(word) - GRAM + 1))


def _list_words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _list_texts(values: Any) -> Iterator[str]:
    """Yield the texts and numbers of JSON values in their order."""
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
    """The grams of a column as an array."""

    # Written out, since an index is only found by the very expression that it is made of.
    template = "string_to_array(%(expressions)s, ' ')"
    output_field = models.TextField()


class _HasAll(Func):
    template = "%(expressions)s"
    arg_joiner = " @> "
    output_field = models.BooleanField()


class _PostgreSQLIndex(models.Index):
    """An inverted index of what an expression makes of a column; elsewhere there is none."""

    def create_sql(self, model: Any, schema_editor: Any, using: str = "", **options: Any) -> Any:
        if schema_editor.connection.vendor != "postgresql":
            return "SELECT 1"  # Django runs whatever it is given, so it gets what does nothing
        return super().create_sql(model, schema_editor, using=" USING gin", **options)

    def remove_sql(self, model: Any, schema_editor: Any, **options: Any) -> Any:
        if schema_editor.connection.vendor != "postgresql":
            return "SELECT 1"
        return super().remove_sql(model, schema_editor, **options)


class GramIndex(_PostgreSQLIndex):
    """The index of a column of grams."""

    def __init__(self, *expressions: Any, grams: str = "", **options: Any) -> None:
        self.grams = grams
        super().__init__(_Grams(F(grams)), **options)

    def deconstruct(self) -> Any:
        path, _, options = super().deconstruct()
        return path, (), {**options, "grams": self.grams}


def has_index(using: str) -> bool:
    """Return whether a database has an index of grams."""
    return connections[using].vendor == "postgresql"


def index_text(text: str | None, using: str) -> str | None:
    """Return the grams of a search text, where the database has an index of them."""
    return build_grams(text) if text and has_index(using) else None


def has_words(text: str, using: str, *, common: bool = False, through: str = "") -> Q:
    """Select the questions whose search text has every word of a text.

    The index finds few rows fast, and the first of many slowly: it reads all of them, and nothing
    tells the planner how many there are. For words that are known to be ``common`` it is left
    aside; the rows are then looked at in whatever order is asked for. ``through`` leads from other
    rows to their questions, as in a lookup.
    """
    words = _list_words(text)[:MOST]
    if not words:
        return Q(pk__in=[])
    has_all = Q(*(Q((f"{through}search_text__contains", _sought(word))) for word in words))
    if has_index(using) and not common:
        # A gram of each word may be another word's, so what the index finds is looked at again.
        grams = _build_sought_grams(words)
        return Q(_HasAll(_Grams(F(f"{through}search_grams")), _Grams(Value(grams)))) & has_all
    if not has_index(using):
        return has_all
    # No index is thought of within a case, and half of all rows are expected to have it: so the
    # planner takes those that come first.
    return Q(Case(When(has_all, then=True), default=False))


def _build_sought_grams(words: list[str]) -> str:
    """Return the grams that a search text with these words has."""
    found: set[str] = set()
    for word in words:
        found.update(_list_grams(word) if len(word) >= GRAM else (f"^{word}",))
    return " ".join(sorted(found))


def _sought(word: str) -> str:
    return word if len(word) >= GRAM else f" {word}"
