"""Prepared queries, which the ORM compiles once and which run many times.

The SQL, its conditions and its conversions are Django's own, for any database. Building and
compiling a query takes longer than running it. A prepared query is built only once, and compiled
only once for each connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import starmap
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections, models
from django.db.models.sql import UpdateQuery
from django.db.models.sql.compiler import SQLCompiler

from . import raw_cursor

#: Fields whose values both drivers accept unchanged.
_PLAIN = (
    models.CharField,
    models.TextField,
    models.BinaryField,
    models.BooleanField,
    models.IntegerField,
    models.BigIntegerField,
    models.SmallIntegerField,
    models.PositiveIntegerField,
    models.PositiveSmallIntegerField,
    models.BigAutoField,
    models.AutoField,
)


#: A state that no row has. A query by primary key for rows of one state also allows this state, so
#: that PostgreSQL can't use the partial index for the first state. Otherwise, PostgreSQL would read
#: that index completely while its statistics show few rows in the state.
NO_STATE = ""

#: Matches a parameter in a query's text.
_MARK = re.compile(r"(?<!%)%s")

#: Converts a field's value for a connection's driver.
Prepare = Callable[[Any, Any], Any]


def find_preparation(field: models.Field[Any, Any], connection: Any) -> Prepare | None:
    """Return the function that prepares a field's values for a connection, or None if unnecessary.

    The prepared values are the same as in Django. Django examines the field's class again for each
    value, which takes most of the time. For common classes, this function examines the class only
    once.
    """
    kept: Any = field
    while kept.is_relation:
        kept = kept.target_field
    prepare: Prepare = kept.get_db_prep_value
    if type(kept) in _PLAIN:
        return None
    if type(kept) is models.UUIDField:
        is_native = connection.features.has_native_uuid_field
        return partial(_prepare_native_uuid if is_native else _prepare_uuid, prepare)
    if type(kept) is models.DateTimeField:
        return partial(_prepare_moment, prepare)
    is_alike = type(kept).get_db_prep_value is models.Field.get_db_prep_value
    # The method of EncryptedField, a TextField, differs only for lookups, whose values are prepared
    # elsewhere.
    if is_alike or isinstance(kept, models.TextField):
        return partial(_prepare_alike, kept.get_prep_value)
    return prepare


def _prepare_native_uuid(prepare: Prepare, value: Any, connection: Any) -> Any:
    return value if type(value) is UUID else prepare(value, connection)


def _prepare_uuid(prepare: Prepare, value: Any, connection: Any) -> Any:
    # Like value.hex, without the call of its property.
    return f"{value.int:032x}" if type(value) is UUID else prepare(value, connection)


def _prepare_moment(prepare: Prepare, value: Any, connection: Any) -> Any:
    if value is None:
        return None
    if type(value) is datetime and value.tzinfo is not None:
        if connection.vendor == "sqlite" and value.tzinfo is UTC is connection.timezone:
            return str(value.replace(tzinfo=None))  # Like Django, without examining the time zones.
        return connection.ops.adapt_datetimefield_value(value)
    return prepare(value, connection)


def _prepare_alike(prepare: Callable[[Any], Any], value: Any, connection: Any) -> Any:
    return prepare(value)


class Parameter(models.Expression):
    """A named value that is passed when the query runs. ``field`` prepares it for the database.

    With ``many``, the value is the list of an IN condition and must not be empty.
    """

    def __init__(self, name: str, field: models.Field[Any, Any], *, many: bool = False) -> None:
        super().__init__(output_field=field)
        self.name, self.many = name, many

    def as_sql(self, compiler: SQLCompiler, connection: Any) -> Any:
        return "%s", (self,)


class _Part(NamedTuple):
    """A value in a query's text: a named parameter, or a constant."""

    name: str | None
    prepare: Prepare | None
    many: bool = False
    constant: Any = None


class _Compiled:
    """A query whose SQL is compiled when the query first runs on a connection."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str, str], tuple[str, list[_Part], bool]] = {}

    def compile(self, using: str) -> tuple[str, Sequence[Any]]:
        raise NotImplementedError

    def ready(self, connection: Any, values: dict[str, Any]) -> tuple[str, list[Any]]:
        """Return the SQL and the parameters for the given values."""
        text, known, many = self._compiled(connection)
        parameters = [
            constant if name is None
            else values[name] if prepare is None
            else prepare(values[name], connection)
            for name, prepare, _, constant in known
        ]  # fmt: skip
        return _with_lists(text, known, parameters) if many else (text, parameters)

    def text(self, connection: Any) -> str:
        """Return the SQL, in which a list parameter has only one placeholder."""
        return self._compiled(connection)[0]

    def _compiled(self, connection: Any) -> tuple[str, list[_Part], bool]:
        key = (connection.alias, connection.vendor, connection.timezone_name)
        found = self._texts.get(key)
        if found is None:
            text, parts = _with_constants(*self.compile(connection.alias))
            known = [_describe(part, connection) for part in parts]
            found = self._texts[key] = text, known, any(part.many for part in known)
        return found


def _describe(part: Any, connection: Any) -> _Part:
    if type(part) is not Parameter:
        return _Part(None, None, constant=part)
    prepare = find_preparation(part.output_field, connection)
    if part.many and prepare is not None:
        return _Part(part.name, partial(_prepare_each, prepare), many=True)
    return _Part(part.name, prepare, part.many)


def _prepare_each(prepare: Prepare, values: Sequence[Any], connection: Any) -> list[Any]:
    return [prepare(value, connection) for value in values]


def _with_constants(text: str, parts: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """Write the constants of a query into its SQL. Constants are words and numbers from the code.

    Some queries need a partial index, for example an index of the rows in one state. With constants
    as parameters, these queries would be slow: SQLite would plan the query each time, and
    PostgreSQL couldn't use the partial index in a generic plan.
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


def _with_lists(text: str, parts: Sequence[_Part], parameters: list[Any]) -> tuple[str, list[Any]]:
    """Expand each list parameter to one placeholder per member of the list.

    Return the SQL, and all parameters in one list.
    """
    between = text.split("%s")
    text = between[0]
    flat: list[Any] = []
    for part, given, following in zip(parts, parameters, between[1:], strict=True):
        members = given if part.many else [given]
        flat += members
        text += ", ".join(["%s"] * len(members)) + following
    return text, flat


class PreparedSelect(_Compiled):
    """A query that returns rows as tuples, or as named tuples of the class ``row``.

    The values are as the driver returns them. A ``RowMapper`` can convert them. With ``lock``, the
    rows are locked until the transaction ends, if the database supports row locks. In a
    ``WriteBatch``, a query with ``lock`` must have one column that is never NULL.
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
        """Return the rows for the given parameter values."""
        connection = connections[using]
        text, parameters = self.ready(connection, values)
        with raw_cursor.open_cursor(connection) as cursor:
            cursor.execute(text, parameters)
            return self.name_columns(cursor.fetchall())

    def name_columns(self, rows: list[Any]) -> list[Any]:
        """Return the rows as named tuples if the query has a ``row`` class.

        Otherwise, return them unchanged.
        """
        return rows if self._row is None else [*starmap(self._row, rows)]

    def compile(self, using: str) -> tuple[str, Sequence[Any]]:
        connection = connections[using]
        text, found = self._rows().query.get_compiler(connection=connection).as_sql()
        if self._lock and connection.features.has_select_for_update:
            text += " " + connection.ops.for_update_sql()
        return text, found


class PreparedUpdate(_Compiled):
    """A conditional UPDATE.

    In a ``WriteBatch``, the UPDATE can return the columns named in ``returning``. The values of
    these columns are not converted.
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
        self._columns: dict[str, str] = {}  # Lists of columns by database vendor.

    def run(self, using: str, **values: Any) -> int:
        """Run the UPDATE with the given values, and return the number of matching rows."""
        connection = connections[using]
        text, parameters = self.ready(connection, values)
        with raw_cursor.open_cursor(connection) as cursor:
            cursor.execute(text, parameters)
            count: int = cursor.rowcount
            return count

    def columns(self, connection: Any) -> str:
        """Return the RETURNING list: a 1, which shows that a row matched, and the columns."""
        found = self._columns.get(connection.vendor)
        if found is None:
            fields: list[Any] = [self.model._meta.get_field(name) for name in self.returning]
            names = [connection.ops.quote_name(field.column) for field in fields]
            found = self._columns[connection.vendor] = ", ".join(["1", *names])
        return found

    def compile(self, using: str) -> tuple[str, Sequence[Any]]:
        query: Any = self.model._base_manager.filter(self.where).query.chain(UpdateQuery)
        query.add_update_values(self.changes())
        found: tuple[str, Sequence[Any]] = query.get_compiler(
            connection=connections[using]
        ).as_sql()
        return found
