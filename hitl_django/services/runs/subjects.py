"""The objects of the project to which threads are related."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db.models import Model

from hitl_django.engine.errors import InvalidInputError
from hitl_django.permissions import get_policy


@dataclass(frozen=True, slots=True)
class SubjectRef:
    """A reference to an object of your project: the model as ``app_label.model``, and the key."""

    type: str
    id: str


def read_subject(given: Model | SubjectRef | None, by: Any) -> Model | None:
    """Return the object that an argument ``subject`` contains or refers to, or None.

    Raises:
        TypeError: if the argument is neither an object nor a reference.
        ValueError: if the object is not stored.
        InvalidInputError: as for ``find_subject``.
    """
    if isinstance(given, SubjectRef):
        return find_subject(given, by)
    if given is not None and not isinstance(given, Model):
        raise TypeError(f"subject must be a model instance or a SubjectRef, not {given!r}.")
    if given is not None and given.pk is None:
        raise ValueError(f"subject must be a saved object, and {given!r} has no primary key.")
    return given


def find_subject(key: SubjectRef, by: Any) -> Model:
    """Return the object to which a reference points.

    Raises:
        InvalidInputError: if the model or the object doesn't exist, or ``by`` may not relate a run
            to the object. If ``by`` is a user, the message is the same in all cases, so that it
            doesn't reveal which objects exist.
    """
    try:
        model = apps.get_model(key.type)
    except (LookupError, ValueError):
        raise _build_error(by, f"names no installed model: {key.type!r}") from None
    reason = f"names no {model._meta.label} that exists: {key.id!r}"
    try:
        pk = model._meta.pk.to_python(key.id)
    except (ValueError, ValidationError):
        raise _build_error(by, reason) from None
    rows = model._default_manager.all()
    if by is not None:
        rows = get_policy().visible_subjects(by, rows)
    found: Model | None = rows.filter(pk=pk).first()
    if found is None:
        raise _build_error(by, reason)
    return found


def _build_error(by: Any, reason: str) -> InvalidInputError:
    if by is not None:
        reason = "is not an object you can start a run for"
    return InvalidInputError(f"The subject {reason}.", [("subject", reason)])
