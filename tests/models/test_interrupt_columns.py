"""The declared treatment of each column of an interrupt, and its readers."""

from __future__ import annotations

from typing import Any

import pytest

from hitl_django.api.serializers.interrupts import InterruptDetailSerializer, InterruptSerializer
from hitl_django.models import Interrupt
from hitl_django.models.review import ERASED_COLUMNS, INTERRUPT_COLUMNS, LARGE_COLUMNS

COLUMNS = [field.name for field in Interrupt._meta.concrete_fields]


def test_every_interrupt_column_is_declared() -> None:
    assert sorted(INTERRUPT_COLUMNS) == sorted(COLUMNS)


def column_of(name: str, field: Any) -> str:
    source = name if field.source == "*" else field.source
    return str(source).removesuffix("_id").removeprefix("is_")


@pytest.mark.parametrize(
    ("serializer", "shown_in"),
    [(InterruptSerializer, {"list"}), (InterruptDetailSerializer, {"list", "detail"})],
)
def test_interrupt_serializer_fields_are_the_declared_api_columns(
    serializer: type, shown_in: set[str]
) -> None:
    shown = {column_of(name, field) for name, field in serializer().fields.items()}
    wanted = {name for name, column in INTERRUPT_COLUMNS.items() if column.api in shown_in}
    assert shown.intersection(COLUMNS) == wanted


def test_interrupt_list_and_queue_columns_exclude_large_columns() -> None:
    listed = {name for name, column in INTERRUPT_COLUMNS.items() if column.api == "list"}
    queued = {name for name, column in INTERRUPT_COLUMNS.items() if column.in_queue}
    assert set(LARGE_COLUMNS).isdisjoint(listed | queued)


def test_interrupt_column_erased_to_null_is_nullable() -> None:
    for name, left in ERASED_COLUMNS.items():
        field = Interrupt._meta.get_field(name)
        assert left is not None or field.null or name == "payload"  # JSON null
