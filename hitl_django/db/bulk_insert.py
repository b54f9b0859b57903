"""Prepared INSERT statements for several rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.sql import Query

from hitl_django.models.functions import Now

from . import raw_cursor
from .prepared_query import Prepare, find_preparation

# The maximum number of parameters per statement, if the backend has no limit.
MAX_PARAMETERS = 30_000

Rows = Sequence[Sequence[Any]]
#: Functions that prepare values, by the index of the value in a row. Other values need no
#: preparation.
Preparations = Sequence[tuple[int, Prepare]]


def insertable_columns(model: type[models.Model]) -> list[str]:
    """Return the names of a model's columns that have no database default."""
    return [
        field.attname
        for field in model._meta.concrete_fields
        if field.db_default is models.NOT_PROVIDED and not isinstance(field, models.AutoField)
    ]


class NewKey:
    """A placeholder for the primary key of a row that is inserted in the same batch."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: Any = None

    def find_in(self, row: Sequence[Any]) -> tuple[int, ...]:
        """Return the indexes at which a row contains this placeholder."""
        return tuple([at for at, value in enumerate(row) if value is self])


class _Text:
    """The SQL of an INSERT for one database vendor, and functions that prepare its values."""

    __slots__ = ("cast", "conflict", "into", "most", "one", "preparations", "row")

    def __init__(
        self, into: str, row: str, cast: str, conflict: str, most: int, preparations: Preparations
    ) -> None:
        self.into, self.row, self.cast, self.conflict, self.most = into, row, cast, conflict, most
        self.one = f"{into}VALUES {row}{conflict}"
        self.preparations = preparations


class BulkInsert:
    """An INSERT of several rows, with a rule for rows whose key already exists.

    ``replaced`` are the fields that an existing row gets from the new row. ``key`` then names the
    fields of the unique constraint. With ``fresh``, an existing row raises IntegrityError. Without
    both, an existing row remains unchanged. Columns that aren't in ``fields`` get the database
    default.
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
        # Statements by database vendor and time zone.
        self._texts: dict[tuple[str, str], _Text] = {}

    def run(self, using: str, rows: Rows) -> None:
        """Insert the rows. If there are no rows, do nothing."""
        if rows:
            connection = connections[using]
            with raw_cursor.open_cursor(connection) as cursor:
                for text, parameters in self.statements(connection, rows):
                    cursor.execute(text, parameters)

    @property
    def writes_each(self) -> bool:
        """Whether each row is written or raises an error, so that no row is skipped."""
        return self.fresh or bool(self.replaced)

    def values_of(self, row: models.Model) -> list[Any]:
        """Return the values of a model instance in the order of the INSERT's columns."""
        held = row.__dict__
        return [held[name] for name in self.names]

    def statements(
        self, connection: BaseDatabaseWrapper, rows: Rows, key: NewKey | None = None
    ) -> list[tuple[str, list[Any]]]:
        """Return the statements that insert the rows, each with its parameters.

        The result is a single statement, unless the rows have more values than the database accepts
        in one statement. ``key.value`` is inserted where a row contains the placeholder ``key``.
        """
        text = self._text(connection)
        if len(rows) == 1:
            return [(text.one, _prepare_rows(text, connection, rows, key))]
        size = text.most // len(self.names)
        parts = [rows[start : start + size] for start in range(0, len(rows), size)]
        return [
            (
                f"{text.into}VALUES {', '.join([text.row] * len(part))}{text.conflict}",
                _prepare_rows(text, connection, part, key),
            )
            for part in parts
        ]

    def keyed(self, connection: BaseDatabaseWrapper) -> str:
        """Return the SQL that inserts one row and returns its primary key as the column ``key``."""
        column = connection.ops.quote_name(self._field("pk").column)
        return f"{self._text(connection).one} RETURNING {column} AS key"

    def guarded(
        self,
        connection: BaseDatabaseWrapper,
        count: int,
        guards: Sequence[str],
        keys: Sequence[int] = (),
    ) -> str:
        """Return SQL that inserts ``count`` rows if each of the ``guards`` has one row.

        ``guards`` are the names of common table expressions. ``keys`` are indexes of columns of the
        INSERT. In these columns, each inserted row gets the value of the column ``key`` of the
        first common table expression.
        """
        text = self._text(connection)
        # The values are in a separate list, where they don't have the types of the columns. The
        # first row is cast, and determines the types of the other rows.
        values = ", ".join([text.cast, *[text.row] * (count - 1)])
        source = ", ".join([*guards, f"(VALUES {values}) AS given"])
        columns = "given.*"
        if keys:
            named = [f"given.column{at + 1}" for at in range(len(self.names))]
            for at in keys:
                named[at] = f"{guards[0]}.key"
            columns = ", ".join(named)
        return f"{text.into}SELECT {columns} FROM {source}{text.conflict}"

    def provided(self, connection: BaseDatabaseWrapper, condition: str) -> str:
        """Return SQL that inserts one row only if the query ``condition`` finds a row."""
        text = self._text(connection)
        return f"{text.into}SELECT {text.row[1:-1]} WHERE EXISTS ({condition}){text.conflict}"

    def parameters(
        self, connection: BaseDatabaseWrapper, rows: Rows, key: NewKey | None = None
    ) -> list[Any]:
        """Return the values of all rows as one list, in the form that the driver requires.

        The result contains ``key.value`` where a row contains the placeholder ``key``.
        """
        return _prepare_rows(self._text(connection), connection, rows, key)

    def _field(self, name: str) -> Any:
        return self.model._meta.pk if name == "pk" else self.model._meta.get_field(name)

    def _text(self, connection: BaseDatabaseWrapper) -> _Text:
        at = connection.vendor, connection.timezone_name
        found = self._texts.get(at)
        if found is not None:
            return found
        quote = connection.ops.quote_name

        def columns(names: Sequence[str]) -> list[str]:
            return [quote(self._field(name).column) for name in names]

        # A cast to varchar(10) would truncate a value that the column would reject.
        kinds = [self._field(name).db_type(connection).partition("(")[0] for name in self.names]
        conflict = "" if self.fresh else " ON CONFLICT DO NOTHING"
        if self.replaced:
            news = ", ".join(f"{name} = EXCLUDED.{name}" for name in columns(self.replaced))
            conflict = f" ON CONFLICT ({', '.join(columns(self.key))}) DO UPDATE SET {news}"
        defaults = dict(self._find_written_defaults(connection))
        names = [*columns(self.names), *columns([*defaults])]
        found = self._texts[at] = _Text(
            f"INSERT INTO {quote(self.model._meta.db_table)} ({', '.join(names)}) ",
            "(" + ", ".join([*["%s"] * len(self.names), *defaults.values()]) + ")",
            "(" + ", ".join(f"CAST(%s AS {kind})" for kind in kinds) + ")",
            conflict,
            connection.features.max_query_params or MAX_PARAMETERS,
            [*self._find_preparations(connection)],
        )
        return found

    def _find_written_defaults(self, connection: BaseDatabaseWrapper) -> Iterator[tuple[str, str]]:
        """Yield the columns whose default is the current time, each with the SQL of the default.

        If the database supports DEFAULT in an INSERT, nothing is yielded. On other databases, the
        INSERT must contain the SQL of the default, because the default in the table may use another
        clock. The INSERTs of the ORM also contain this SQL.
        """
        if connection.features.supports_default_keyword_in_insert:
            return
        compiler = Query(self.model).get_compiler(connection=connection)
        for field in self.model._meta.concrete_fields:
            if isinstance(field.db_default, Now) and field.attname not in self.names:
                yield field.attname, compiler.compile(field.db_default)[0]

    def _find_preparations(self, connection: BaseDatabaseWrapper) -> Iterator[tuple[int, Prepare]]:
        for at, name in enumerate(self.names):
            prepare = find_preparation(self._field(name), connection)
            if prepare is not None:
                yield at, prepare


def _prepare_rows(
    text: _Text, connection: BaseDatabaseWrapper, rows: Rows, key: NewKey | None
) -> list[Any]:
    parameters: list[Any] = []
    for row in rows:
        values = [*row] if key is None else [key.value if at is key else at for at in row]
        for at, prepare in text.preparations:
            values[at] = prepare(values[at], connection)
        parameters += values
    return parameters
