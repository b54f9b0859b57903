"""Simulation of the passing of time in tests, by shifting stored times into the past."""

from __future__ import annotations

from datetime import timedelta

from django.apps import apps
from django.db import models
from django.db.models import F

from hitl_django.db.alias import write_alias
from hitl_django.extensions import iterate_archives
from hitl_django.models import AuditEntry


def move_back(passed: timedelta) -> None:
    """Subtract a duration from all stored times of the package's models.

    The database's clock can't be set. Times in the audit log don't change, because they are part of
    its hashes. Times in archives don't change, because archived rows are compressed.
    """
    unmoved: tuple[type[models.Model], ...] = (
        AuditEntry,
        *(model for model, _ in iterate_archives()),
    )
    for model in apps.get_models():
        ours = model.__module__.startswith("hitl_django.")
        if not ours or model._meta.proxy or issubclass(model, unmoved):
            continue
        moved = {
            field.name: F(field.name) - passed
            for field in model._meta.concrete_fields
            if isinstance(field, models.DateTimeField)
        }
        if moved:
            model._base_manager.using(write_alias()).update(**moved)
