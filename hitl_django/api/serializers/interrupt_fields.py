"""Read-only fields for the columns of an interrupt that ``INTERRUPT_COLUMNS`` lists."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from rest_framework import serializers

from hitl_django.models import Interrupt
from hitl_django.models.fields import JSONTextField
from hitl_django.models.review import INTERRUPT_COLUMNS

from .fields import JSONValueField, OffsetDateTimeField, StrictChoiceField, StrictUUIDField


class InterruptColumnsSerializer(serializers.Serializer):
    """Base class that adds fields for the columns of an interrupt.

    A subclass declares a field only if its name, type or help text differs from the column, or if
    its value is computed.
    """

    #: Values of a column's attribute ``api`` that include the column in this serializer.
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
    """Return the read-only serializer field for a column of an interrupt."""
    column: Any = Interrupt._meta.get_field(name)
    if column.choices:
        return StrictChoiceField(choices=[value for value, _ in column.choices])
    for kind, make in _FIELDS.items():
        if isinstance(column, kind):
            return make(allow_null=True) if column.null else make()
    raise TypeError(f"The API has no field for {name}, a {type(column).__name__}.")


#: Ordered from specific to general column types.
_FIELDS: dict[type[models.Field[Any, Any]], Any] = {
    JSONTextField: lambda allow_null=True: JSONValueField(),
    models.CharField: serializers.CharField,
    models.TextField: serializers.CharField,
    models.DateTimeField: OffsetDateTimeField,
    models.BooleanField: serializers.BooleanField,
    models.IntegerField: serializers.IntegerField,
    models.UUIDField: StrictUUIDField,
}
