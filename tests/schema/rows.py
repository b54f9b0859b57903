"""Rows of models in the state of a migration."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

from django.db import models

from hitl_django.contrib.archive.partitions import TABLE, make_partitions

_numbers = itertools.count(1)

#: Values of columns without a default, by the field's internal type.
SAMPLES: dict[str, Any] = {
    "BinaryField": lambda number: b"%d" % number,
    "BooleanField": lambda number: True,
    "CharField": lambda number: f"v{number}",
    "DateField": lambda number: date(2026, 1, 2),
    "DateTimeField": lambda number: datetime(2026, 1, 2, tzinfo=UTC),
    "FloatField": float,
    "IntegerField": lambda number: number,
    "JSONField": lambda number: {"number": number},
    "TextField": lambda number: f"v{number}",
    "URLField": lambda number: f"https://example.com/{number}",
    "UUIDField": lambda number: uuid.uuid4(),
}


def tables(apps: Any, label: str) -> list[Any]:
    found = [model for model in apps.get_models() if _has_table(model, label)]
    return sorted(found, key=lambda model: model.__name__)


def insert(model: Any, alias: str, **given: Any) -> Any:
    row = model(**values(model, alias, given))
    if model._meta.db_table == TABLE:
        make_partitions(alias, [row.ended_at])
    row.save(using=alias, force_insert=True)
    return row


def values(model: Any, alias: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a new row, without columns that the database fills."""
    found = dict(given)
    for field in model._meta.concrete_fields:
        if field.name in found or isinstance(field, models.AutoField) or _is_filled(field):
            continue
        if field.is_relation:
            found[field.name] = insert(field.related_model, alias)
        elif field.choices:
            found[field.name] = field.choices[0][0]
        else:
            found[field.name] = sample(field)
    return found


def sample(field: Any) -> Any:
    kind = "IntegerField" if isinstance(field, models.IntegerField) else field.get_internal_type()
    value = SAMPLES[kind](next(_numbers))
    return value[-field.max_length :] if isinstance(value, str) and field.max_length else value


def new_kinds(label: str, old: Any, new: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield rows that only the newer state of an app allows: a model, and the values of its
    columns.

    These are rows of new tables, with values in new columns, with new choices, with NULL where it
    is newly allowed, or with text longer than before.
    """
    before = {model.__name__: model for model in tables(old, label)}
    for model in tables(new, label):
        if model.__name__ not in before:
            yield model, {}
            continue
        fields = {field.name: field for field in before[model.__name__]._meta.concrete_fields}
        for field in model._meta.concrete_fields:
            for value in _new_values(fields.get(field.name), field):
                yield model, {field.name: value}


def _new_values(old: Any, new: Any) -> Iterator[Any]:
    choices = [value for value, _ in new.choices or ()]
    if new.is_relation or new.primary_key:
        return
    if old is None:
        yield from choices or [sample(new)]
        return
    yield from [value for value in choices if value not in dict(old.choices or ())]
    if new.null and not old.null:
        yield None
    if not choices and (new.max_length or 0) > (old.max_length or new.max_length or 0):
        yield "v" * new.max_length


def _is_filled(field: Any) -> bool:
    return bool(field.has_default() or field.has_db_default() or field.null)


def _has_table(model: Any, label: str) -> bool:
    meta = model._meta
    return bool(meta.app_label == label and meta.managed and not meta.proxy)
