"""Read-only fields for the columns of a question, as ``QUESTION_COLUMNS`` has them shown."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from rest_framework import serializers

from hitl_django.models import Interrupt
from hitl_django.models.fields import JSONTextField
from hitl_django.models.review import INTERRUPT_COLUMNS

from .fields import Choice, Id, JSONValueField, OffsetDateTimeField


class InterruptColumnsSerializer(serializers.Serializer):
    """Shows the columns of a question that no field of the class is declared for.

    A column has a declared field where it has another name in the API, words of its own, or is
    worked out.
    """

    #: Which of the columns: those whose ``api`` is one of these.
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
    """Return the serializer's field for a column of a question."""
    column: Any = Interrupt._meta.get_field(name)
    if column.choices:
        return Choice(choices=[value for value, _ in column.choices])
    for kind, make in _FIELDS.items():
        if isinstance(column, kind):
            return make(allow_null=True) if column.null else make()
    raise TypeError(f"The API has no field for {name}, a {type(column).__name__}.")


#: From the narrower kind of column to the wider.
_FIELDS: dict[type[models.Field[Any, Any]], Any] = {
    JSONTextField: lambda allow_null=True: JSONValueField(),
    models.CharField: serializers.CharField,
    models.TextField: serializers.CharField,
    models.DateTimeField: OffsetDateTimeField,
    models.BooleanField: serializers.BooleanField,
    models.IntegerField: serializers.IntegerField,
    models.UUIDField: Id,
}
