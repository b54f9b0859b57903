"""Columns of an interrupt that depend on its review options and its graph's policy.

The columns are the dialect (the format of the payload), the decision types, the rules for
approvals, and the assignment. Users and groups are looked up when the row is written, because the
engine doesn't use Django.
"""

from __future__ import annotations

import logging
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db.models import Model

from hitl_django import audit
from hitl_django.answers import AnswerOptions, choose_decisions, describe_request
from hitl_django.dialects import is_middleware_node, recognise_dialect
from hitl_django.engine.savers.checkpoint import PendingInterrupt
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.json_text.sanitize import escape_invisible, make_title, shorten
from hitl_django.review_options import ReviewOptions

logger = logging.getLogger("hitl_django")

WHY_LENGTH = 10_000
_NONE = ReviewOptions()

REVIEW_COLUMNS = (
    "title",
    "why",
    "dialect",
    "allowed_decisions",
    "editable",
    "quorum",
    "no_self_approval",
    "claim_required",
)


def build_review_columns(pending: PendingInterrupt, graph: str) -> dict[str, Any]:
    """Return the values of an interrupt for the columns in REVIEW_COLUMNS.

    If the interrupt's review options don't contain a value, the value is taken from the graph's
    review policy.
    """
    raised, terms = pending.interrupt, pending.terms or _NONE
    policy = registry.get_review_policy(graph)
    if pending.kind != "interrupt":
        return _build_columns(
            pending, AnswerOptions(payload=raised.value, kind=pending.kind), terms, policy
        )
    named = terms.dialect or policy.dialect
    dialect = recognise_dialect(raised.value, raised.response_schema, named=named)
    options = AnswerOptions(
        payload=raised.value,
        schema=raised.response_schema,
        dialect=dialect,
        editable=terms.editable,
    )
    return _build_columns(pending, options, terms, policy)


def _build_columns(
    pending: PendingInterrupt, options: AnswerOptions, terms: ReviewOptions, policy: ReviewPolicy
) -> dict[str, Any]:
    title, why = terms.title, terms.why
    if title is None or not title.strip():
        title = describe_request(options, policy)
    if not why:
        why = options.rules.why(options.payload)
    editable = None if terms.editable is None else list(terms.editable)
    return {
        "title": shorten(escape_invisible(title))
        if title
        else make_title(options.payload, _name_requester(pending.node)),
        "why": why[:WHY_LENGTH],
        "dialect": options.dialect,
        "allowed_decisions": list(choose_decisions(options, terms.decisions)),
        "editable": editable,
        "quorum": terms.quorum or policy.quorum,
        "no_self_approval": _choose(terms.no_self_approval, policy.no_self_approval),
        "claim_required": _choose(terms.claim_required, policy.claim_required),
    }


def _name_requester(node: str) -> str:
    # People don't know the class names of an agent's middleware.
    return "The agent" if is_middleware_node(node) else node


def _choose(given: bool | None, otherwise: bool) -> bool:
    return otherwise if given is None else given


def build_assignment_columns(terms: ReviewOptions | None, using: str) -> dict[str, Any]:
    """Return the columns for the assignment and the priority given in the review options.

    If the user or group doesn't exist, the interrupt is unassigned. The label column then contains
    the name of the user or group, so that reviewers can see the intended assignment.
    """
    if terms is None:
        return {}
    found: dict[str, Any] = {}
    if terms.assignee:
        user = _find_user(terms.assignee, using)
        found["assignee_id"] = user and user.pk
        found["assignee_label"] = audit.label_user(user) if user else terms.assignee[:255]
    if terms.group:
        group = Group.objects.using(using).filter(name=terms.group).first()
        found["group_id"] = group and group.pk
        found["group_label"] = terms.group[:150]
    for column in ("assignee_id", "group_id"):
        if column in found and found[column] is None:
            logger.warning("unknown %s in review(); the request is unassigned", column[:-3])
    if terms.priority is not None:
        found["priority"] = terms.priority
    return found


def _find_user(name: str, using: str) -> Model | None:
    users = get_user_model()
    named = {users.USERNAME_FIELD: name, "is_active": True}
    found: Model | None = users._default_manager.using(using).filter(**named).first()
    return found
