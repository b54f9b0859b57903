"""Subjects of threads, found by the key that names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db.models import Model

from hitl_django.engine.errors import InvalidInputError
from hitl_django.permissions import get_policy


@dataclass(frozen=True, slots=True)
class SubjectKey:
    """Names an object of the embedding product: its model as ``app_label.model``, and its key."""

    type: str
    id: str


def find_subject(key: SubjectKey, by: Any) -> Model:
    """Returns the object of this key.

    InvalidInputError where there is none, or none that the user may name: which it is stays open.
    """
    reason = "is nothing that you may start a run about"
    absent = InvalidInputError(f"The subject {reason}.", [("subject", reason)])
    try:
        model = apps.get_model(key.type)
        pk = model._meta.pk.to_python(key.id)
    except (LookupError, ValueError, ValidationError):
        raise absent from None
    rows = model._default_manager.all()
    if by is not None:
        rows = get_policy().visible_subjects(by, rows)
    found: Model | None = rows.filter(pk=pk).first()
    if found is None:
        raise absent
    return found
