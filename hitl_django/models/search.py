"""Finding text by the beginnings of its words, with an index where the database has one for that.

A word is letters and digits without anything between them, wherever it stands: in a tag, an address
or a file's name, too. PostgreSQL has an index of words; SQLite looks at one row after the other.
"""

from __future__ import annotations

import re
from typing import Any

from django.db import connections, models
from django.db.models import Case, F, Func, Q, Value, When

#: Words of a search; more of them find nothing that the first ones don't.
MOST = 10

_WORD = re.compile(r"[^\W_]+")

#: What PostgreSQL makes one word of with what is beside it, such as an address, or skips as a tag.
_JOINTS = "<>&/.:@-+_~=?#"


class _Words(Func):
    """The words of a text, as they are: in no language, with no endings cut off."""

    # Written out, since an index is only found by the very expression that it is made of.
    template = (
        f"to_tsvector('simple', translate(%(expressions)s, '{_JOINTS}', '{' ' * len(_JOINTS)}'))"
    )
    output_field = models.TextField()


class _Sought(Func):
    template = "to_tsquery('simple', %(expressions)s)"
    output_field = models.TextField()


class _Match(Func):
    template = "%(expressions)s"
    arg_joiner = " @@ "
    output_field = models.BooleanField()


class WordIndex(models.Index):
    """An index of the words of a column; on other databases than PostgreSQL there is none."""

    def __init__(self, *expressions: Any, words: str = "", **options: Any) -> None:
        self.words = words
        super().__init__(_Words(F(words)), **options)

    def deconstruct(self) -> Any:
        path, _, options = super().deconstruct()
        return path, (), {**options, "words": self.words}

    def create_sql(self, model: Any, schema_editor: Any, using: str = "", **options: Any) -> Any:
        if schema_editor.connection.vendor != "postgresql":
            return "SELECT 1"  # Django runs whatever it is given, so it gets what does nothing
        return super().create_sql(model, schema_editor, using=" USING gin", **options)

    def remove_sql(self, model: Any, schema_editor: Any, **options: Any) -> Any:
        if schema_editor.connection.vendor != "postgresql":
            return "SELECT 1"
        return super().remove_sql(model, schema_editor, **options)


def has_words(column: str, text: str, using: str, *, common: bool = False) -> Q:
    """Selects the rows whose column has a word for each one in the text that begins with it.

    The index finds few rows fast, and the first of many slowly: it reads all of them, and nothing
    tells the planner how many there are. For words that are known to be ``common`` it is left
    aside; the rows are then looked at in whatever order is asked for.
    """
    words = _WORD.findall(text)[:MOST]
    if not words:
        return Q(pk__in=[])
    if connections[using].vendor != "postgresql":
        return Q(*(_begins(column, word) for word in words))
    # Only letters and digits are left, so none of them is an operator.
    sought = _Sought(Value(" & ".join(f"{word}:*" for word in words)))
    has_all = _Match(_Words(F(column)), sought)
    if not common:
        return Q(has_all)
    # No index is thought of within a case, and half of all rows are expected to have it: so the
    # planner takes those that come first. To look for the letters before it takes the words apart
    # costs a tenth of that.
    letters = Q(*(Q(**{f"{column}__icontains": word}) for word in words))
    return Q(Case(When(letters, then=has_all), default=False))


def _begins(column: str, word: str) -> Q:
    begun = Q(**{f"{column}__iregex": rf"(?<![^\W_]){word}"})
    # SQLite has no expressions of its own and calls Python for each row. It need not for most; but
    # of letters beyond ASCII it knows no capitals.
    return Q(**{f"{column}__icontains": word}) & begun if word.isascii() else begun
