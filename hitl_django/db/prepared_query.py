"""Prepared queries: the ORM compiles them once, and they run many times with other values.

The text, its conditions and its conversions are Django's own, for whichever database; only
building and compiling it, which costs more than running it, happens once for each connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any, NamedTuple

from django.db import connections, models
from django.db.models.sql import UpdateQuery
from django.db.models.sql.compiler import SQLCompiler

from . import raw_cursor

#: Fields whose values both drivers take as they are; any other prepares its own.
_PLAIN = (
    models.CharField,
    models.TextField,
    models.BinaryField,
    models.IntegerField,
    models.BigIntegerField,
    models.SmallIntegerField,
    models.PositiveIntegerField,
    models.BigAutoField,
)


#: No row's state. A row that is found by its key is asked to be of a state or of this one, so that
#: no index for rows of that state serves: where PostgreSQL knows of few such rows yet, it would
#: take that index and read it from end to end.
NO_STATE = ""

#: A parameter in a query's text.
_MARK = re.compile(r"(?<!%)%s")


def prepares(field: models.Field[Any, Any]) -> bool:
    """Returns whether a field's values have to be prepared for the driver."""
    kept: Any = field
    while kept.is_relation:
        kept = kept.target_field
    return type(kept) not in _PLAIN


class Parameter(models.Expression):
    """A value that is known when the query runs: its name, and the field that prepares it.

    With ``many`` it is the members of an IN list, of which there is one at least.
    """

    def __init__(self, name: str, field: models.Field[Any, Any], *, many: bool = False) -> None:
        super().__init__(output_field=field)
        self.name, self.many = name, many
        self.prepares = prepares(field)

    def as_sql(self, compiler: SQLCompiler, connection: Any) -> Any:
        return "%s", (self,)

    def prepared(self, value: Any, connection: Any) -> Any:
        """Returns a value as the driver takes it."""
        if not self.prepares:
            return value
        return self.output_field.get_db_prep_value(value, connection)


class _Compiled:
    """A query's text, made when it first runs on a connection."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], tuple[str, Sequence[Any], bool]] = {}

    def compile(self, using: str) -> tuple[str, Sequence[Any]]:
        raise NotImplementedError

    def ready(self, connection: Any, values: dict[str, Any]) -> tuple[str, list[Any]]:
        """Returns the text and the parameters for these values."""
        key = (connection.alias, connection.vendor)
        found = self._texts.get(key)
        if found is None:
            text, parts = _with_constants(*self.compile(connection.alias))
            many = any(isinstance(part, Parameter) and part.many for part in parts)
            found = self._texts[key] = text, parts, many
        text, parts, many = found
        if many:
            return _expanded(text, parts, values, connection)
        return text, [
            part.prepared(values[part.name], connection) if type(part) is Parameter else part
            for part in parts
        ]


def _with_constants(text: str, parts: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """Writes a query's own constants, which are words and numbers of this code, into its text.

    A partial index is for rows of one state. Where the state is a parameter, SQLite plans the query
    anew whenever it is bound, and PostgreSQL has no plan for all values that uses the index.
    """
    between = _MARK.split(text)
    text, left = between[0], []
    for part, following in zip(parts, between[1:], strict=True):
        mark = "%s"
        if part is None:
            mark = "NULL"
        elif isinstance(part, int) and not isinstance(part, bool):
            mark = str(int(part))
        elif isinstance(part, str) and (not part or part.isidentifier()):
            mark = f"'{part}'"
        else:
            left.append(part)
        text += mark + following
    return text, left


def _expanded(
    text: str, parts: Sequence[Any], values: dict[str, Any], connection: Any
) -> tuple[str, list[Any]]:
    """Fills in the lists, which have as many marks as members."""
    between = text.split("%s")
    text, parameters = between[0], []
    for part, following in zip(parts, between[1:], strict=True):
        marks = "%s"
        if not isinstance(part, Parameter):
            parameters.append(part)
        elif part.many:
            many = values[part.name]
            parameters += [part.prepared(value, connection) for value in many]
            marks = ", ".join(["%s"] * len(many))
        else:
            parameters.append(part.prepared(values[part.name], connection))
        text += marks + following
    return text, parameters


class PreparedSelect(_Compiled):
    """A query for rows as tuples, or of a named ``row``: a ``RowMapper`` converts what needs it.

    With ``lock`` the rows are locked until the transaction ends, where the database can. As a part
    of a ``WriteBatch`` it has one column, which no row leaves empty.
    """

    returning = ()

    def __init__(
        self,
        rows: Callable[[], models.QuerySet[Any, Any]],
        row: type[NamedTuple] | None = None,
        *,
        lock: bool = False,
    ) -> None:
        super().__init__()
        self._rows, self._row, self._lock = rows, row, lock

    def run(self, using: str, **values: Any) -> list[Any]:
        """Returns the rows."""
        connection = connections[using]
        text, parameters = self.ready(connection, values)
        with raw_cursor.open_cursor(connection) as cursor:
            cursor.execute(text, parameters)
            return self.name_columns(cursor.fetchall())

    def name_columns(self, rows: list[Any]) -> list[Any]:
        """Returns the rows of this query as its named ones, if it has any."""
        return rows if self._row is None else [*starmap(self._row, rows)]

    def compile(self, using: str) -> tuple[str, Sequence[Any]]:
        connection = connections[using]
        text, found = self._rows().query.get_compiler(connection=connection).as_sql()
        if self._lock and connection.features.has_select_for_update:
            text += " " + connection.ops.for_update_sql()
        return text, found


class PreparedUpdate(_Compiled):
    """A conditional UPDATE; ``run`` returns how many rows matched.

    As a part of a ``WriteBatch`` it can return the columns named by ``returning``, which have to be
    columns whose values need no conversion.
    """

    def __init__(
        self,
        model: type[models.Model],
        where: models.Q,
        changes: Callable[[], dict[str, Any]],
        returning: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.model, self.where, self.changes, self.returning = model, where, changes, returning

    def run(self, using: str, **values: Any) -> int:
        """Returns the number of rows that matched."""
        connection = connections[using]
        text, parameters = self.ready(connection, values)
        with raw_cursor.open_cursor(connection) as cursor:
            cursor.execute(text, parameters)
            count: int = cursor.rowcount
            return count

    def columns(self, connection: Any) -> str:
        """Returns the RETURNING list: a 1, so that a row that matched is seen, and the columns."""
        fields: list[Any] = [self.model._meta.get_field(name) for name in self.returning]
        return ", ".join(["1", *(connection.ops.quote_name(field.column) for field in fields)])

    def compile(self, using: str) -> tuple[str, Sequence[Any]]:
        query: Any = self.model._base_manager.filter(self.where).query.chain(UpdateQuery)
        query.add_update_values(self.changes())
        found: tuple[str, Sequence[Any]] = query.get_compiler(
            connection=connections[using]
        ).as_sql()
        return found
