"""Rows of compiled queries as model instances."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from django.db import connections, models
from django.db.models.expressions import Col

M = TypeVar("M", bound=models.Model)
Convert = Callable[[Any, Any, Any], Any]


class Record(Generic[M]):
    """All columns of a model: their names for a query, and a row of them as an instance.

    ``more`` are annotations that follow the columns, by the attribute that takes them. With
    ``only`` it is no more than these columns, to fill in on an instance.
    """

    def __init__(
        self, model: type[M], only: Sequence[str] = (), **more: models.Field[Any, Any]
    ) -> None:
        self.model = model
        self.fields: list[Any] = list(model._meta.concrete_fields)
        if only:
            self.fields = [field for field in self.fields if field.attname in only]
        self.names = [field.attname for field in self.fields]
        self.more = more
        self._converters: dict[str, list[tuple[int, Any, list[Convert]]]] = {}  # by vendor

    def under(self, prefix: str) -> list[str]:
        """Returns the names as a query calls them that reaches the model by a relation."""
        return [f"{prefix}__{field.name}" for field in self.fields]

    def columns(self, connection: Any) -> str:
        """Returns what RETURNING names."""
        return ", ".join(connection.ops.quote_name(field.column) for field in self.fields)

    def read(self, using: str, values: Sequence[Any]) -> M:
        """Returns a row as an instance; what follows is not looked at."""
        count = len(self.names)
        row = self._converted(using, values)
        made = self.model.from_db(using, self.names, row[:count])
        for name, value in zip(self.more, row[count:], strict=True):
            setattr(made, name, value)
        return made

    def fill(self, using: str, instance: M, values: Sequence[Any]) -> None:
        """Sets the columns of a row on an instance."""
        for name, value in zip(self.names, self._converted(using, values), strict=True):
            setattr(instance, name, value)

    def _converted(self, using: str, values: Sequence[Any]) -> list[Any]:
        row = [*values[: len(self.names) + len(self.more)]]
        connection = connections[using]
        for at, column, converters in self._converters_for(connection):
            for convert in converters:
                row[at] = convert(row[at], column, connection)
        return row

    def _converters_for(self, connection: Any) -> list[tuple[int, Any, list[Convert]]]:
        found = self._converters.get(connection.vendor)
        if found is None:
            found = self._converters[connection.vendor] = list(self._converting(connection))
        return found

    def _converting(self, connection: Any) -> Iterator[tuple[int, Any, list[Convert]]]:
        columns = [field.get_col("") for field in self.fields]
        columns += [Col("", field) for field in self.more.values()]
        for at, column in enumerate(columns):
            converters = [
                *connection.ops.get_db_converters(column),
                *column.get_db_converters(connection),
            ]
            if converters:
                yield at, column, converters
