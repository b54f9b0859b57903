"""Query condition: the JSON object in a text column contains another JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from django.db.models import BooleanField, F, Func

Sql = tuple[str, tuple[Any, ...]]


class JSONContains(Func):
    """The condition that the JSON object in a column contains the object ``wanted``.

    It's like PostgreSQL's ``@>``: at every level, the column's object may have more members, and
    list items may be in any order. 7 equals 7.0.
    """

    output_field = BooleanField()

    def __init__(self, column: str, wanted: Mapping[str, Any]) -> None:
        super().__init__(F(column))
        self.wanted = wanted

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        column, params = compiler.compile(self.source_expressions[0])
        return f"({column}::jsonb @> %s::jsonb)", (*params, json.dumps(self.wanted))

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        column, params = compiler.compile(self.source_expressions[0])
        assert not params
        return _join(_match_members(column, self.wanted, 0))


def _match_members(source: str, wanted: Mapping[str, Any], level: int) -> Iterator[Sql]:
    """Yield the SQL conditions under which a JSON object contains all members of ``wanted``.

    ``source`` is the SQL expression of the object. ``level`` makes aliases of nested subqueries
    unique.
    """
    yield "1", ()
    row = f"json_{level}"
    for key, value in wanted.items():
        sql, params = _join(_match_value(row, value, level + 1))
        found = f"SELECT 1 FROM json_each({source}) AS {row} WHERE {row}.key = %s AND {sql}"
        yield f"EXISTS ({found})", (key, *params)


def _match_value(row: str, wanted: Any, level: int) -> Iterator[Sql]:
    """Yield the SQL conditions under which the value in a ``json_each`` row contains ``wanted``.

    ``row`` is the alias of the row. ``level`` makes aliases of nested subqueries unique.
    """
    if isinstance(wanted, Mapping):
        yield f"{row}.type = 'object'", ()
        # The CASE is needed because the database may evaluate the conditions in any order, and a
        # string is not valid JSON.
        inside = f"CASE {row}.type WHEN 'object' THEN {row}.value END"
        yield from _match_members(inside, wanted, level)
    elif isinstance(wanted, list):
        yield f"{row}.type = 'array'", ()
        inside = f"CASE {row}.type WHEN 'array' THEN {row}.value END"
        for item in wanted:
            sql, params = _join(_match_value(f"json_{level}", item, level + 1))
            yield f"EXISTS (SELECT 1 FROM json_each({inside}) AS json_{level} WHERE {sql})", params
    elif isinstance(wanted, str):
        yield f"{row}.type = 'text' AND {row}.atom = %s", (wanted,)
    elif wanted is None or isinstance(wanted, bool):
        yield f"{row}.type = %s", (json.dumps(wanted),)
    else:
        # The number is also read as JSON, because an integer may have more digits than SQLite's
        # integers.
        number = f"{row}.atom = json_extract(%s, '$')"
        yield f"{row}.type IN ('integer', 'real') AND {number}", (json.dumps(wanted),)


def _join(conditions: Iterator[Sql]) -> Sql:
    texts, params = zip(*conditions, strict=True)
    return f"({' AND '.join(texts)})", tuple(value for each in params for value in each)
