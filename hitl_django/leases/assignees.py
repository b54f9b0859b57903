"""Whom a question names: looked up when its row is written, since the engine knows no users."""

from __future__ import annotations

import logging
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db.models import Model

from hitl_django import audit
from hitl_django.engine.terms import ReviewTerms

logger = logging.getLogger("hitl_django")


def assigned_by(terms: ReviewTerms | None, using: str) -> dict[str, Any]:
    """Returns the columns that a question's own terms set: who it is for, and how urgent it is.

    A name that nobody has leaves the question free: it must not be lost over that. The label keeps
    the name, so whoever looks at the question sees what was meant.
    """
    if terms is None:
        return {}
    found: dict[str, Any] = {}
    if terms.assignee:
        user = _user(terms.assignee, using)
        found["assignee_id"] = user and user.pk
        found["assignee_label"] = audit.label(user) if user else terms.assignee[:255]
    if terms.group:
        group = Group.objects.using(using).filter(name=terms.group).first()
        found["group_id"] = group and group.pk
        found["group_label"] = terms.group[:150]
    for column in ("assignee_id", "group_id"):
        if column in found and found[column] is None:
            logger.warning("a question is for an %s that doesn't exist: it is free", column[:-3])
    if terms.priority is not None:
        found["priority"] = terms.priority
    return found


def _user(name: str, using: str) -> Model | None:
    users = get_user_model()
    named = {users.USERNAME_FIELD: name, "is_active": True}
    found: Model | None = users._default_manager.using(using).filter(**named).first()
    return found
