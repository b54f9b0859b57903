"""Finding text by the beginnings of its words, with an index where the database has one for that.

PostgreSQL has, and is asked in its own terms. Other databases look at one row after the other.
"""

from __future__ import annotations

import re
from typing import Any

from django.db import connections, models
from django.db.models import F, Func, Q, Value
from django.db.models.functions import Concat

#: Words of a search; more of them find nothing that the first ones don't.
MOST = 10

_WORD = re.compile(r"\w+")


class _Words(Func):
    """The words of a text, as they are: in no language, with no endings cut off."""

    template = "to_tsvector('simple', %(expressions)s)"
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
        return Q(*(Q(**{f"{column}__icontains": word}) for word in words))
    # Only letters, digits and underscores are left, so none of them is an operator.
    sought = " & ".join(f"{word}:*" for word in words)
    within = Concat(F(column), Value("")) if common else F(column)
    return Q(_Match(_Words(within), _Sought(Value(sought))))
