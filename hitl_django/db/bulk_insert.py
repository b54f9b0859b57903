"""Bulk INSERT statements, whose SQL is written once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper

from . import raw_cursor
from .prepared_query import prepares
from .row_mapper import RowMapper

MOST_PARAMETERS = 30_000  # of one statement, where the backend names no limit of its own

Rows = Sequence[Sequence[Any]]
M = TypeVar("M", bound=models.Model)


def insertable_columns(model: type[models.Model]) -> list[str]:
    """Returns the names of the columns that the database doesn't fill in by itself."""
    return [
        field.attname
        for field in model._meta.concrete_fields
        if field.db_default is models.NOT_PROVIDED and not isinstance(field, models.AutoField)
    ]


def take_key(using: str, model: type[models.Model]) -> tuple[Any, datetime] | None:
    """Reserves the primary key of a row to come, and reads the database's clock.

    Rows that refer to it can then be written with it, in one statement. None where a database gives
    keys only to rows.
    """
    connection = connections[using]
    if connection.vendor != "postgresql":
        return None
    table = connection.ops.quote_name(model._meta.db_table)
    with raw_cursor.open_cursor(connection) as cursor:
        cursor.execute(_TAKE, [table, model._meta.pk.column])
        [(key, now)] = cursor.fetchall()
    return key, now


_TAKE = "SELECT nextval(pg_get_serial_sequence(%s, %s)), STATEMENT_TIMESTAMP()"


class _Text:
    """The parts of a statement's text on one kind of database."""

    __slots__ = ("cast", "conflict", "into", "most")

    def __init__(self, into: str, cast: str, conflict: str, most: int) -> None:
        self.into, self.cast, self.conflict, self.most = into, cast, conflict, most


class BulkInsert:
    """An INSERT of many rows, and what becomes of those whose key is there already.

    With ``replaced`` such a row gets the new values of these fields (``key`` names the fields of
    the unique constraint); without, it stays as it is, or with ``fresh`` is an IntegrityError.
    Columns that aren't named take the database's default.
    """

    def __init__(
        self,
        model: type[models.Model],
        fields: Sequence[str],
        *,
        key: Sequence[str] = (),
        replaced: Sequence[str] = (),
        fresh: bool = False,
    ) -> None:
        self.model, self.names, self.key = model, fields, key
        self.replaced, self.fresh = replaced, fresh
        self._texts: dict[str, _Text] = {}  # by vendor
        self._prepared = [
            (at, field) for at, field in enumerate(map(self._field, fields)) if prepares(field)
        ]
        self._row = "(" + ", ".join(["%s"] * len(fields)) + ")"

    def run(self, using: str, rows: Rows) -> None:
        """Inserts the rows; no row is no statement."""
        if rows:
            connection = connections[using]
            with raw_cursor.open_cursor(connection) as cursor:
                for text, parameters in self.statements(connection, rows):
                    cursor.execute(text, parameters)

    def make(self, using: str, row: M, record: RowMapper[M]) -> None:
        """Inserts a row; the record's columns are filled in as the database made them."""
        connection = connections[using]
        [(text, parameters)] = self.statements(connection, [self.values_of(row)])
        with raw_cursor.open_cursor(connection) as cursor:
            cursor.execute(f"{text} RETURNING {record.columns(connection)}", parameters)
            [made] = cursor.fetchall()
        record.fill(using, row, made)

    def values_of(self, row: models.Model) -> list[Any]:
        """Returns an instance as values in this statement's order."""
        held = row.__dict__
        return [held[name] for name in self.names]

    def statements(
        self, connection: BaseDatabaseWrapper, rows: Rows
    ) -> Iterator[tuple[str, list[Any]]]:
        """Yields the statements: one, unless the rows are more than one can take."""
        text = self._text(connection)
        size = text.most // len(self.names)
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            values = ", ".join([self._row] * len(part))
            yield f"{text.into}VALUES {values}{text.conflict}", self._parameters(part, connection)

    def guarded(
        self, connection: BaseDatabaseWrapper, rows: Rows, guards: Sequence[str]
    ) -> tuple[str, list[Any]]:
        """Returns one statement that inserts where each of these tables has its one row."""
        text = self._text(connection)
        # In a list of their own the values don't know which columns they are for; the first row
        # tells, and the others follow it.
        values = ", ".join([text.cast, *[self._row] * (len(rows) - 1)])
        source = ", ".join([*guards, f"(VALUES {values}) AS given"])
        return (
            f"{text.into}SELECT given.* FROM {source}{text.conflict}",
            self._parameters(rows, connection),
        )

    def _parameters(self, rows: Iterable[Sequence[Any]], connection: Any) -> list[Any]:
        parameters: list[Any] = []
        for row in rows:
            if self._prepared:
                values = [*row]
                for at, field in self._prepared:
                    values[at] = field.get_db_prep_save(values[at], connection)
                row = values
            parameters += row
        return parameters

    def _field(self, name: str) -> Any:
        return self.model._meta.get_field(name)

    def _text(self, connection: BaseDatabaseWrapper) -> _Text:
        found = self._texts.get(connection.vendor)
        if found is not None:
            return found
        quote = connection.ops.quote_name

        def columns(names: Sequence[str]) -> list[str]:
            return [quote(self._field(name).column) for name in names]

        # A cast to varchar(10) cuts off what a column of that type would refuse.
        kinds = [self._field(name).db_type(connection).partition("(")[0] for name in self.names]
        conflict = "" if self.fresh else " ON CONFLICT DO NOTHING"
        if self.replaced:
            news = ", ".join(f"{name} = EXCLUDED.{name}" for name in columns(self.replaced))
            conflict = f" ON CONFLICT ({', '.join(columns(self.key))}) DO UPDATE SET {news}"
        found = self._texts[connection.vendor] = _Text(
            f"INSERT INTO {quote(self.model._meta.db_table)} ({', '.join(columns(self.names))}) ",
            "(" + ", ".join(f"CAST(%s AS {kind})" for kind in kinds) + ")",
            conflict,
            connection.features.max_query_params or MOST_PARAMETERS,
        )
        return found
