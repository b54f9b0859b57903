"""Prepared queries: the ORM compiles them once, and they run many times with other values.

The text, its conditions and its conversions are Django's own, for whichever database; only
building and compiling it, which costs more than running it, happens once for each connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import starmap
from typing import Any, NamedTuple
from uuid import UUID

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
    models.PositiveSmallIntegerField,
    models.BigAutoField,
    models.AutoField,
)


#: No row's state. A row that is found by its key is asked to be of a state or of this one, so that
#: no index for rows of that state serves: where PostgreSQL knows of few such rows yet, it would
#: take that index and read it from end to end.
NO_STATE = ""

#: A parameter in a query's text.
_MARK = re.compile(r"(?<!%)%s")

#: What makes of a field's value, for a connection, what the driver takes.
Prepare = Callable[[Any, Any], Any]


def find_preparation(field: models.Field[Any, Any], connection: Any) -> Prepare | None:
    """Return what prepares a field's values for such a connection; None where nothing has to.

    What comes of them is as Django has it. It asks anew with each value what kind of field that is
    for, which takes longer than the rest; so the common kinds are asked once.
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
    if isinstance(kept, models.DateTimeField):
        return partial(_prepare_moment, prepare)
    if type(kept).get_db_prep_value is models.Field.get_db_prep_value:
        return partial(_prepare_alike, kept.get_prep_value)
    return prepare


def _prepare_native_uuid(prepare: Prepare, value: Any, connection: Any) -> Any:
    return value if type(value) is UUID else prepare(value, connection)


def _prepare_uuid(prepare: Prepare, value: Any, connection: Any) -> Any:
    return value.hex if type(value) is UUID else prepare(value, connection)


def _prepare_moment(prepare: Prepare, value: Any, connection: Any) -> Any:
    return None if value is None else prepare(value, connection)


def _prepare_alike(prepare: Callable[[Any], Any], value: Any, connection: Any) -> Any:
    return prepare(value)


class Parameter(models.Expression):
    """A value that is known when the query runs: its name, and the field that prepares it.

    With ``many`` it is the members of an IN list, of which there is one at least.
    """

    def __init__(self, name: str, field: models.Field[Any, Any], *, many: bool = False) -> None:
        super().__init__(output_field=field)
        self.name, self.many = name, many

    def as_sql(self, compiler: SQLCompiler, connection: Any) -> Any:
        return "%s", (self,)


class _Part(NamedTuple):
    """What stands at a mark of a query's text: a value by its name, or without one a constant."""

    name: str | None
    prepare: Prepare | None
    many: bool = False
    constant: Any = None


class _Compiled:
    """A query's text, made when it first runs on a connection."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str, str], tuple[str, list[_Part], bool]] = {}

    def compile(self, using: str) -> tuple[str, Sequence[Any]]:
        raise NotImplementedError

    def ready(self, connection: Any, values: dict[str, Any]) -> tuple[str, list[Any]]:
        """Return the text and the parameters for these values."""
        text, known, many = self._compiled(connection)
        parameters = [
            constant if name is None
            else values[name] if prepare is None
            else prepare(values[name], connection)
            for name, prepare, _, constant in known
        ]  # fmt: skip
        return _with_lists(text, known, parameters) if many else (text, parameters)

    def text(self, connection: Any) -> str:
        """Return the text alone, which has a mark for each list."""
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
    """Write a query's own constants, which are words and numbers of this code, into its text.

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


def _with_lists(text: str, parts: Sequence[_Part], parameters: list[Any]) -> tuple[str, list[Any]]:
    """Fill in the lists, which have as many marks as members."""
    between = text.split("%s")
    text = between[0]
    flat: list[Any] = []
    for part, given, following in zip(parts, parameters, between[1:], strict=True):
        members = given if part.many else [given]
        flat += members
        text += ", ".join(["%s"] * len(members)) + following
    return text, flat


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
        """Return the rows."""
        connection = connections[using]
        text, parameters = self.ready(connection, values)
        with raw_cursor.open_cursor(connection) as cursor:
            cursor.execute(text, parameters)
            return self.name_columns(cursor.fetchall())

    def name_columns(self, rows: list[Any]) -> list[Any]:
        """Return the rows of this query as its named ones, if it has any."""
        return rows if self._row is None else [*starmap(self._row, rows)]

    def compile(self, using: str) -> tuple[str, Sequence[Any]]:
        connection = connections[using]
        text, found = self._rows().query.get_compiler(connection=connection).as_sql()
        if self._lock and connection.features.has_select_for_update:
            text += " " + connection.ops.for_update_sql()
        return text, found


class PreparedUpdate(_Compiled):
    """A conditional UPDATE; ``run`` returns how many rows matched.

    As a part of a ``WriteBatch`` it can return the columns named by ``returning``, whose
    values come as they are stored.
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
        self._columns: dict[str, str] = {}  # by vendor

    def run(self, using: str, **values: Any) -> int:
        """Return the number of rows that matched."""
        connection = connections[using]
        text, parameters = self.ready(connection, values)
        with raw_cursor.open_cursor(connection) as cursor:
            cursor.execute(text, parameters)
            count: int = cursor.rowcount
            return count

    def columns(self, connection: Any) -> str:
        """Return the RETURNING list: a 1, so that a row that matched is seen, and the columns."""
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
