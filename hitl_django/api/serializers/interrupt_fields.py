"""Read-only fields for the columns of an interrupt listed in ``INTERRUPT_COLUMNS``."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from rest_framework import serializers

from hitl_django.models import Interrupt
from hitl_django.models.fields import JSONTextField
from hitl_django.models.review import INTERRUPT_COLUMNS

from .fields import Choice, Id, JSONValueField, OffsetDateTimeField


class InterruptColumnsSerializer(serializers.Serializer):
    """Base class with fields for the interrupt columns that it doesn't declare itself.

    A column has a declared field if its name or text differs in the API, or if it is computed.
    """

    #: Values of a column's ``api`` that select it for this serializer.
    shown_in: ClassVar[frozenset[str]]

    def get_fields(self) -> dict[str, Any]:
        declared = super().get_fields()
        sources = {field.source or name for name, field in declared.items()}
        columns: dict[str, Any] = {
            name: build_field(name)
            for name, column in INTERRUPT_COLUMNS.items()
            if column.api in self.shown_in and name not in declared and name not in sources
        }
        return declared | columns


def build_field(name: str) -> serializers.Field[Any, Any, Any, Any]:
    """Return the serializer field for a column of an interrupt."""
    column: Any = Interrupt._meta.get_field(name)
    if column.choices:
        return Choice(choices=[value for value, _ in column.choices])
    for kind, make in _FIELDS.items():
        if isinstance(column, kind):
            return make(allow_null=True) if column.null else make()
    raise TypeError(f"The API has no field for {name}, a {type(column).__name__}.")


#: From specific to general column types.
_FIELDS: dict[type[models.Field[Any, Any]], Any] = {
    JSONTextField: lambda allow_null=True: JSONValueField(),
    models.CharField: serializers.CharField,
    models.TextField: serializers.CharField,
    models.DateTimeField: OffsetDateTimeField,
    models.BooleanField: serializers.BooleanField,
    models.IntegerField: serializers.IntegerField,
    models.UUIDField: Id,
}
