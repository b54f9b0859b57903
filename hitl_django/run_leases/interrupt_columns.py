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
    raised, review_options = pending.interrupt, pending.review_options or _NONE
    policy = registry.get_review_policy(graph)
    if pending.kind != "interrupt":
        return _build_columns(
            pending, AnswerOptions(payload=raised.value, kind=pending.kind), review_options, policy
        )
    named = review_options.dialect or policy.dialect
    dialect = recognise_dialect(raised.value, raised.response_schema, named=named)
    options = AnswerOptions(
        payload=raised.value,
        schema=raised.response_schema,
        dialect=dialect,
        editable=review_options.editable,
    )
    return _build_columns(pending, options, review_options, policy)


def _build_columns(
    pending: PendingInterrupt,
    options: AnswerOptions,
    review_options: ReviewOptions,
    policy: ReviewPolicy,
) -> dict[str, Any]:
    title, why = review_options.title, review_options.why
    if title is None or not title.strip():
        title = describe_request(options, policy)
    if not why:
        why = options.rules.why(options.payload)
    editable = None if review_options.editable is None else list(review_options.editable)
    return {
        "title": shorten(escape_invisible(title))
        if title
        else make_title(options.payload, _name_requester(pending.node)),
        "why": why[:WHY_LENGTH],
        "dialect": options.dialect,
        "allowed_decisions": list(choose_decisions(options, review_options.decisions)),
        "editable": editable,
        "quorum": review_options.quorum or policy.quorum,
        "no_self_approval": _choose(review_options.no_self_approval, policy.no_self_approval),
        "claim_required": _choose(review_options.claim_required, policy.claim_required),
    }


def _name_requester(node: str) -> str:
    # People don't know the class names of an agent's middleware.
    return "The agent" if is_middleware_node(node) else node


def _choose(given: bool | None, otherwise: bool) -> bool:
    return otherwise if given is None else given


def build_assignment_columns(review_options: ReviewOptions | None, using: str) -> dict[str, Any]:
    """Return the columns for the assignment and the priority given in the review options.

    If the user or group doesn't exist, the interrupt is unassigned. The label column then contains
    the name of the user or group, so that reviewers can see the intended assignment.
    """
    if review_options is None:
        return {}
    found: dict[str, Any] = {}
    if review_options.assignee:
        user = _find_user(review_options.assignee, using)
        found["assignee_id"] = user and user.pk
        found["assignee_label"] = audit.label_user(user) if user else review_options.assignee[:255]
    if review_options.group:
        group = Group.objects.using(using).filter(name=review_options.group).first()
        found["group_id"] = group and group.pk
        found["group_label"] = review_options.group[:150]
    for column in ("assignee_id", "group_id"):
        if column in found and found[column] is None:
            logger.warning("unknown %s in review(); the request is unassigned", column[:-3])
    if review_options.priority is not None:
        found["priority"] = review_options.priority
    return found


def _find_user(name: str, using: str) -> Model | None:
    users = get_user_model()
    named = {users.USERNAME_FIELD: name, "is_active": True}
    found: Model | None = users._default_manager.using(using).filter(**named).first()
    return found
