"""Mappers from rows of prepared queries to model instances."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Generic, TypeVar

from django.db import connections, models
from django.db.models.base import ModelState
from django.db.models.expressions import Col

M = TypeVar("M", bound=models.Model)
Convert = Callable[[Any, Any, Any], Any]


class RowMapper(Generic[M]):
    """The columns of a model, and the conversion of their values to model instances.

    ``more`` are fields for annotations, by attribute name. In a row, their values come after the
    values of the columns. The ``deferred`` columns are read on their first use. The model's
    constructor isn't called, because it takes longer than the database needs for the row. All
    attributes are set with one assignment instead.
    """

    def __init__(
        self, model: type[M], *, deferred: Collection[str] = (), **more: models.Field[Any, Any]
    ) -> None:
        self.model = model
        left_out = [model._meta.get_field(name) for name in deferred]  # fails for unknown names
        self.fields: list[Any] = [
            field for field in model._meta.concrete_fields if field not in left_out
        ]
        self.names = [field.attname for field in self.fields]
        self.more = more
        self._defaults: dict[str, Any] | None = None
        # Callable defaults, which are called for each row.
        self._made: dict[str, Callable[[], Any]] = {}
        self._converters: dict[tuple[str, str], list[tuple[int, Any, list[Convert]]]] = {}

    def under(self, prefix: str) -> list[str]:
        """Return the lookups of the model's columns in a query on a related model.

        ``prefix`` is the lookup of the relation. For the prefix ``thread``, one of the results is
        ``thread__id``.
        """
        return [f"{prefix}__{field.name}" for field in self.fields]

    def read(self, using: str, values: Sequence[Any]) -> M:
        """Return an instance with the values of a row.

        Values after the mapper's own columns are ignored.
        """
        count = len(self.names)
        row = self._converted(using, values)
        made = self._instance(dict(zip(self.names, row, strict=False)))
        made._state.adding = False
        made._state.db = using
        for name, value in zip(self.more, row[count:], strict=True):
            setattr(made, name, value)
        return made

    def new(self, **given: Any) -> M:
        """Return an unsaved instance. Columns that aren't given get their defaults.

        Columns are named by their attributes: ``thread_id`` instead of ``thread``.
        """
        if self._defaults is None:
            self._defaults = self._known_defaults()
        values = {**self._defaults, **given}
        if len(values) > len(self.names):
            unknown = ", ".join(sorted(values.keys() - set(self.names)))
            raise TypeError(f"{self.model.__name__} has no column {unknown}.")
        for name, make in self._made.items():
            if name not in given:
                values[name] = make()
        return self._instance(values)

    def _known_defaults(self) -> dict[str, Any]:
        for field in self.fields:
            if field.has_default() and callable(field.default):
                self._made[field.attname] = field.default
        return {
            field.attname: None if field.attname in self._made else field.get_default()
            for field in self.fields
        }

    def _instance(self, columns: dict[str, Any]) -> M:
        made = self.model.__new__(self.model)
        made.__dict__ = {"_state": ModelState(), **columns}
        return made

    def _converted(self, using: str, values: Sequence[Any]) -> list[Any]:
        row = [*values[: len(self.names) + len(self.more)]]
        connection = connections[using]
        for at, column, converters in self._converters_for(connection):
            if row[at] is None:
                continue  # All converters return None for None.
            for convert in converters:
                row[at] = convert(row[at], column, connection)
        return row

    def _converters_for(self, connection: Any) -> list[tuple[int, Any, list[Convert]]]:
        # Django's converters are methods of a connection and depend on its time zone.
        key = connection.vendor, connection.timezone_name
        found = self._converters.get(key)
        if found is None:
            found = self._converters[key] = list(self._converting(connection))
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
