"""Queries that the ORM writes once and that run many times with other values.

The text, its conditions and its conversions are Django's own, for whichever database; only
building and compiling it, which costs more than running it, happens once for each connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.db import connections, models
from django.db.models.sql import UpdateQuery
from django.db.models.sql.compiler import SQLCompiler


class Given(models.Expression):
    """A value that is known when the query runs: its name, and the field that prepares it.

    With ``many`` it is the members of an IN list, of which there is one at least.
    """

    def __init__(self, name: str, field: models.Field[Any, Any], *, many: bool = False) -> None:
        super().__init__(output_field=field)
        self.name, self.many = name, many

    def as_sql(self, compiler: SQLCompiler, connection: Any) -> Any:
        return "%s", (self,)


class _Compiled:
    """A query's text, made when it first runs on a connection."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], tuple[list[str], Sequence[Any]]] = {}

    def compile(self, using: str) -> tuple[str, Sequence[Any]]:
        raise NotImplementedError

    def ready(self, using: str, values: dict[str, Any]) -> tuple[str, list[Any]]:
        """Returns the text and the parameters for these values."""
        connection = connections[using]
        key = (using, connection.vendor)
        if key not in self._texts:
            text, found = self.compile(using)
            self._texts[key] = text.split("%s"), found
        between, found = self._texts[key]
        text, parameters = between[0], []
        for part, following in zip(found, between[1:], strict=True):
            marks = "%s"
            if not isinstance(part, Given):
                parameters.append(part)
            else:
                many = values[part.name] if part.many else (values[part.name],)
                prepare = part.output_field.get_db_prep_value
                parameters += [prepare(value, connection) for value in many]
                marks = ", ".join(["%s"] * len(many))
            text += marks + following
        return text, parameters


class Select(_Compiled):
    """A query for rows as tuples, of columns whose values need no conversion."""

    def __init__(self, rows: Callable[[], models.QuerySet[Any, Any]]) -> None:
        super().__init__()
        self._rows = rows

    def run(self, using: str, **values: Any) -> list[Any]:
        """Returns the rows."""
        text, parameters = self.ready(using, values)
        with connections[using].cursor() as cursor:
            cursor.execute(text, parameters)
            return cursor.fetchall()

    def compile(self, using: str) -> tuple[str, Sequence[Any]]:
        found: tuple[str, Sequence[Any]] = (
            self._rows().query.get_compiler(connection=connections[using]).as_sql()
        )
        return found


class Update(_Compiled):
    """A conditional UPDATE; running it says how many rows matched.

    With ``returning`` it can say what those columns hold afterwards, which have to be columns
    whose values need no conversion.
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
        text, parameters = self.ready(using, values)
        with connections[using].cursor() as cursor:
            cursor.execute(text, parameters)
            return cursor.rowcount

    def rows(self, using: str, **values: Any) -> list[Any]:
        """Returns what is ``returning`` of each row that matched."""
        text, parameters = self.ready(using, values)
        with connections[using].cursor() as cursor:
            cursor.execute(text, parameters)
            return cursor.fetchall()

    def compile(self, using: str) -> tuple[str, Sequence[Any]]:
        connection = connections[using]
        query: Any = self.model._base_manager.filter(self.where).query.chain(UpdateQuery)
        query.add_update_values(self.changes())
        text, parameters = query.get_compiler(connection=connection).as_sql()
        if self.returning:
            quote = connection.ops.quote_name
            columns: list[Any] = [self.model._meta.get_field(name) for name in self.returning]
            text += " RETURNING " + ", ".join(quote(field.column) for field in columns)
        return text, parameters
