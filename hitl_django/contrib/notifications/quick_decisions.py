"""Decisions outside of the request page: the types that need no form.

Emails and Slack messages offer Approve and Reject only if a button is enough. Requests with
required fields, with several actions, or with a required claim are decided on the request page.
"""

from __future__ import annotations

from typing import Any

from hitl_django import services
from hitl_django.decision_types import APPROVE, REJECT
from hitl_django.dialects import DIALECTS
from hitl_django.engine.errors import HitlError
from hitl_django.models import Interrupt

TYPES = (APPROVE, REJECT)


def list_quick_decisions(item: Interrupt) -> tuple[str, ...]:
    """Return the decision types that anyone with permission can choose without a form."""
    if item.status != Interrupt.Status.PENDING or item.claim_required:
        return ()
    if _counts_actions(item) > 1:
        return ()
    return tuple(type_ for type_ in TYPES if _is_valid(item, type_, None))


def list_decisions_of(item: Interrupt, user: Any) -> tuple[str, ...]:
    """Return the decision types that a given user can choose without a form."""
    return tuple(type_ for type_ in list_quick_decisions(item) if _is_valid(item, type_, user))


def _counts_actions(item: Interrupt) -> int:
    dialect = DIALECTS[item.dialect]
    return len(dialect.actions(item.payload)) if dialect.requests_actions else 1


def _is_valid(item: Interrupt, type_: str, user: Any) -> bool:
    try:
        services.check_answer(item.pk, type_, by=user)
    except HitlError:
        return False
    return True
